# SPDX-License-Identifier: Apache-2.0
"""Send Servers their roles, see them take them, try again; at the start with a budget, later for ever.

A role post is idempotent and carries the peers, so it is also how links are made and cut: whenever the wiring a
Server should have differs from the one it accepted last, it is posted again. Groups and Servers are independent:
a slow one delays nobody else.
Seed: controller manual, `init_role_attempt_times`, `check_role_attempt_times`, `check_role_wait_seconds`,
error texts of roles.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from controller_runtime.api.ms_config import MsControllerConfig
from controller_runtime.api.roles import Role, RoleState
from controller_runtime.errors import ConfigError
from controller_runtime.foundation.backoff import Backoff
from controller_runtime.foundation.log import get_logger
from controller_runtime.ms.link_evaluation import survivors
from controller_runtime.ms.server_client import PostResult
from controller_runtime.ms.server_registry import KnownServer, ServerRegistry, Wiring

POST_RETRY_S: Final = 3.0
STILL_SWITCHING_RETRY_S: Final = 5.0
LATER_RETRY_CAP_S: Final = 30.0
MAX_POSTS_AT_ONCE: Final = 64
LONGEST_NAP_S: Final = 1.0

log = get_logger(__name__)


class RolePoster(Protocol):
    """Sends one role post."""

    async def post_role(self, server: KnownServer, wiring: Wiring, *, is_initial: bool) -> PostResult: ...


@dataclass(frozen=True, slots=True)
class DispatchBudget:
    """How often and how long roles are tried at the start. `post_attempts` counts all posts to one Server."""

    post_attempts: int
    check_attempts: int
    check_wait_s: float
    post_retry_s: float = POST_RETRY_S
    still_switching_retry_s: float = STILL_SWITCHING_RETRY_S

    @classmethod
    def of(cls, config: MsControllerConfig) -> DispatchBudget:
        """The budget of a configuration; `init_role_attempt_times` counts only the posts after the first."""
        return cls(1 + config.init_role_attempt_times, config.check_role_attempt_times, float(config.check_role_wait_seconds))


class RoleDispatcher:
    """Brings Servers to their wiring; nothing is sent while `may_act` says that somebody else may lead."""

    def __init__(
        self,
        registry: ServerRegistry,
        poster: RolePoster,
        budget: DispatchBudget,
        *,
        is_all_or_nothing: bool = False,
        may_act: Callable[[], bool] = lambda: True,
    ) -> None:
        self._registry = registry
        self._poster = poster
        self._budget = budget
        self._may_act = may_act
        self._is_all_or_nothing = is_all_or_nothing
        self._slots = asyncio.Semaphore(MAX_POSTS_AT_ONCE)
        self._initialising: set[int] = set()
        self._in_flight: set[int] = set()
        self._not_before: dict[int, float] = {}
        self._backoffs: dict[int, Backoff] = {}

    async def initialise(self) -> None:
        """Give every present Server its first role; afterwards each is in its role or marked faulty."""
        servers = self._registry.present
        self._initialising = {server.id for server in servers}
        async with asyncio.TaskGroup() as tasks:
            for group_id in sorted({server.group_id for server in servers}):
                tasks.create_task(self._initialise_group(group_id, [server for server in servers if server.group_id == group_id]))

    async def maintain(self) -> None:
        """Post to every Server whose wiring changed, whenever something changes. Runs until cancelled.

        Leaves alone the Servers that `initialise` is still busy with.
        """
        loop = asyncio.get_running_loop()
        async with asyncio.TaskGroup() as tasks:
            while True:
                version = self._registry.wiring_version
                for server in self._registry.present:
                    if self._may_post(server, loop.time()) and self._registry.needs_post(server):
                        self._in_flight.add(server.id)
                        tasks.create_task(self._post_later(server))
                await self._wait_for_work(version, loop.time())

    async def _initialise_group(self, group_id: int, servers: list[KnownServer]) -> None:
        async with asyncio.TaskGroup() as tasks:
            for server in servers:
                tasks.create_task(self._bring_up(server))
        self._judge(group_id, servers)

    async def _bring_up(self, server: KnownServer) -> None:
        """Post until accepted, wait until it is not switching any more, post again if it forgot its role."""
        deadline = asyncio.get_running_loop().time() + self._budget.check_attempts * self._budget.check_wait_s
        try:
            for attempt in range(self._budget.post_attempts):
                if attempt:
                    await asyncio.sleep(self._budget.post_retry_s)
                if await self._post(server, is_initial=True) is not PostResult.ACCEPTED:
                    continue
                await self._until_settled(server, deadline)
                if server.role_state is not RoleState.UNKNOWN:
                    return
        finally:
            self._initialising.discard(server.id)

    async def _until_settled(self, server: KnownServer, deadline: float) -> None:
        try:
            async with asyncio.timeout_at(deadline):
                while server.role_state is RoleState.SWITCHING:
                    await self._registry.changed_since(self._registry.wiring_version)
        except TimeoutError:
            return

    def _judge(self, group_id: int, servers: list[KnownServer]) -> None:
        """Keep those that took their role and have a link; the others are faulty."""
        good = survivors(servers, self._registry)
        by_role = {role: [server for server in good if server.role is role] for role in (Role.PREFILL, Role.DECODE)}
        if self._is_all_or_nothing and len(good) < len(servers):
            good = set()
        for role, text in ((Role.PREFILL, "p"), (Role.DECODE, "d")):
            if not by_role[role]:
                log.error(f"[NodeScheduler]SendRole: all {text} node failed in group {group_id}")
                good = set()
        self._registry.mark_faulty(server for server in servers if server not in good)
        log.info("group initialised", group=group_id, ready=len(good), faulty=len(servers) - len(good))

    async def _post_later(self, server: KnownServer) -> None:
        try:
            is_initial = not server.is_initialized or not server.is_in_role
            result = await self._post(server, is_initial=is_initial)
        finally:
            self._in_flight.discard(server.id)
        if result is PostResult.ACCEPTED:
            self._backoffs.pop(server.id, None)
            self._not_before.pop(server.id, None)
            return
        backoff = self._backoffs.setdefault(
            server.id, Backoff(self._budget.post_retry_s, max(self._budget.post_retry_s, LATER_RETRY_CAP_S))
        )
        wait_s = self._budget.still_switching_retry_s if result is PostResult.STILL_SWITCHING else backoff.next_s()
        self._not_before[server.id] = asyncio.get_running_loop().time() + wait_s

    async def _post(self, server: KnownServer, *, is_initial: bool) -> PostResult:
        wiring = self._registry.wiring_of(server)
        async with self._slots:
            if not self._may_act():
                return PostResult.FAILED
            try:
                result = await self._poster.post_role(server, wiring, is_initial=is_initial)
            except ConfigError as error:
                log.error("role cannot be posted", server=server.spec.ip, err=error)
                result = PostResult.FAILED
        if result is PostResult.ACCEPTED:
            self._registry.accept_post(server, wiring)
        elif result is PostResult.FAILED:
            self._registry.fail_post(server)
        return result

    def _may_post(self, server: KnownServer, now: float) -> bool:
        is_busy = server.id in self._in_flight or server.id in self._initialising
        return not is_busy and self._not_before.get(server.id, now) <= now

    async def _wait_for_work(self, version: int, now: float) -> None:
        """Sleep until a Server changes or the next retry is due."""
        due_s = min((moment - now for moment in self._not_before.values() if moment > now), default=LONGEST_NAP_S)
        try:
            async with asyncio.timeout(min(due_s, LONGEST_NAP_S)):
                await self._registry.changed_since(version)
        except TimeoutError:
            return
