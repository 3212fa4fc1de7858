# SPDX-License-Identifier: Apache-2.0
"""State of one simulated engine: role, peers, links, capacity. No I/O.

A role post is idempotent and also the only way links come and go: the same role with other peers rewires
the engine. Another role is refused while requests run. A prefill engine is ready when it has loaded its
role; a decode engine also needs links: to all its peers, or to at least one of them after `link_timeout_s`.
Seed: controller manual, Server role and status interfaces.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from pydantic import PositiveFloat, PositiveInt

from controller_runtime.api.base import Model
from controller_runtime.api.roles import CurrentRole, Role, RoleState
from controller_runtime.api.server_api import (
    LinkStatus,
    PeerLink,
    Resource,
    ResourceV2,
    ServerConfig,
    ServerStatus,
    ServerStatusV2,
    ServiceStatus,
)
from controller_runtime.foundation.clock import Clock
from simulator.server.faults import FaultBoard
from simulator.server.kv_cache import KvCache
from simulator.server.links import LinkBook
from simulator.server.refused import RefusedError
from simulator.wire import Reason, ServerName


class EngineSpec(Model):
    """What an engine is started with. Lengths in tokens, times in seconds."""

    model_name: str = "llama2-70B"
    max_seq_len: PositiveInt = 2560
    max_output_len: PositiveInt = 512
    block_size: PositiveInt = 128
    slots: PositiveInt = 200
    blocks: PositiveInt = 1024
    role_load_s: float = 0.5
    link_period_s: PositiveFloat = 1.0
    link_timeout_s: PositiveFloat = 20.0
    kv_ttl_s: PositiveFloat = 10.0
    """Seed: Server configuration, `kv_trans_timeout`."""


class Peer(NamedTuple):
    """A Server to hold a link with."""

    id: int
    ip: str


class Engine:
    """One engine. `pod` and `ip` name it in traces; its id comes with the first role."""

    def __init__(self, spec: EngineSpec, pod: str, ip: str, clock: Clock, faults: FaultBoard) -> None:
        self.spec = spec
        self.faults = faults
        self.kv = KvCache(spec.blocks, spec.kv_ttl_s, clock)
        self.links = LinkBook(clock, fresh_s=3 * spec.link_period_s, faults=faults)
        self.role = Role.UNDEFINED
        self.peers: dict[int, Peer] = {}
        self.is_stopping = False
        self.resumed = asyncio.Event()
        """Set unless the engine is paused for recovery; running requests wait for it."""
        self.resumed.set()
        self.idle = asyncio.Event()
        """Set while no request is in work."""
        self.idle.set()
        self._pod, self._ip, self._id = pod, ip, 0
        self._clock = clock
        self._loaded_at = math.inf
        self._settle_at = math.inf
        self._is_settled = False
        self._running: dict[object, int] = {}

    @property
    def name(self) -> ServerName:
        """This Server in a trace."""
        return ServerName(pod=self._pod, ip=self._ip, id=self._id)

    @property
    def running(self) -> int:
        """Requests in work."""
        return len(self._running)

    @property
    def free_slots(self) -> int:
        """Requests that still fit. Prompts whose KV bytes wait to be fetched hold their slot."""
        return max(0, self.spec.slots - self.running - self.kv.held)

    @property
    def free_blocks(self) -> int:
        """Cache blocks that are not in use."""
        return max(0, self.kv.free_blocks - sum(self._running.values()))

    def assign(self, role: Role, local_id: int, peers: Iterable[Peer]) -> bool:
        """Take a role and its peers. False: another role is asked for while requests run; nothing changes."""
        now = self._clock.monotonic()
        if role is not self.role:
            if self.running:
                return False
            self.kv.clear()
            self.links.clear()
            self._loaded_at = now + self.spec.role_load_s
        self.role, self._id = role, local_id
        self.peers = {peer.id: peer for peer in peers}
        self.links.keep(self.peers)
        self._is_settled = False
        self._settle_at = now + self.spec.link_timeout_s
        return True

    @property
    def role_state(self) -> RoleState:
        """How far the engine has got. Once ready it stays ready until the next role post."""
        if self.role is Role.UNDEFINED:
            return RoleState.UNKNOWN
        if self._clock.monotonic() < self._loaded_at:
            return RoleState.SWITCHING
        self._is_settled = self._is_settled or self.role is not Role.DECODE or self._has_links()
        return RoleState.READY if self._is_settled else RoleState.SWITCHING

    def _has_links(self) -> bool:
        standing = sum(1 for peer in self.peers if self.links.stands(peer))
        is_late = self._clock.monotonic() >= self._settle_at
        return standing == len(self.peers) or (is_late and standing > 0)

    def config(self) -> ServerConfig:
        """Answer `GET /v1/config`."""
        return ServerConfig(
            max_seq_len=self.spec.max_seq_len,
            max_output_len=self.spec.max_output_len,
            cache_block_size=self.spec.block_size,
            model_name=self.spec.model_name,
        )

    def status(self) -> ServerStatus:
        """Answer `GET /v1/status`."""
        resource = Resource(
            avail_slots_num=self.free_slots,
            avail_block_num=self.free_blocks,
            running_request_num=self.running,
            free_npu_block_nums=self.free_blocks,
            total_npu_block_nums=self.spec.blocks,
        )
        return ServerStatus(service=self._service(), resource=resource, link_status=self._link_status())

    def status_v2(self) -> ServerStatusV2:
        """Answer `GET /v2/status`."""
        resource = ResourceV2(
            total_avail_npu_slots_num=self.free_slots, total_avail_npu_block_num=self.free_blocks, max_avail_npu_block_num=self.free_blocks
        )
        return ServerStatusV2(service=self._service(), resource=resource, link_status=self._link_status())

    def _service(self) -> ServiceStatus:
        current = self.role.word if self.role is not Role.UNDEFINED else CurrentRole.NONE
        return ServiceStatus(role_status=self.role_state, current_role=current)

    def _link_status(self) -> LinkStatus:
        return LinkStatus(peers=tuple(PeerLink(target=peer, link=self.links.describe(peer)) for peer in sorted(self.peers)))

    def admit(self, role: Role) -> None:
        """Check that work for `role` may start now.

        Raises:
            RefusedError: wrong role, paused, stopping, or no slot is free.
        """
        if self.is_stopping:
            raise RefusedError(Reason.STOPPING, f"Server {self._pod}: is stopping. Use another Server.")
        if self.role not in (role, Role.FLEX) or self.role_state is not RoleState.READY:
            state = f"{self.role.word} ({self.role_state})"
            raise RefusedError(Reason.WRONG_ROLE, f"Server {self._pod}: is {state}, not ready for {role.word}. Use another Server.")
        if not self.resumed.is_set():
            raise RefusedError(Reason.PAUSED, f"Server {self._pod}: the engine is paused for recovery. Use another Server.")
        if self.free_slots == 0:
            raise RefusedError(Reason.FULL, f"Server {self._pod}: all {self.spec.slots} slots are taken. Use another Server.")

    @contextmanager
    def work(self, tokens: int) -> Iterator[None]:
        """Hold a slot and the cache blocks of `tokens` tokens.

        Raises:
            RefusedError: too few blocks are free.
        """
        blocks = self.blocks_of(tokens)
        if blocks > self.free_blocks:
            room = f"{blocks} cache blocks needed, {self.free_blocks} free"
            raise RefusedError(Reason.FULL, f"Server {self._pod}: {room}. Use another Server.")
        ticket = object()
        self._running[ticket] = blocks
        self.idle.clear()
        try:
            yield
        finally:
            del self._running[ticket]
            if not self._running:
                self.idle.set()

    def blocks_of(self, tokens: int) -> int:
        """Cache blocks that hold `tokens` tokens."""
        return math.ceil(tokens / self.spec.block_size)
