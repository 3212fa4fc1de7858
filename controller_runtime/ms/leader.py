# SPDX-License-Identifier: Apache-2.0
"""One term of leadership, from an empty memory to a serving cluster and on.

A term never inherits memory from an earlier one: it reads the backup, the rank table and the Servers. It ends by
being cancelled. Seed: controller manual, initialisation of the cluster; process backup file.
"""

from __future__ import annotations

import asyncio
from typing import Final

from controller_runtime.api.roles import GROUP_LIMIT, GROUP_LIMIT_MULTI_NODE, Role
from controller_runtime.api.status_files import ProcessStatus
from controller_runtime.errors import ConfigError, EtcdError, TemporaryError
from controller_runtime.foundation.clock import Clock
from controller_runtime.foundation.log import get_logger
from controller_runtime.ms.assignment import assign_groups, assign_roles
from controller_runtime.ms.backup import known_ids, rebuild_roles, restore
from controller_runtime.ms.backup_writer import keep_backup, save_backup
from controller_runtime.ms.config import Settings
from controller_runtime.ms.coordinators import CoordinatorPublisher
from controller_runtime.ms.dispatch import DispatchBudget, RoleDispatcher
from controller_runtime.ms.election import Leadership
from controller_runtime.ms.health import StatusPoller
from controller_runtime.ms.membership import Membership
from controller_runtime.ms.outlets import Outlets
from controller_runtime.ms.rank_table import Layout, RankTableReader
from controller_runtime.ms.readiness import ControllerState, Readiness
from controller_runtime.ms.role_body import RoleBodies
from controller_runtime.ms.role_decision import Split
from controller_runtime.ms.server_client import ServerClient
from controller_runtime.ms.server_registry import KnownServer, ServerRegistry
from controller_runtime.ms.status_files import StatusFile, cluster_status, to_text
from controller_runtime.ms.target_split import target_split

RETRY_S: Final = 5.0
GRACE_ROUNDS: Final = 2
"""With roles that the table fixes, how many online checks the missing Servers are waited for."""

log = get_logger(__name__)


