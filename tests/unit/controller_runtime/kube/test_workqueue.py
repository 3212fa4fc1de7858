# SPDX-License-Identifier: Apache-2.0
"""The work queue: a state machine against a model, and its timing in simulated time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

import looptime
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from controller_runtime.foundation.metrics import REGISTRY
from controller_runtime.kube.workqueue import Request, WorkQueue

T = TypeVar("T")
REQUESTS = [Request("ns", name) for name in "abcd"]
requests = st.sampled_from(REQUESTS)


class QueueMachine(RuleBasedStateMachine):
    """The model: an ordered list of ready requests, a set under work, a set to come back after `done`, and due times."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = looptime.new_event_loop(start=0.0)
        self.queue = self.run(self.make())
        self.ready: list[Request] = []
        self.working: set[Request] = set()
        self.again: set[Request] = set()
        self.due: dict[Request, float] = {}
        self.failures: dict[Request, int] = {}

    def teardown(self) -> None:
        self.run(self.shut_down())
        self.loop.close()

    def run(self, work: Awaitable[T]) -> T:
        return self.loop.run_until_complete(work)

    async def make(self) -> WorkQueue:
        return WorkQueue("model", base_delay_s=1.0, max_delay_s=64.0)

    async def shut_down(self) -> None:
        self.queue.shut_down()

    def model_add(self, request: Request) -> None:
        if request in self.working:
            self.again.add(request)
        elif request not in self.ready:
            self.ready.append(request)

    @rule(request=requests)
    def add(self, request: Request) -> None:
        async def act() -> None:
            self.queue.add(request)

        self.run(act())
        self.model_add(request)

    @rule(request=requests, seconds=st.integers(1, 50))
    def add_after(self, request: Request, seconds: int) -> None:
        async def act() -> None:
            self.queue.add_after(request, seconds)

        due = self.loop.time() + seconds
        self.run(act())
        self.due[request] = min(due, self.due.get(request, due))

    @rule(request=requests)
    def add_rate_limited(self, request: Request) -> None:
        async def act() -> float:
            return self.queue.add_rate_limited(request)

        due = self.loop.time()
        delay_s = self.run(act())
        failures = self.failures.get(request, 0)
        assert delay_s == min(64.0, 2.0**failures)
        self.failures[request] = failures + 1
        self.due[request] = min(due + delay_s, self.due.get(request, due + delay_s))

    @rule(request=requests)
    def forget(self, request: Request) -> None:
        self.queue.forget(request)
        self.failures.pop(request, None)

    @precondition(lambda self: self.ready)
    @rule()
    def get(self) -> None:
        got = self.run(self.queue.get())
        assert got == self.ready.pop(0), "first in, first out"
        assert got not in self.working, "never two workers on one request"
        self.working.add(got)

    @precondition(lambda self: self.working)
    @rule(data=st.data())
    def done(self, data: st.DataObject) -> None:
        request = data.draw(st.sampled_from(sorted(self.working)))

        async def act() -> None:
            self.queue.done(request)

        self.run(act())
        self.working.discard(request)
        if request in self.again:
            self.again.discard(request)
            self.ready.append(request)

    @rule(seconds=st.integers(1, 40))
    def time_passes(self, seconds: int) -> None:
        now = self.loop.time()
        self.run(asyncio.sleep(seconds + 0.5))
        for request, due in sorted(self.due.items(), key=lambda item: item[1]):
            if due <= now + seconds + 0.5:
                del self.due[request]
                self.model_add(request)
        # requests that fall due in one instant may come in any order
        assert sorted(self.queue._ready) == sorted(self.ready)
        self.ready = list(self.queue._ready)

    @invariant()
    def agrees_with_the_model(self) -> None:
        assert list(self.queue._ready) == self.ready
        assert len(self.queue) == len(self.ready) == len(set(self.ready))
        assert {request: self.queue.failures(request) for request in REQUESTS if self.queue.failures(request)} == self.failures


