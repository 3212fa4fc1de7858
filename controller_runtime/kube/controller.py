# SPDX-License-Identifier: Apache-2.0
"""Workers that call `reconcile(request)` until it says the world is as it should be.

Level-based: a request names an object, never what happened to it. Invariants: one request is reconciled by one worker at
a time; an exception costs one reconcile, not the worker; a `TerminalError` waits for the object to change, everything else
comes back with the request's own backoff.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from prometheus_client import Counter, Gauge, Histogram

from controller_runtime.errors import AscendPdError, TerminalError
from controller_runtime.foundation.log import get_logger
from controller_runtime.foundation.metrics import REGISTRY
from controller_runtime.kube.errors import ConflictError
from controller_runtime.kube.informer import Informer
from controller_runtime.kube.kind import Kind, Object, controller_owner_of, name_of, namespace_of
from controller_runtime.kube.workqueue import Request, WorkQueue

DRAIN_S = 10.0
"""How long a stopping controller waits for reconciles under way before it cancels them."""

RECONCILE_BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)

RECONCILES = Counter(
    "controller_runtime_reconcile_total",
    "Reconciles by outcome: success, requeue (a newer object), requeue_after, error.",
    ["controller", "result"],
    registry=REGISTRY,
)
ERRORS = Counter("controller_runtime_reconcile_errors_total", "Reconciles that failed.", ["controller"], registry=REGISTRY)
TERMINAL_ERRORS = Counter(
    "controller_runtime_terminal_reconcile_errors_total",
    "Of these, not repeated until the object changes.",
    ["controller"],
    registry=REGISTRY,
)
PANICS = Counter("controller_runtime_reconcile_panics_total", "Of these, defects.", ["controller"], registry=REGISTRY)
TIME = Histogram(
    "controller_runtime_reconcile_time_seconds",
    "Length of a reconcile.",
    ["controller"],
    registry=REGISTRY,
    buckets=RECONCILE_BUCKETS_S,
)
ACTIVE = Gauge("controller_runtime_active_workers", "Reconciles under way.", ["controller"], registry=REGISTRY)
MAX_CONCURRENT = Gauge("controller_runtime_max_concurrent_reconciles", "Workers.", ["controller"], registry=REGISTRY)

log = get_logger(__name__)


@dataclass(frozen=True)
class Result:
    """What a reconcile wants next: nothing (`requeue_after_s` None) or another look after some seconds."""

    requeue_after_s: float | None = None

    @classmethod
    def done(cls) -> Result:
        """Nothing to do until something changes."""
        return cls()

    @classmethod
    def after(cls, seconds: float) -> Result:
        """Look again after `seconds` (0: at once), whatever changes until then."""
        return cls(requeue_after_s=seconds)


Reconcile: TypeAlias = Callable[[Request], Awaitable[Result]]
MapFunction: TypeAlias = Callable[[Object], Iterable[Request]]
ChangeFilter: TypeAlias = Callable[[Object | None, Object | None], bool]


class Controller:
    """`workers` concurrent reconciles over one queue. `watch` says which changes put which requests into it."""

    def __init__(
        self, name: str, reconcile: Reconcile, workers: int = 4, *, queue: WorkQueue | None = None, drain_s: float = DRAIN_S
    ) -> None:
        self.name = name
        self.queue = queue or WorkQueue(name)
        self._reconcile = reconcile
        self._workers = workers
        for result in ("success", "requeue", "requeue_after", "error"):
            RECONCILES.labels(name, result)
        for measure in (ERRORS, TERMINAL_ERRORS, PANICS, TIME, ACTIVE):
            measure.labels(name)
        MAX_CONCURRENT.labels(name).set(workers)
        self._drain_s = drain_s

    def watch(self, informer: Informer, map_fn: MapFunction, *, when: ChangeFilter | None = None) -> None:
        """Enqueue `map_fn(obj)` for the old and the new state of each change that passes `when(old, new)`."""

        def on_change(old: Object | None, new: Object | None) -> None:
            if when is not None and not when(old, new):
                return
            for obj in (old, new):
                if obj is not None:
                    for request in map_fn(obj):
                        self.queue.add(request)

        informer.add_handler(on_change)

    def wake_all(self, informer: Informer) -> None:
        """Enqueue every object of `informer` itself: something changed that concerns all of them."""
        for obj in informer.store.all():
            for request in itself(obj):
                self.queue.add(request)

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set, then finish what is under way within `drain_s`."""
        workers = [asyncio.create_task(self._work(), name=f"{self.name}-{number}") for number in range(self._workers)]
        try:
            await stop.wait()
            self.queue.shut_down()
            _, late = await asyncio.wait(workers, timeout=self._drain_s)
            if late:
                log.warning("reconciles cancelled at stop", controller=self.name, count=len(late))
        finally:
            self.queue.shut_down()
            for worker in workers:
                worker.cancel()
            await asyncio.wait(workers)

    async def _work(self) -> None:
        while (request := await self.queue.get()) is not None:
            try:
                with ACTIVE.labels(self.name).track_inprogress(), TIME.labels(self.name).time():
                    result = await self._once(request)
                RECONCILES.labels(self.name, result).inc()
            finally:
                self.queue.done(request)

    async def _once(self, request: Request) -> str:
        facts = {"controller": self.name, "namespace": request.namespace, "name": request.name}
        try:
            result = await self._reconcile(request)
        except TerminalError as err:
            log.error("reconcile refused until the object changes", **facts, err=err)
            self.queue.forget(request)
            ERRORS.labels(self.name).inc()
            TERMINAL_ERRORS.labels(self.name).inc()
            return "error"
        except ConflictError as err:
            log.debug("reconcile met a newer object", **facts, err=err)
            self.queue.add_rate_limited(request)
            return "requeue"
        except AscendPdError as err:
            delay_s = self.queue.add_rate_limited(request)
            log.warning("reconcile failed", **facts, err=err, kind=type(err).__name__, retry_s=delay_s)
            ERRORS.labels(self.name).inc()
            return "error"
        except Exception:  # a defect in one reconcile must not stop the worker
            delay_s = self.queue.add_rate_limited(request)
            log.exception("reconcile failed unexpectedly", **facts, retry_s=delay_s)
            ERRORS.labels(self.name).inc()
            PANICS.labels(self.name).inc()
            return "error"
        self.queue.forget(request)
        if result.requeue_after_s is not None:
            self.queue.add_after(request, result.requeue_after_s)
            return "requeue_after"
        return "success"


def itself(obj: Object) -> Iterable[Request]:
    """Map function: the object's own request."""
    return (Request(namespace_of(obj), name_of(obj)),)


def owner(kind: Kind) -> MapFunction:
    """Map function: the controlling owner, when it is of `kind` (of any version of it)."""

    def map_to_owner(obj: Object) -> Iterable[Request]:
        reference = controller_owner_of(obj)
        if reference is None or reference.get("kind") != kind.kind:
            return ()
        group = str(reference.get("apiVersion")).rpartition("/")[0]
        return (Request(namespace_of(obj), str(reference["name"])),) if group == kind.group else ()

    return map_to_owner