class Leader:
    """What a leader does. `run` lasts until cancelled."""

    def __init__(
        self, settings: Settings, outlets: Outlets, reader: RankTableReader, leadership: Leadership, readiness: Readiness, clock: Clock
    ) -> None:
        config = settings.config
        self._settings, self._reader, self._store, self._readiness, self._clock = settings, reader, leadership.store(), readiness, clock
        self._period_s = float(config.cluster_synchronization_seconds)
        self._registry = ServerRegistry()
        multi_node = config.multi_node_infer_config if config.is_multi_node else None
        self._bodies = RoleBodies(self._registry.get, multi_node, is_single_container=config.is_single_container)
        client = ServerClient(
            outlets.servers,
            outlets.server_tls,
            self._bodies,
            is_multi_node=config.is_multi_node,
            timeout_s=float(config.http_timeout_seconds),
        )
        self._poller = StatusPoller(
            self._registry, client, period_s=self._period_s, faulty_period_s=float(config.rank_table_detecting_seconds)
        )
        self._dispatcher = RoleDispatcher(
            self._registry,
            client,
            DispatchBudget.of(config),
            is_all_or_nothing=config.is_single_container,
            may_act=leadership.may_act,
        )
        self._publisher = CoordinatorPublisher(
            self._registry,
            outlets.coordinators,
            outlets.coordinator_tls,
            port=config.mindie_ms_coordinator_port,
            period_s=self._period_s,
            has_roles=config.has_roles,
            may_act=leadership.may_act,
        )
        self._membership = Membership(self._registry, waiting_s=config.disappeared_server_waiting_seconds)
        self._backup: ProcessStatus | None = None
        self._applied: Layout | None = None

    async def run(self) -> None:
        """Form the cluster, then keep it in step with the rank table and the Servers."""
        self._readiness.set(ControllerState.INITIALISING, "waiting for the rank table")
        self._backup = await self._load_backup()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow_rank_table())
            tasks.create_task(self._poller.run())
            tasks.create_task(self._write_cluster_status())
            is_fresh = await self._form_cluster()
            await save_backup(self._registry, self._store)
            tasks.create_task(self._publisher.run())
            tasks.create_task(self._watch_readiness())
            if self._settings.config.has_roles:
                tasks.create_task(self._place_newcomers())
                tasks.create_task(self._dispatcher.maintain())
                tasks.create_task(self._mark_absent_faulty())
            tasks.create_task(keep_backup(self._registry, self._store, self._period_s))
            if is_fresh:
                await self._dispatcher.initialise()

    async def _load_backup(self) -> ProcessStatus | None:
        while True:
            try:
                return await self._store.load()
            except EtcdError as error:
                log.error("backup not readable", err=error)
            await asyncio.sleep(RETRY_S)

    async def _follow_rank_table(self) -> None:
        while True:
            await self._reader.poll()
            layout = self._reader.layout
            if layout is not None and layout is not self._applied:
                self._membership.apply(layout, known_ids(self._backup, layout.servers), self._now())
                self._publisher.set_coordinators(layout.coordinators)
                self._bodies.forget()
                self._applied = layout
            self._membership.forget_expired(self._now())
            await asyncio.sleep(self._settings.config.rank_table_detecting_seconds)

    async def _form_cluster(self) -> bool:
        """Give every Server that answers a role; True when the roles are new and Servers must still be told."""
        while True:
            await self._until_online()
            try:
                return await self._assign()
            except (TemporaryError, ConfigError) as error:
                log.warning("cluster not formed yet", err=error)
                self._readiness.set(ControllerState.INITIALISING, str(error))
            await asyncio.sleep(RETRY_S)

    async def _until_online(self) -> None:
        """Wait until every Server of the table answers, or has had its time."""
        config = self._settings.config
        loop = asyncio.get_running_loop()
        while self._applied is None:
            self._readiness.set(ControllerState.INITIALISING, self._reader.waits_for)
            await asyncio.sleep(min(self._period_s, 0.2))
        started = loop.time()
        while loop.time() - started < config.server_online_attempt_times * config.server_online_wait_seconds:
            missing = [server for server in self._registry.present if not _is_online(server)]
            self._readiness.set(ControllerState.INITIALISING, f"{len(missing)} of {len(self._registry.present)} Servers do not answer yet")
            is_patient = loop.time() - started < GRACE_ROUNDS * config.server_online_wait_seconds
            if (self._registry.present and not missing) or (not is_patient and self._serves_without(missing)):
                return
            await asyncio.sleep(min(self._period_s, 0.2))

    def _serves_without(self, missing: list[KnownServer]) -> bool:
        """True when the table fixes all roles and both are among the Servers that answer."""
        online = [server for server in self._registry.present if server not in missing]
        is_fixed = all(server.spec.has_fixed_role for server in self._registry.present)
        return is_fixed and {Role.PREFILL, Role.DECODE} <= {server.spec.role for server in online}

    async def _assign(self) -> bool:
        online = [server for server in self._registry.present if _is_online(server)]
        if not self._settings.config.has_roles:
            self._membership.is_formed = True
            return False
        if self._backup is not None:
            self._membership.target = await self._target(online)
            restore(self._registry, self._backup, self._now())
            self._membership.is_formed = True
            return False
        if len(online) < 2:
            raise TemporaryError(f"cluster: {len(online)} Servers answer, two are needed. Waiting for more Servers.")
        ordered = self._in_table_order(online)
        self._membership.target = await self._target(ordered)
        roles = assign_roles([server.spec for server in ordered], self._membership.target)
        live = rebuild_roles(self._registry)
        if live:
            log.warning("no backup, roles rebuilt from the servers", servers=len(live))
            roles = tuple(
                live.get(server.id, role) if not server.spec.has_fixed_role else role for server, role in zip(ordered, roles, strict=True)
            )
        limit = GROUP_LIMIT_MULTI_NODE if self._settings.config.is_multi_node else GROUP_LIMIT
        for server, place in zip(ordered, assign_groups(roles, limit), strict=True):
            first = next(other for other in ordered if other.spec.instance == server.spec.instance)
            self._registry.assign(server, place.role, place.group_id, first.id, is_joining=False)
        self._membership.is_formed = True
        if live:
            self._registry.take_over()
        return not live

    async def _target(self, servers: list[KnownServer]) -> Split | None:
        return await asyncio.to_thread(target_split, self._settings, [server.spec for server in servers])

    def _in_table_order(self, servers: list[KnownServer]) -> list[KnownServer]:
        place = {spec.key: number for number, spec in enumerate(self._applied.servers if self._applied else ())}
        return sorted(servers, key=lambda server: place.get(server.spec.key, len(place)))

    async def _place_newcomers(self) -> None:
        while True:
            version = self._registry.wiring_version
            self._membership.place_newcomers()
            await self._registry.changed_since(max(version, self._registry.wiring_version))

    async def _mark_absent_faulty(self) -> None:
        """Servers that never answered in the time they had are faulty; they are still asked, less often."""
        config = self._settings.config
        await asyncio.sleep(config.server_online_attempt_times * config.server_online_wait_seconds)
        self._registry.mark_faulty([server for server in self._registry.present if not server.has_answered])

    async def _watch_readiness(self) -> None:
        has_served = False
        while True:
            health = self._publisher.health
            count = len(self._publisher.published_ids)
            if count and any(health.values()):
                has_served = True
                self._readiness.set(ControllerState.LEADER)
            else:
                state = ControllerState.DEGRADED if has_served else ControllerState.INITIALISING
                reason = f"{count} Servers published, {sum(health.values())} of {len(health)} Coordinators healthy"
                self._readiness.set(state, reason)
            await asyncio.sleep(self._period_s)

    async def _write_cluster_status(self) -> None:
        output = self._settings.config.cluster_status
        if not output.to_file or output.file_path is None:
            return
        file = StatusFile(self._settings.resolve(output.file_path), "cluster_status")
        written: object = None
        while True:
            seen = (self._registry.version, self._publisher.health)
            if seen != written:
                await file.write(to_text(cluster_status(self._registry, self._publisher.health)))
                written = seen
            await asyncio.sleep(self._period_s)

    def _now(self) -> int:
        return int(self._clock.now().timestamp())


def _is_online(server: KnownServer) -> bool:
    return server.has_answered and server.is_healthy and server.config is not None