TestWorkQueue = QueueMachine.TestCase
TestWorkQueue.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)

A, B = REQUESTS[:2]


@pytest.mark.looptime
async def test_backoff_grows_from_five_milliseconds_to_a_thousand_seconds() -> None:
    queue = WorkQueue("defaults")
    loop = asyncio.get_running_loop()
    waits = []
    for _ in range(20):
        queue.add_rate_limited(A)
        started = loop.time()
        assert await queue.get() == A
        waits.append(loop.time() - started)
        queue.done(A)

    assert waits[:4] == pytest.approx([0.005, 0.01, 0.02, 0.04], abs=1e-4)
    assert waits[17:] == pytest.approx([655.36, 1000.0, 1000.0], abs=0.1)
    queue.shut_down()


@pytest.mark.looptime
async def test_one_failing_request_does_not_slow_another() -> None:
    queue = WorkQueue("fair")
    for _ in range(10):
        queue.add_rate_limited(A)

    assert queue.add_rate_limited(B) == 0.005
    queue.shut_down()


@pytest.mark.looptime
async def test_of_two_times_the_earlier_counts_and_the_later_is_dropped() -> None:
    queue = WorkQueue("earliest")
    queue.add_after(A, 50)
    queue.add_after(A, 5)
    queue.add_after(A, 70)
    started = asyncio.get_running_loop().time()

    assert await queue.get() == A
    assert asyncio.get_running_loop().time() - started == pytest.approx(5, abs=0.01)
    queue.done(A)
    await asyncio.sleep(100)
    assert len(queue) == 0
    queue.shut_down()


@pytest.mark.looptime
async def test_waiting_workers_each_get_one_request() -> None:
    queue = WorkQueue("workers")
    workers = [asyncio.create_task(queue.get()) for _ in range(3)]
    await asyncio.sleep(1)
    queue.add(A)
    queue.add(B)
    queue.add(A)
    await asyncio.sleep(1)

    assert [worker.result() for worker in workers if worker.done()] == [A, B]
    queue.shut_down()
    assert await workers[2] is None


@pytest.mark.looptime
async def test_a_cancelled_worker_takes_no_request_with_it() -> None:
    queue = WorkQueue("cancelled")
    first, second = asyncio.create_task(queue.get()), asyncio.create_task(queue.get())
    await asyncio.sleep(1)
    queue.add(A)
    first.cancel()

    assert await second == A
    queue.shut_down()


@pytest.mark.looptime
async def test_shut_down_drops_what_waits_and_refuses_more() -> None:
    queue = WorkQueue("stopping")
    queue.add(A)
    queue.add_after(B, 1)
    queue.shut_down()
    queue.add(B)
    await asyncio.sleep(10)

    assert await queue.get() is None
    assert len(queue) == 0


@pytest.mark.looptime
async def test_metrics_tell_depth_waiting_working_time_and_retries() -> None:
    queue = WorkQueue("measured")
    queue.add(A)
    queue.add(B)
    await asyncio.sleep(2)
    await queue.get()
    await asyncio.sleep(3)
    await queue.get()
    await asyncio.sleep(1)
    queue.add_rate_limited(A)

    def value(name: str) -> float | None:
        return REGISTRY.get_sample_value(name, {"name": "measured"})

    assert value("workqueue_depth") == 0
    assert value("workqueue_adds_total") == 2
    assert value("workqueue_retries_total") == 1
    assert value("workqueue_queue_duration_seconds_sum") == pytest.approx(2 + 5, abs=0.01)
    assert value("workqueue_unfinished_work_seconds") == pytest.approx(4 + 1, abs=0.01)
    assert value("workqueue_longest_running_processor_seconds") == pytest.approx(4, abs=0.01)
    queue.done(A)
    assert value("workqueue_work_duration_seconds_sum") == pytest.approx(4, abs=0.01)
    assert value("workqueue_longest_running_processor_seconds") == pytest.approx(1, abs=0.01)
    queue.shut_down()
