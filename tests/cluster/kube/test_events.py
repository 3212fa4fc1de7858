# SPDX-License-Identifier: Apache-2.0
"""Events as the real API server stores them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from controller_runtime.kube.client import KubeClient
from controller_runtime.kube.events import OBJECT_BURST, WINDOW_S, EventRecorder
from controller_runtime.kube.kind import EVENT, Object, uid_of
from tests.support.objects import config_map

pytestmark = pytest.mark.cluster


class ManualClock:
    def __init__(self) -> None:
        self.passed_s = 0.0

    def monotonic(self) -> float:
        return self.passed_s

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.passed_s)


async def events(client: KubeClient, namespace: str) -> list[Object]:
    items, _ = await client.list(EVENT, namespace)
    return items


async def test_an_equal_event_raises_the_count_and_a_different_one_is_new(client: KubeClient, namespace: str) -> None:
    clock = ManualClock()
    recorder = EventRecorder(client, "infer-operator", clock=clock, instance="pod-0")
    about = await client.create(config_map(namespace, "thing"))
    for _ in range(3):
        await recorder.event(about, "Warning", "CreateFailed", "quota exceeded")
        clock.passed_s += 60
    await recorder.event(about, "Normal", "Created", "made it")

    found = {event["reason"]: event for event in await events(client, namespace)}

    failed = found["CreateFailed"]
    assert (failed["count"], failed["firstTimestamp"], failed["lastTimestamp"]) == (3, "2026-01-01T00:00:00Z", "2026-01-01T00:02:00Z")
    assert failed["involvedObject"]["uid"] == uid_of(about)
    assert failed["source"]["component"] == failed["reportingComponent"] == "infer-operator"
    assert (found["Created"]["count"], found["Created"]["type"]) == (1, "Normal")
    assert len(found) == 2


async def test_after_ten_quiet_minutes_an_equal_event_is_a_new_one(client: KubeClient, namespace: str) -> None:
    clock = ManualClock()
    recorder = EventRecorder(client, "infer-operator", clock=clock)
    about = await client.create(config_map(namespace, "thing"))
    await recorder.event(about, "Normal", "Scaled", "to 3")
    clock.passed_s += WINDOW_S + 1
    await recorder.event(about, "Normal", "Scaled", "to 3")

    assert [event["count"] for event in await events(client, namespace)] == [1, 1]


async def test_an_expired_event_is_written_anew(client: KubeClient, namespace: str) -> None:
    clock = ManualClock()
    recorder = EventRecorder(client, "infer-operator", clock=clock)
    about = await client.create(config_map(namespace, "thing"))
    await recorder.event(about, "Normal", "Scaled", "to 3")
    for event in await events(client, namespace):
        await client.delete(EVENT, event["metadata"]["name"], namespace)
    clock.passed_s += 1
    await recorder.event(about, "Normal", "Scaled", "to 3")

    assert [event["count"] for event in await events(client, namespace)] == [1]


async def test_a_restless_object_is_cut_off_and_others_are_not(client: KubeClient, namespace: str) -> None:
    clock = ManualClock()
    recorder = EventRecorder(client, "infer-operator", clock=clock)
    restless = await client.create(config_map(namespace, "restless"))
    calm = await client.create(config_map(namespace, "calm"))
    for number in range(OBJECT_BURST + 10):
        clock.passed_s += 0.001
        await recorder.event(restless, "Normal", "Flapped", f"time {number}")
    await recorder.event(calm, "Normal", "Created", "made it")

    assert len(await events(client, namespace)) == OBJECT_BURST + 1


async def test_an_event_the_server_refuses_does_not_fail_the_caller(client: KubeClient) -> None:
    recorder = EventRecorder(client, "infer-operator")
    about = config_map("no-such-namespace", "thing")

    await recorder.event(about, "Normal", "Created", "x" * 2000)
