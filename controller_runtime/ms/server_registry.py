# SPDX-License-Identifier: Apache-2.0
"""The Servers a leader knows and the state machine of each.

                  role post accepted              status: Ready in its role
      Unknown ──────────────────────▶ Switching ──────────────────────────▶ Ready
         ▲ ▲                             │ │                                  │
         │ └──── post failed ────────────┘ └─ budget exhausted ─▶ faulty      │
         └──── no valid status, or the Server lost its role ◀─────────────────┘

Invariants
- A record outlives its rank-table row by `disappeared_server_waiting_seconds`; within that time the Server
  gets its id, role and group back.
- `peers` are wanted, `active_peers` reported; a Server that is joining, gone or faulty is wanted by nobody.
- A status asked for before the last role post is older than that post and says nothing about the role.
Seed: controller manual, table 2 and 3, initialisation of roles; `disappeared_server_waiting_seconds`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from controller_runtime.api.roles import CurrentRole, Label, Role, RoleState
from controller_runtime.api.server_api import Resource, ServerConfig
from controller_runtime.foundation.log import get_logger
from controller_runtime.ms.server_spec import ServerKey, ServerSpec
from controller_runtime.ms.status_parser import Report

log = get_logger(__name__)

NO_RESOURCE = Resource(avail_slots_num=0, avail_block_num=0)


@dataclass(frozen=True, slots=True)
class Wiring:
    """What a role post says: the role and the ids of the peers, sorted."""

    role: Role
    peers: tuple[int, ...]


@dataclass(slots=True, eq=False)
class KnownServer:
    """One Server. Everything below `spec` is changed by `ServerRegistry` only.

    `delete_time`: epoch seconds when it left the rank table, 0 while it is in it. `is_joining`: peers do not
    list it until it has accepted its role. `accepted`: the last wiring it took, None when it has none.
    `posts` counts role posts; `has_served`: it was seen in its role, so peers may hold links to it.
    """

    id: int
    spec: ServerSpec
    role: Role = Role.UNDEFINED
    group_id: int = 0
    virtual_id: int = 0
    role_state: RoleState = RoleState.UNKNOWN
    current_role: CurrentRole = CurrentRole.NONE
    active_peers: frozenset[int] = frozenset()
    reported_peers: frozenset[int] = frozenset()
    config: ServerConfig | None = None
    resource: Resource = NO_RESOURCE
    total_slots: int = 0
    total_blocks: int = 0
    is_healthy: bool = False
    is_initialized: bool = False
    is_faulty: bool = False
    is_joining: bool = False
    delete_time: int = 0
    accepted: Wiring | None = None
    posts: int = 0
    has_answered: bool = False
    has_served: bool = False

    @property
    def label(self) -> Label:
        """The label its role implies."""
        return Label.of(self.role)

    @property
    def is_present(self) -> bool:
        """In the rank table and not faulty: polled, and used when healthy."""
        return self.delete_time == 0 and not self.is_faulty

    @property
    def is_in_role(self) -> bool:
        """It says it has the role it was given."""
        return self.role is not Role.UNDEFINED and self.current_role is self.role.word and self.role_state is not RoleState.UNKNOWN


class ServerRegistry:
    """All known Servers by id.

    `version` grows with every change, `wiring_version` only when roles, health or links changed.
    """

    def __init__(self) -> None:
        self._by_id: dict[int, KnownServer] = {}
        self.version = 0
        self.wiring_version = 0
        self._signal = asyncio.Event()
        self._linkable: dict[tuple[int, Role], list[int]] = {}
        self._linkable_version = -1

    def __iter__(self) -> Iterator[KnownServer]:
        """All records, ordered by id."""
        return iter(sorted(self._by_id.values(), key=lambda server: server.id))

    def __len__(self) -> int:
        return len(self._by_id)

    def get(self, server_id: int) -> KnownServer | None:
        """The record with this id."""
        return self._by_id.get(server_id)

    @property
    def ids(self) -> dict[ServerKey, int]:
        """Ids in use, by identity."""
        return {server.spec.key: server.id for server in self._by_id.values()}

    @property
    def present(self) -> list[KnownServer]:
        """Servers in the table that are not faulty, ordered by id."""
        return [server for server in self if server.is_present]

    def instance_of(self, server: KnownServer) -> list[KnownServer]:
        """The Servers of the same instance, itself included, ordered by id."""
        if not server.spec.is_distributed:
            return [server]
        return [other for other in self if other.spec.instance == server.spec.instance and other.delete_time == 0]

    def wiring_of(self, server: KnownServer) -> Wiring:
        """The role and peers a Server should have now."""
        if self._linkable_version != self.wiring_version:
            self._linkable.clear()
            for other in self:
                if other.is_present and not other.is_joining:
                    self._linkable.setdefault((other.group_id, other.role), []).append(other.id)
            self._linkable_version = self.wiring_version
        opposite = server.role.opposite
        peers = () if opposite is server.role else self._linkable.get((server.group_id, opposite), ())
        return Wiring(server.role, tuple(peers))

    async def changed_since(self, wiring_version: int) -> int:
        """Wait until `wiring_version` is not the current one; return the current one."""
        while self.wiring_version == wiring_version:
            await self._signal.wait()
        return self.wiring_version

    def add(self, server: KnownServer) -> None:
        """Take in a new record."""
        self._by_id[server.id] = server
        log.info("server added", server=server.spec.ip, id=server.id, role=server.role.letter)
        self._wiring_changed()

    def remove(self, server: KnownServer) -> None:
        """Forget a record."""
        if self._by_id.pop(server.id, None) is not None:
            log.info("server removed", server=server.spec.ip, id=server.id)
            self._wiring_changed()

    def assign(self, server: KnownServer, role: Role, group_id: int, virtual_id: int, *, is_joining: bool) -> None:
        """Give a Server its role and group. Nothing is sent."""
        server.role, server.group_id, server.virtual_id = role, group_id, virtual_id
        server.is_joining = is_joining
        log.info("[NodeStatus]UpdateServerInfo", role=role.letter, server=server.spec.ip, id=server.id, group=group_id)
        self._wiring_changed()

    def take_over(self) -> None:
        """After roles came from a backup or from the Servers: leave alone who already has what it should.

        A Server that lost its role while its peers kept theirs joins again, so that they drop their dead links first.
        """
        for server in self.present:
            if server.is_in_role:
                self._settle(server)
        for server in self.present:
            peers = [self._by_id[peer_id] for peer_id in self.wiring_of(server).peers]
            if server.has_answered and not server.is_in_role and any(server.id in peer.reported_peers for peer in peers):
                server.is_joining = True
        self._wiring_changed()

    def accept_config(self, server: KnownServer, config: ServerConfig) -> None:
        """Store the static configuration."""
        if config != server.config:
            server.config = config
            self.version += 1

    def accept_status(self, server: KnownServer, report: Report, posts: int) -> None:
        """Store what a Server reports; `posts` is the record's counter from before the status was asked for."""
        server.has_answered = True
        if report.resource != server.resource:
            server.resource = report.resource
            self.version += 1
        if posts != server.posts:
            return
        before = (server.role_state, server.current_role, server.active_peers, server.is_healthy)
        server.is_healthy = True
        server.role_state, server.current_role = report.role_state, report.current_role
        server.active_peers, server.reported_peers = report.active, report.targets
        if before[0] is not server.role_state:
            log.info("role state changed", server=server.spec.ip, id=server.id, state=server.role_state, role=server.current_role)
        if server.is_in_role:
            self._settle(server)
        elif server.is_initialized and server.current_role is CurrentRole.NONE and server.role_state is RoleState.UNKNOWN:
            self._lose_role(server)
        if before != (server.role_state, server.current_role, server.active_peers, server.is_healthy):
            self._wiring_changed()

    def fail_status(self, server: KnownServer) -> None:
        """Note that there was no valid status. Last resources and links stay."""
        if server.is_healthy or server.role_state is not RoleState.UNKNOWN:
            log.warning("server unhealthy", server=server.spec.ip, id=server.id)
            server.is_healthy, server.role_state = False, RoleState.UNKNOWN
            self._wiring_changed()

    def accept_post(self, server: KnownServer, wiring: Wiring) -> None:
        """Note that a Server took a role post."""
        is_rewire = server.is_initialized and server.is_in_role
        server.posts += 1
        server.accepted = wiring
        server.is_initialized = server.is_healthy = True
        server.is_joining = False
        if not is_rewire:
            server.role_state = RoleState.SWITCHING
        self._wiring_changed()

    def fail_post(self, server: KnownServer) -> None:
        """Note that a Server refused its role. One that already has it keeps serving with the old links."""
        server.posts += 1
        server.accepted = None
        if not server.is_in_role:
            server.role_state, server.is_healthy, server.is_initialized = RoleState.UNKNOWN, False, False
        self._wiring_changed()

    def mark_faulty(self, servers: Iterable[KnownServer]) -> None:
        """Take Servers out of use until they answer again."""
        for server in servers:
            if not server.is_faulty:
                server.is_faulty, server.accepted = True, None
                log.warning("server faulty", server=server.spec.ip, id=server.id, role=server.role.letter)
        self._wiring_changed()

    def readmit(self, server: KnownServer) -> None:
        """Take a faulty Server that answers again back in; peers learn of it once it has its role."""
        server.is_faulty, server.is_initialized, server.is_joining, server.accepted = False, False, True, None
        log.info("faulty server answers again", server=server.spec.ip, id=server.id)
        self._wiring_changed()

    def vanish(self, server: KnownServer, now_epoch_s: int) -> None:
        """Note that a Server left the rank table; its record stays for a while."""
        server.delete_time = max(1, now_epoch_s)
        server.is_healthy = server.is_initialized = False
        server.role_state, server.active_peers, server.accepted = RoleState.UNKNOWN, frozenset(), None
        log.warning("server left the rank table", server=server.spec.ip, id=server.id, role=server.role.letter)
        self._wiring_changed()

    def reappear(self, server: KnownServer, spec: ServerSpec) -> None:
        """Note that a vanished Server is back: same id, role and group; it gets its role posted again."""
        server.spec, server.delete_time, server.is_faulty, server.is_joining = spec, 0, False, True
        log.info("server is back in the rank table", server=spec.ip, id=server.id, role=server.role.letter)
        self._wiring_changed()

    def change_row(self, server: KnownServer, spec: ServerSpec) -> None:
        """Note that the rank table says something else about a Server that stays, such as its ports."""
        server.spec = spec
        log.info("rank table row changed", server=spec.ip, id=server.id)
        self._wiring_changed()

    def forget_expired(self, now_epoch_s: int, waiting_s: int) -> list[int]:
        """Remove the records of Servers that left more than `waiting_s` ago; return their ids."""
        expired = [server for server in self if server.delete_time and now_epoch_s - server.delete_time > waiting_s]
        for server in expired:
            self.remove(server)
        return [server.id for server in expired]

    def needs_post(self, server: KnownServer) -> bool:
        """True when a healthy Server should be sent its role (again).

        A joining Server waits until no working peer lists it any more: the peers must drop links to its former life first.
        """
        if not (server.is_present and server.is_healthy and server.has_answered) or server.role is Role.UNDEFINED:
            return False
        wiring = self.wiring_of(server)
        if server.accepted == wiring:
            return False
        return not server.is_joining or not any(self._still_lists(peer, server.id) for peer in wiring.peers)

    def _still_lists(self, peer_id: int, server_id: int) -> bool:
        peer = self._by_id[peer_id]
        return peer.is_healthy and peer.accepted is not None and server_id in peer.accepted.peers

    def _settle(self, server: KnownServer) -> None:
        """A Server reports its assigned role: totals are what an idle engine has, taken once."""
        server.has_served = True
        if server.accepted is None and server.reported_peers == frozenset(self.wiring_of(server).peers):
            server.accepted = self.wiring_of(server)
            server.is_initialized, server.is_joining = True, False
        if server.role_state is RoleState.READY and server.total_slots == server.total_blocks == 0:
            server.total_slots, server.total_blocks = server.resource.avail_slots_num, server.resource.avail_block_num

    def _lose_role(self, server: KnownServer) -> None:
        """A Server restarted in place: its peers must drop their dead links before it gets its role again."""
        log.warning("server lost its role", server=server.spec.ip, id=server.id, role=server.role.letter)
        server.accepted = None
        server.is_joining = server.is_joining or server.has_served
        server.has_served = False

    def _wiring_changed(self) -> None:
        self.version += 1
        self.wiring_version += 1
        self._signal.set()
        self._signal = asyncio.Event()
