# SPDX-License-Identifier: Apache-2.0
"""The controller process: serve the probes, wait to lead, lead, stop cleanly.

Reads from top to bottom as the life of the process. Seed: controller manual, start-up and error texts.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final

from controller_runtime.api.ms_config import TlsLink
from controller_runtime.api.ports import ControllerPorts
from controller_runtime.errors import ConfigError
from controller_runtime.foundation.clock import Clock, SystemClock
from controller_runtime.foundation.http_server import HttpServer
from controller_runtime.foundation.log import get_logger
from controller_runtime.foundation.tls import TlsIdentity
from controller_runtime.ms.backup import file_backup
from controller_runtime.ms.clusterd_feed import follow_clusterd
from controller_runtime.ms.config import Settings, settings_without_effect
from controller_runtime.ms.election import Leadership, SoleLeader, etcd_leadership
from controller_runtime.ms.http_api import probe_app, status_app
from controller_runtime.ms.leader import Leader
from controller_runtime.ms.outlets import Outlets, load_identities
from controller_runtime.ms.rank_table import RankTableReader
from controller_runtime.ms.rank_table_check import TableRules
from controller_runtime.ms.readiness import ControllerState, Readiness

RUN_EXIT: Final = "[Controller]Run: exit"
"""Operators search for this text. Seed: controller manual, table of error texts."""

log = get_logger(__name__)


class Controller:
    """One controller process. `status_port` serves readiness and metrics."""

    def __init__(self, settings: Settings, clock: Clock | None = None, status_port: int = ControllerPorts().status) -> None:
        self._settings = settings
        self._clock = clock or SystemClock()
        self._status_port = status_port
        self._readiness = Readiness()

    async def run(self, stop: asyncio.Event) -> None:
        """Run until `stop` is set.

        Raises:
            ConfigError: an identity or a listener cannot be set up.
        """
        log.info("controller starting", uid=os.geteuid(), address=self._settings.pod_ip, config=str(self._settings.path))
        identities = load_identities(self._settings)
        if self._settings.config.enable_dynamic_adjust_timeout_config:
            log.info("EnableDynamicAdjustTimeoutConfig is on: only coordinators act on it")
        if keys := settings_without_effect(self._settings.config):
            log.info("settings without effect", keys=keys)
        try:
            async with self._listeners(identities), self._outlets(identities) as outlets, self._leadership(identities) as leadership:
                await run_until(stop, *self._watchers(identities), self._terms(leadership, outlets, stop))
        finally:
            log.info(RUN_EXIT)

    async def _terms(self, leadership: Leadership, outlets: Outlets, stop: asyncio.Event) -> None:
        """Lead whenever this controller may."""
        while not stop.is_set():
            reader = RankTableReader(
                self._settings.rank_table_path,
                TableRules.of(self._settings.config),
                check_permission=self._settings.checks_permission,
            )
            if self._settings.config.controller_backup_cfg.function_sw:
                self._readiness.set(ControllerState.STANDBY)
            if await leadership.acquire(stop):
                leader = Leader(self._settings, outlets, reader, leadership, self._readiness, self._clock)
                await first_to_end(leader.run(), leadership.lost())

    @asynccontextmanager
    async def _listeners(self, identities: Mapping[TlsLink, TlsIdentity | None]) -> AsyncIterator[None]:
        tls, host = identities[TlsLink.HTTP_SERVER], self._settings.pod_ip
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(HttpServer(probe_app(), host, self._settings.config.http_server.port, tls))
            await stack.enter_async_context(HttpServer(status_app(self._readiness), host, self._status_port, tls))
            yield

    @asynccontextmanager
    async def _outlets(self, identities: Mapping[TlsLink, TlsIdentity | None]) -> AsyncIterator[Outlets]:
        outlets = Outlets.create(self._settings, identities)
        try:
            yield outlets
        finally:
            await outlets.close()

    @asynccontextmanager
    async def _leadership(self, identities: Mapping[TlsLink, TlsIdentity | None]) -> AsyncIterator[Leadership]:
        leadership: Leadership = SoleLeader(file_backup(self._settings))
        if self._settings.config.controller_backup_cfg.function_sw:
            tls = identities[TlsLink.ETCD_SERVER]
            if tls is None:
                raise ConfigError(
                    "tls_config.etcd_server_tls_enable is false while controller_backup_cfg.function_sw is true. Set it to true."
                )
            leadership = etcd_leadership(self._settings, tls, self._clock)
        try:
            yield leadership
        finally:
            await leadership.close()

    def _watchers(self, identities: Mapping[TlsLink, TlsIdentity | None]) -> list[Coroutine[Any, Any, None]]:
        watchers = [tls.watch() for tls in identities.values() if tls is not None]
        if self._settings.clusterd_address is not None:
            watchers.append(follow_clusterd(self._settings, identities[TlsLink.CLUSTER]))
        return watchers


async def run_until(stop: asyncio.Event, *work: Coroutine[Any, Any, None]) -> None:
    """Run `work` until `stop` is set, then cancel what is left; the first failure ends all and is raised."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(each) for each in work]
        await stop.wait()
        for task in tasks:
            task.cancel()


async def first_to_end(*work: Coroutine[Any, Any, None]) -> None:
    """Run `work` until the first part ends, then cancel the others; a failure ends all and is raised."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(each) for each in work]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
