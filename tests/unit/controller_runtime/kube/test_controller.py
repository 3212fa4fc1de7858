# SPDX-License-Identifier: Apache-2.0
"""What a controller does with the outcome of a reconcile, in simulated time."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from controller_runtime.errors import KubeError, TerminalError
from controller_runtime.foundation.metrics import REGISTRY
from controller_runtime.kube.controller import Controller, Result, itself, owner
from controller_runtime.kube.errors import ConflictError
from controller_runtime.kube.kind import CONFIG_MAP, INFER_SERVICE, INSTANCE_SET, Object
from controller_runtime.kube.workqueue import Request

pytestmark = pytest.mark.looptime

A, B = Request("ns", "a"), Request("ns", "b")


class Script:
    """A reconcile that plays outcomes in order (then success) and notes when it was called."""

    def __init__(self, *outcomes: Result | Exception, takes_s: float = 0.0) -> None:
        self.calls: list[tuple[float, Request]] = []
        self.active: list[Request] = []
        self.finished = 0
        self._outcomes = list(outcomes)
        self._takes_s = takes_s

    async def __call__(self, request: Request) -> Result:
        assert request not in self.active, "one request, two workers"
        self.calls.append((asyncio.get_running_loop().time(), request))
        self.active.append(request)
        try:
            await asyncio.sleep(self._takes_s)
        finally:
            self.active.remove(request)
        self.finished += 1
        outcome = self._outcomes.pop(0) if self._outcomes else Result.done()
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


@asynccontextmanager
async def running(controller: Controller) -> AsyncIterator[Controller]:
    stop = asyncio.Event()
    task = asyncio.create_task(controller.run(stop))
    try:
        yield controller
    finally:
        stop.set()
        await task


@pytest.mark.parametrize(
    "outcome, calls, failures",
    [
        (Result.done(), 1, 0),
        (TerminalError("no use"), 1, 0),
        (KubeError("later"), 2, 0),
        (ConflictError("newer", status=409), 2, 0),
        (ZeroDivisionError(), 2, 0),
        (Result.after(30), 2, 0),
    ],
)
async def test_outcome_decides_whether_the_request_comes_back(outcome: Result | Exception, calls: int, failures: int) -> None:
    script = Script(outcome)
    async with running(Controller("outcomes", script)) as controller:
        controller.queue.add(A)
        await asyncio.sleep(60)

        assert len(script.calls) == calls
        assert controller.queue.failures(A) == failures


async def test_failures_back_off_and_success_starts_over() -> None:
    script = Script(*[KubeError("later")] * 5)
    async with running(Controller("backoff", script)) as controller:
        controller.queue.add(A)
        await asyncio.sleep(10)

        times = [time for time, _ in script.calls]
        gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
        assert gaps == pytest.approx([0.005, 0.01, 0.02, 0.04, 0.08], abs=1e-3)
        assert controller.queue.failures(A) == 0


async def test_requeue_after_waits_as_long_as_it_says() -> None:
    script = Script(Result.after(30))
    async with running(Controller("requeue", script)) as controller:
        controller.queue.add(A)
        await asyncio.sleep(60)

    (first, _), (second, _) = script.calls
    assert second - first == pytest.approx(30, abs=0.01)


async def test_requests_run_side_by_side_but_each_alone() -> None:
    script = Script(takes_s=10)
    async with running(Controller("parallel", script, workers=2)) as controller:
        controller.queue.add(A)
        controller.queue.add(B)
        await asyncio.sleep(1)
        controller.queue.add(A)
        assert sorted(script.active) == [A, B]
        await asyncio.sleep(30)

    assert [request for _, request in script.calls] == [A, B, A]


async def test_stop_lets_a_reconcile_finish_within_the_drain_time() -> None:
    script = Script(takes_s=5)
    async with running(Controller("drains", script, drain_s=10)) as controller:
        controller.queue.add(A)
        await asyncio.sleep(1)

    assert script.finished == 1


async def test_stop_cancels_a_reconcile_that_outlasts_the_drain_time() -> None:
    script = Script(takes_s=500)
    loop = asyncio.get_running_loop()
    async with running(Controller("stuck", script, drain_s=10)) as controller:
        controller.queue.add(A)
        await asyncio.sleep(1)
        stopped_at = loop.time()

    assert loop.time() - stopped_at == pytest.approx(10, abs=0.1)
    assert script.finished == 0


async def test_outcomes_are_counted() -> None:
    newer = ConflictError("newer", status=409)
    script = Script(ZeroDivisionError(), newer, Result.after(0.1), Result.done(), TerminalError("no use"))
    async with running(Controller("counted", script, workers=3)) as controller:
        controller.queue.add(A)
        await asyncio.sleep(1)
        controller.queue.add(A)
        await asyncio.sleep(1)

    def count(result: str) -> float | None:
        return REGISTRY.get_sample_value("controller_runtime_reconcile_total", {"controller": "counted", "result": result})

    def value(name: str) -> float | None:
        return REGISTRY.get_sample_value(f"controller_runtime_{name}", {"controller": "counted"})

    assert (count("error"), count("success"), count("requeue"), count("requeue_after")) == (2, 1, 1, 1)
    assert (value("reconcile_errors_total"), value("terminal_reconcile_errors_total"), value("reconcile_panics_total")) == (2, 1, 1)
    assert (value("max_concurrent_reconciles"), value("active_workers"), value("reconcile_time_seconds_count")) == (3, 0, 5)


class HandlerTaker:
    """The part of an informer that `Controller.watch` uses."""

    def __init__(self) -> None:
        self.change: Callable[[Object | None, Object | None], None] = lambda old, new: None

    def add_handler(self, handler: Callable[[Object | None, Object | None], None]) -> None:
        self.change = handler


def child(
    name: str, parent: str, kind: str = "InferService", api_version: str = "mindcluster.huawei.com/v1", controls: bool = True
) -> Object:
    reference = {"apiVersion": api_version, "kind": kind, "name": parent, "uid": "u", "controller": controls}
    return {"metadata": {"namespace": "ns", "name": name, "ownerReferences": [reference]}}


async def test_a_change_of_owner_wakes_both_owners() -> None:
    controller, informer = Controller("owners", Script()), HandlerTaker()
    controller.watch(informer, owner(INFER_SERVICE))  # type: ignore[arg-type]  # the part of it that is used
    informer.change(child("x", "old"), child("x", "new"))

    assert len(controller.queue) == 2
    assert {await controller.queue.get(), await controller.queue.get()} == {Request("ns", "old"), Request("ns", "new")}


async def test_a_filtered_change_wakes_nobody() -> None:
    controller, informer = Controller("filtered", Script()), HandlerTaker()
    controller.watch(informer, itself, when=lambda old, new: old is None)  # type: ignore[arg-type]  # the part of it that is used
    informer.change(child("x", "p"), child("x", "p"))
    assert len(controller.queue) == 0
    informer.change(None, child("x", "p"))
    assert len(controller.queue) == 1


@pytest.mark.parametrize(
    "obj, found",
    [
        (child("x", "p"), [Request("ns", "p")]),
        (child("x", "p", api_version="mindcluster.huawei.com/v9"), [Request("ns", "p")]),
        (child("x", "p", api_version="other.example.com/v1"), []),
        (child("x", "p", kind="InstanceSet"), []),
        (child("x", "p", controls=False), []),
        ({"metadata": {"namespace": "ns", "name": "x"}}, []),
    ],
)
async def test_only_the_controlling_owner_of_the_kind_is_mapped(obj: Object, found: list[Request]) -> None:
    assert list(owner(INFER_SERVICE)(obj)) == found


async def test_a_core_group_owner_is_mapped() -> None:
    assert list(owner(CONFIG_MAP)(child("x", "p", kind="ConfigMap", api_version="v1"))) == [Request("ns", "p")]
    assert list(owner(INSTANCE_SET)(child("x", "p", kind="ConfigMap", api_version="v1"))) == []
