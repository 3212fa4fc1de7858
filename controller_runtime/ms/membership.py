# SPDX-License-Identifier: Apache-2.0
"""Keep the registry in step with the rank table: who comes, who goes, who comes back, and where newcomers go.

Seed: controller manual, `disappeared_server_waiting_seconds`; deployment manual, step 8.
"""

from __future__ import annotations

from collections.abc import Mapping

from controller_runtime.api.roles import Role
from controller_runtime.foundation.log import get_logger
from controller_runtime.ms.assignment import Place, place_newcomer
from controller_runtime.ms.rank_table import Layout, diff
from controller_runtime.ms.role_decision.ratio import Split
from controller_runtime.ms.server_registry import KnownServer, ServerRegistry
from controller_runtime.ms.server_spec import ServerKey, ServerSpec, assign_ids

log = get_logger(__name__)


class Membership:
    """Applies layouts to the registry.

    Until `is_formed` nobody has a role, so who leaves is forgotten at once. `target`: the split newcomers
    without a fixed role are measured against.
    """

    def __init__(self, registry: ServerRegistry, *, waiting_s: int) -> None:
        self._registry = registry
        self._waiting_s = waiting_s
        self._succeeded: set[int] = set()
        self.is_formed = False
        self.target: Split | None = None

    def apply(self, layout: Layout, known_ids: Mapping[ServerKey, int], now_epoch_s: int) -> None:
        """Bring the registry to this layout. `known_ids` are ids to prefer, from a backup."""
        change = diff({server.spec.key: server.spec for server in self._registry if server.delete_time == 0}, layout)
        by_key = {server.spec.key: server for server in self._registry}
        for key in change.removed:
            self._leave(by_key[key], now_epoch_s)
        for spec in change.kept:
            self._keep(by_key[spec.key], spec)
        ids = assign_ids(layout.servers, {**known_ids, **self._registry.ids})
        for spec in change.added:
            self._join(spec, ids[spec.key])

    def forget_expired(self, now_epoch_s: int) -> None:
        """Remove who has been gone for longer than a vanished Server may be."""
        self._succeeded.difference_update(self._registry.forget_expired(now_epoch_s, self._waiting_s))

    def place_newcomers(self) -> None:
        """Give every Server that answers and has no role its place."""
        for server in self._registry.present:
            if server.role is Role.UNDEFINED and server.has_answered and server.is_healthy:
                siblings = [other for other in self._registry.instance_of(server) if other.role is not Role.UNDEFINED]
                place = Place(siblings[0].role, siblings[0].group_id) if siblings else self._place(server)
                virtual_id = siblings[0].virtual_id if siblings else server.id
                keeps_role = server.current_role is place.role.word
                self._registry.assign(server, place.role, place.group_id, virtual_id, is_joining=not keeps_role)

    def _place(self, server: KnownServer) -> Place:
        predecessor = self._predecessor(server)
        if predecessor is None:
            return place_newcomer(server.spec, None, self._counts(), self.target, server.current_role.role)
        self._succeeded.add(predecessor.id)
        return place_newcomer(server.spec, Place(predecessor.role, predecessor.group_id), self._counts(), self.target)

    def _predecessor(self, server: KnownServer) -> KnownServer | None:
        """The vanished Server whose address, else whose host, this one has."""
        gone = [
            other for other in self._registry if other.delete_time and other.role is not Role.UNDEFINED and other.id not in self._succeeded
        ]
        same = [other for other in gone if other.spec.ip == server.spec.ip] or [
            other for other in gone if other.spec.host_ip and other.spec.host_ip == server.spec.host_ip
        ]
        return max(same, key=lambda other: (other.delete_time, other.id), default=None)

    def _counts(self) -> dict[int, Split]:
        counts: dict[int, Split] = {}
        for server in self._registry.present:
            if server.role is Role.UNDEFINED:
                continue
            split = counts.get(server.group_id, Split(0, 0))
            is_prefill = server.role is Role.PREFILL
            counts[server.group_id] = Split(split.prefill + is_prefill, split.decode + (not is_prefill))
        return counts

    def _leave(self, server: KnownServer, now_epoch_s: int) -> None:
        if self.is_formed and server.role is not Role.UNDEFINED:
            self._registry.vanish(server, now_epoch_s)
        else:
            self._registry.remove(server)

    def _join(self, spec: ServerSpec, server_id: int) -> None:
        known = self._registry.get(server_id)
        if known is None:
            self._registry.add(KnownServer(id=server_id, spec=spec, virtual_id=server_id))
            return
        self._registry.reappear(known, spec)
        self._follow_fixed_role(known)

    def _keep(self, server: KnownServer, spec: ServerSpec) -> None:
        if spec == server.spec:
            return
        self._registry.change_row(server, spec)
        if server.role is not Role.UNDEFINED:
            self._follow_fixed_role(server)

    def _follow_fixed_role(self, server: KnownServer) -> None:
        if server.spec.has_fixed_role and server.spec.role is not server.role:
            place = place_newcomer(server.spec, None, self._counts(), self.target)
            self._registry.assign(server, place.role, place.group_id, server.virtual_id, is_joining=True)
