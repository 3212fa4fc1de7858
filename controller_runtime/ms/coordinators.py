# SPDX-License-Identifier: Apache-2.0
"""Tell every Coordinator what it may use: at once after a change, and at least once each period.

Coordinators are independent: a slow or dead one delays neither the others nor the next message, and gets the
newest state when it answers again. Seed: controller manual, `/v1/instances/refresh`,
`cluster_synchronization_seconds`; health of a Coordinator = the last exchange with it worked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from typing import Final

from prometheus_client import Counter, Gauge

from controller_runtime.api.coordinator_api import REFRESH_PATH
from controller_runtime.errors import TransportError
from controller_runtime.foundation.http_client import HttpClient
from controller_runtime.foundation.log import get_logger
from controller_runtime.foundation.metrics import REGISTRY
from controller_runtime.foundation.tls import TlsIdentity
from controller_runtime.ms.links import COORDINATOR_SANS, SERVER_UNREACHABLE, base_url
from controller_runtime.ms.publish import RefreshBody
from controller_runtime.ms.server_registry import ServerRegistry

COALESCE_S: Final = 0.05
"""Changes this close together make one message."""

log = get_logger(__name__)

_refreshes = Counter("ms_coordinator_refreshes_total", "Refreshes sent to Coordinators.", ["result"], registry=REGISTRY)
_published = Gauge("ms_published_servers", "Servers in the last refresh.", registry=REGISTRY)


class CoordinatorPublisher:
    """Keeps all Coordinators of the rank table up to date; silent while `may_act` says that somebody else may lead."""

    def __init__(
        self,
        registry: ServerRegistry,
        http: HttpClient,
        tls: TlsIdentity | None,
        *,
        port: int,
        period_s: float,
        has_roles: bool,
        sans: Collection[str] = COORDINATOR_SANS,
        may_act: Callable[[], bool] = lambda: True,
    ) -> None:
        self._registry = registry
        self._http = http
        self._tls = tls
        self._port = port
        self._period_s = period_s
        self._may_act = may_act
        self._sans = sans if tls else None
        self._body = RefreshBody(registry, has_roles=has_roles)
        self._health: dict[str, bool] = {}
        self._in_flight: set[str] = set()
        self._last_ids: tuple[int, ...] = ()

    @property
    def health(self) -> dict[str, bool]:
        """Whether the last exchange with each Coordinator worked, in rank-table order."""
        return dict(self._health)

    @property
    def published_ids(self) -> tuple[int, ...]:
        """Ids that Coordinators may use as of now, ordered."""
        return tuple(self._body.links)

    def set_coordinators(self, addresses: Sequence[str]) -> None:
        """Replace the list; one that stays keeps its health."""
        self._health = {ip: self._health.get(ip, False) for ip in addresses}

    async def run(self) -> None:
        """Publish until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                version = self._registry.wiring_version
                self._log_change()
                for ip in self._health:
                    if ip not in self._in_flight:
                        self._in_flight.add(ip)
                        tasks.create_task(self._send(ip))
                await self._until_due(version)

    async def _until_due(self, version: int) -> None:
        try:
            async with asyncio.timeout(self._period_s):
                await self._registry.changed_since(version)
        except TimeoutError:
            return
        await asyncio.sleep(min(COALESCE_S, self._period_s))

    async def _send(self, ip: str) -> None:
        """Send the newest body; again when roles or links changed in between."""
        try:
            sent_version = -1
            while self._may_act() and ip in self._health and sent_version != self._registry.wiring_version:
                sent_version = self._registry.wiring_version
                self._note(ip, await self._refresh(ip, self._body.build()))
                if not self._health.get(ip):
                    return
        finally:
            self._in_flight.discard(ip)

    async def _refresh(self, ip: str, body: bytes) -> str | None:
        url = base_url(ip, self._port, self._tls) + REFRESH_PATH
        try:
            answer = await self._http.request(
                "POST", url, body=body, headers={"Content-Type": "application/json"}, expect_sans=self._sans, retries=0
            )
        except TransportError as error:
            return str(error)
        return None if answer.status == 200 else f"status {answer.status}"

    def _note(self, ip: str, failure: str | None) -> None:
        _refreshes.labels("failed" if failure else "ok").inc()
        if ip not in self._health:
            return
        if failure and self._health[ip]:
            log.error(SERVER_UNREACHABLE, coordinator=ip, err=failure)
        elif failure is None and not self._health[ip]:
            log.info("coordinator healthy", coordinator=ip)
        self._health[ip] = failure is None

    def _log_change(self) -> None:
        ids = self.published_ids
        if ids != self._last_ids:
            self._last_ids = ids
            _published.set(len(ids))
            log.info("published servers changed", count=len(ids))
