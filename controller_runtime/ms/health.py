# SPDX-License-Identifier: Apache-2.0
"""Ask every Server for its status, each period, without letting any Server delay another.

Polls are spread over the period. A Server whose last poll is still running is left out, so a dead one costs at
most one open call. Faulty Servers are asked less often, and taken back in when they answer.
Seed: controller manual, `cluster_synchronization_seconds`, health of Servers in table 3.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Final, Protocol

from prometheus_client import Gauge

from controller_runtime.api.server_api import ServerConfig
from controller_runtime.foundation.metrics import REGISTRY
from controller_runtime.ms.server_registry import KnownServer, ServerRegistry
from controller_runtime.ms.status_parser import Report

SLICES_PER_PERIOD: Final = 20

_healthy = Gauge("ms_servers", "Servers of the rank table by health.", ["health"], registry=REGISTRY)


class StatusSource(Protocol):
    """Reads a Server; None without a valid answer."""

    async def config(self, server: KnownServer) -> ServerConfig | None: ...

    async def status(self, server: KnownServer) -> Report | None: ...


class StatusPoller:
    """Keeps the registry in step with what Servers report."""

    def __init__(self, registry: ServerRegistry, source: StatusSource, *, period_s: float, faulty_period_s: float) -> None:
        self._registry = registry
        self._source = source
        self._period_s = period_s
        self._faulty_every = max(1, round(faulty_period_s / period_s))
        self._in_flight: set[int] = set()

    async def run(self) -> None:
        """Poll until cancelled."""
        loop = asyncio.get_running_loop()
        rounds = 0
        async with asyncio.TaskGroup() as tasks:
            while True:
                started = loop.time()
                due = list(self._due(includes_faulty=rounds % self._faulty_every == 0))
                size = max(1, -(-len(due) // SLICES_PER_PERIOD))
                for number, start in enumerate(range(0, len(due), size)):
                    await asyncio.sleep(started + number * self._period_s / SLICES_PER_PERIOD - loop.time())
                    for server in due[start : start + size]:
                        self._in_flight.add(server.id)
                        tasks.create_task(self._poll_once(server))
                await asyncio.sleep(max(0.0, started + self._period_s - loop.time()))
                self._count()
                rounds += 1

    async def poll(self, server: KnownServer) -> None:
        """Read one Server and note what it says; its configuration only once."""
        if server.config is None:
            config = await self._source.config(server)
            if config is not None:
                self._registry.accept_config(server, config)
        posts = server.posts
        status = await self._source.status(server)
        if server.delete_time or self._registry.get(server.id) is not server:
            return
        if status is None or server.config is None:
            self._registry.fail_status(server)
            return
        if server.is_faulty:
            self._registry.readmit(server)
        self._registry.accept_status(server, status, posts)

    async def _poll_once(self, server: KnownServer) -> None:
        try:
            await self.poll(server)
        finally:
            self._in_flight.discard(server.id)

    def _due(self, *, includes_faulty: bool) -> Iterator[KnownServer]:
        for server in self._registry:
            if server.delete_time == 0 and server.id not in self._in_flight and (includes_faulty or not server.is_faulty):
                yield server

    def _count(self) -> None:
        present = self._registry.present
        healthy = sum(server.is_healthy for server in present)
        _healthy.labels("healthy").set(healthy)
        _healthy.labels("unhealthy").set(len(present) - healthy)
        _healthy.labels("faulty").set(sum(server.is_faulty and server.delete_time == 0 for server in self._registry))
