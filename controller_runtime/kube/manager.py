# SPDX-License-Identifier: Apache-2.0
"""Runs informers and controllers as one unit, behind a lease when there are replicas.

Order: informers start and fill their caches on every replica (a standby is warm), then the lease is taken, then the
controllers start. At stop: controllers finish first, then the lease is released, then the informers end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias, TypeVar

from controller_runtime.errors import DeadlineError
from controller_runtime.foundation.log import get_logger
from controller_runtime.kube.client import KubeClient
from controller_runtime.kube.controller import Controller
from controller_runtime.kube.informer import Informer
from controller_runtime.kube.lease import LeaseElector
from controller_runtime.kube.lifecycle import run_until

SYNC_TIMEOUT_S = 120.0

InformerT = TypeVar("InformerT", bound=Informer)
Runnable: TypeAlias = Callable[[asyncio.Event], Awaitable[None]]

log = get_logger(__name__)


class Manager:
    """Holds what runs together. Without `elector` this replica always leads."""

    def __init__(self, client: KubeClient, elector: LeaseElector | None = None, *, sync_timeout_s: float = SYNC_TIMEOUT_S) -> None:
        self.client = client
        self._elector = elector
        self._sync_timeout_s = sync_timeout_s
        self._informers: list[Informer] = []
        self._leader_work: list[Runnable] = []

    @property
    def is_synced(self) -> bool:
        """Whether every cache holds its first list: the readiness of the process."""
        return all(informer.is_synced for informer in self._informers)

    @property
    def is_leading(self) -> bool:
        """Whether this replica may reconcile."""
        return self._elector is None or self._elector.is_leader

    def add_informer(self, informer: InformerT) -> InformerT:
        """Run `informer` on every replica. Returns it."""
        self._informers.append(informer)
        return informer

    def add_controller(self, controller: Controller) -> Controller:
        """Run `controller` on the leader, once all caches are filled. Returns it."""
        self._leader_work.append(controller.run)
        return controller

    def add_leader_work(self, work: Runnable) -> None:
        """Run `work(stop)` on the leader beside the controllers, for example a periodic check."""
        self._leader_work.append(work)

    async def run(self, stop: asyncio.Event) -> None:
        """Run until `stop` is set.

        Raises, inside an exception group:
            DeadlineError: a cache was not filled within `sync_timeout_s`.
            LeaseLostError: another replica may lead; the process must start over.
        """
        caches_stop = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            for informer in self._informers:
                group.create_task(informer.run(caches_stop))
            try:
                await run_until(stop, self._fill_caches())
                if stop.is_set():
                    return
                if self._elector is None:
                    await self._lead(stop)
                else:
                    await self._elector.run(stop, self._lead)
            finally:
                caches_stop.set()

    async def _fill_caches(self) -> None:
        try:
            async with asyncio.timeout(self._sync_timeout_s):
                for informer in self._informers:
                    await informer.synced()
        except TimeoutError:
            missing = ", ".join(informer.kind.kind for informer in self._informers if not informer.is_synced)
            raise DeadlineError(
                f"manager: no list of {missing} within {self._sync_timeout_s:.0f} s. Check that the API server answers, that the"
                " resource types are installed and that the service account may list and watch them."
            ) from None
        log.info("caches filled", kinds=[informer.kind.kind for informer in self._informers])

    async def _lead(self, stop: asyncio.Event) -> None:
        log.info("controllers started", count=len(self._leader_work))
        async with asyncio.TaskGroup() as group:
            for work in self._leader_work:
                group.create_task(_run(work, stop))


async def _run(work: Runnable, stop: asyncio.Event) -> None:
    await work(stop)
