# SPDX-License-Identifier: Apache-2.0
"""Which Servers of a group may serve when not all of them took their role. Pure.

A prefill Server must be Ready; a decode Server must have taken its role; both need one confirmed link. Servers
without a surviving peer fall too, until nothing changes. Seed: controller manual, faulty Servers at initialisation
(a prefill Server still switching is faulty, a decode Server without any link is faulty).
"""

from __future__ import annotations

from collections.abc import Collection

from controller_runtime.api.roles import Role, RoleState
from controller_runtime.ms.server_registry import KnownServer, ServerRegistry


def survivors(servers: Collection[KnownServer], registry: ServerRegistry) -> set[KnownServer]:
    """The Servers of one group that may serve."""
    alive = {server for server in servers if _has_taken_role(server)}
    while True:
        linked = {server for server in alive if _has_link(server, alive)}
        linked = {server for server in linked if all(other in linked for other in registry.instance_of(server))}
        if linked == alive:
            return alive
        alive = linked


def _has_taken_role(server: KnownServer) -> bool:
    if not server.is_healthy or not server.is_in_role:
        return False
    return server.role_state is RoleState.READY or server.role is not Role.PREFILL


def _has_link(server: KnownServer, alive: set[KnownServer]) -> bool:
    """A link counts when this side reports it, or is Ready, and so does the other."""
    peers = (other for other in alive if other.role is server.role.opposite and other.role is not server.role)
    return any(_confirms(server, peer.id) and _confirms(peer, server.id) for peer in peers)


def _confirms(server: KnownServer, peer_id: int) -> bool:
    return server.role_state is RoleState.READY or peer_id in server.active_peers
