# SPDX-License-Identifier: Apache-2.0
"""Pending keys of a controller.

Invariants: a request is in the queue at most once; it is never handed to two workers at a time; what is added while it is
being worked on comes back exactly once after `done`; order is first in, first out, so a key that keeps failing or keeps
changing cannot starve the others.
"""

from __future__ import annotations

import asyncio
import weakref
from collections import deque
from typing import NamedTuple

from prometheus_client import Counter, Gauge, Histogram

from controller_runtime.foundation.backoff import Backoff
from controller_runtime.foundation.metrics import REGISTRY

BASE_DELAY_S = 0.005
MAX_DELAY_S = 1000.0

DEPTH = Gauge("workqueue_depth", "Requests waiting for a worker.", ["name"], registry=REGISTRY)
ADDS = Counter("workqueue_adds_total", "Requests put into the queue.", ["name"], registry=REGISTRY)
RETRIES = Counter("workqueue_retries_total", "Requests put back after a failure.", ["name"], registry=REGISTRY)
WAIT = Histogram("workqueue_queue_duration_seconds", "Time from added to handed out.", ["name"], registry=REGISTRY)
WORK = Histogram("workqueue_work_duration_seconds", "Time from handed out to done.", ["name"], registry=REGISTRY)
UNFINISHED = Gauge("workqueue_unfinished_work_seconds", "Time that work under way has taken so far, added up.", ["name"], registry=REGISTRY)
LONGEST = Gauge(
    "workqueue_longest_running_processor_seconds", "Time that the longest work under way has taken so far.", ["name"], registry=REGISTRY
)


class Request(NamedTuple):
    """The object to reconcile; `namespace` is `""` for cluster-wide kinds."""

    namespace: str
    name: str


class WorkQueue:
    """A queue of `Request`s. Worker protocol: `get`, work, then `forget` or `add_rate_limited`, and always `done`."""

    def __init__(self, name: str, base_delay_s: float = BASE_DELAY_S, max_delay_s: float = MAX_DELAY_S) -> None:
        self._base_delay_s = base_delay_s
        self._max_delay_s = max_delay_s
        self._ready: deque[Request] = deque()
        self._added_at: dict[Request, float] = {}
        """Requests that need work, with the time they were first added: in `_ready`, or waiting for `done`."""
        self._started_at: dict[Request, float] = {}
        self._timers: dict[Request, asyncio.TimerHandle] = {}
        self._failures: dict[Request, Backoff] = {}
        self._getters: deque[asyncio.Future[None]] = deque()
        self._is_shut_down = False
        self._depth, self._adds, self._retries = DEPTH.labels(name), ADDS.labels(name), RETRIES.labels(name)
        self._wait, self._work = WAIT.labels(name), WORK.labels(name)
        me = weakref.ref(self)
        UNFINISHED.labels(name).set_function(lambda: sum(_running_s(me())))
        LONGEST.labels(name).set_function(lambda: max(_running_s(me()), default=0.0))

    def __len__(self) -> int:
        return len(self._ready)

    def add(self, request: Request) -> None:
        """Ask for work on `request` as soon as possible."""
        if self._is_shut_down or request in self._added_at:
            return
        self._adds.inc()
        self._added_at[request] = _now()
        if request not in self._started_at:
            self._enqueue(request)

    def add_after(self, request: Request, seconds: float) -> None:
        """Ask for work after `seconds`. Of several pending times for one request the earliest counts."""
        if seconds <= 0:
            self.add(request)
            return
        if self._is_shut_down:
            return
        due = _now() + seconds
        pending = self._timers.get(request)
        if pending is not None:
            if pending.when() <= due:
                return
            pending.cancel()
        self._timers[request] = asyncio.get_running_loop().call_at(due, self._fire, request)

    def add_rate_limited(self, request: Request) -> float:
        """Ask for work after this request's own backoff, doubling with each call until `forget`. Returns the seconds."""
        backoff = self._failures.get(request)
        if backoff is None:
            backoff = self._failures[request] = Backoff(self._base_delay_s, self._max_delay_s, jitter=0.0)
        delay_s = backoff.next_s()
        self._retries.inc()
        self.add_after(request, delay_s)
        return delay_s

    def forget(self, request: Request) -> None:
        """Start the backoff of `request` over."""
        self._failures.pop(request, None)

    def failures(self, request: Request) -> int:
        """How often `request` was rate limited since it was last forgotten."""
        backoff = self._failures.get(request)
        return backoff.failures if backoff else 0

    def running_s(self) -> list[float]:
        """Seconds since each request under work was handed out."""
        return [_now() - started for started in self._started_at.values()]

    async def get(self) -> Request | None:
        """Wait for the next request and take it; None when the queue is shut down."""
        while not self._ready:
            if self._is_shut_down:
                return None
            getter = asyncio.get_running_loop().create_future()
            self._getters.append(getter)
            try:
                await getter
            except asyncio.CancelledError:
                if getter.done() and not getter.cancelled():
                    self._wake_one()
                raise
        request = self._ready.popleft()
        now = _now()
        self._depth.set(len(self._ready))
        self._wait.observe(now - self._added_at.pop(request))
        self._started_at[request] = now
        return request

    def done(self, request: Request) -> None:
        """Say that the work handed out by `get` ended, well or badly."""
        self._work.observe(_now() - self._started_at.pop(request))
        if request in self._added_at:
            self._enqueue(request)

    def shut_down(self) -> None:
        """Drop what waits and let every `get` return None. Nothing is lost: keys are derived again from the next list."""
        self._is_shut_down = True
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._ready.clear()
        self._added_at.clear()
        self._depth.set(0)
        while self._getters:
            self._wake_one()

    def _fire(self, request: Request) -> None:
        del self._timers[request]
        self.add(request)

    def _enqueue(self, request: Request) -> None:
        self._ready.append(request)
        self._depth.set(len(self._ready))
        self._wake_one()

    def _wake_one(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return


def _running_s(queue: WorkQueue | None) -> list[float]:
    """Seconds that each request under work has taken so far. Asked at a scrape, by then the queue may be gone."""
    return queue.running_s() if queue is not None else []


def _now() -> float:
    return asyncio.get_running_loop().time()
