# SPDX-License-Identifier: Apache-2.0
"""Faulty pods: their instance is made again, once, and nothing else."""

from __future__ import annotations

import json

import pytest

from controller_runtime.kube.kind import (
    DEPLOYMENT,
    INFER_SERVICE_SET,
    INSTANCE_SET,
    POD,
    STATEFUL_SET,
    Kind,
    controller_owner_of,
    name_of,
    uid_of,
)
from tests.support.eventually import eventually, steadily
from tests.support.fake_node import FakeNode
from tests.support.infer import pod_template, role, set_object
from tests.support.life_log import life_log
from tests.support.operator_run import Cluster, running_operator
from tests.support.ready_pods import ReadyPods
from tests.support.recording_client import RecordingClient

pytestmark = pytest.mark.cluster

KINDS = pytest.mark.parametrize("kind", [STATEFUL_SET, DEPLOYMENT], ids=lambda kind: kind.kind)


async def mark(cluster: Cluster, pod: str, says: str = "Unhealthy-node") -> None:
    """Do as the scheduler plugin does."""
    await cluster.client.patch(POD, pod, cluster.namespace, {"metadata": {"annotations": {"huawei.com/pod-status": says}}})


async def pod_of(cluster: Cluster, workload: str, of: int = 1) -> str:
    """A pod of a workload that has `of`, once those of its predecessors are gone or going."""
    found: list[str] = []

    async def has_its_own() -> bool:
        pods = (await cluster.client.list(POD, cluster.namespace))[0]
        found[:] = [
            name_of(each) for each in pods if name_of(each).startswith(f"{workload}-") and "deletionTimestamp" not in each["metadata"]
        ]
        return len(found) == of

    await eventually(has_its_own, f"{workload} has {of} pods and no others", 60)
    return found[0]


async def controllers(cluster: Cluster) -> dict[str, str]:
    """Uid of every pod, and of its controller."""
    pods = (await cluster.client.list(POD, cluster.namespace))[0]
    return {uid_of(each): str((controller_owner_of(each) or {}).get("uid")) for each in pods}


def deletes(client: RecordingClient, cluster: Cluster, kind: Kind) -> list[str]:
    """Workloads of a kind that the operator deleted, in order."""
    return [name for verb, of, name in client.writes_in(cluster.namespace) if (verb, of) == ("delete", kind.kind)]


@KINDS
async def test_v51_the_instance_of_a_faulty_pod_is_made_again_and_no_other(
    cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods, kind: Kind
) -> None:
    """Vector 51."""
    await cluster.write(set_object("x", [role("a", 2, kind.kind)]))
    async with running_operator(operator_client):
        await cluster.until_ready(INFER_SERVICE_SET, "x")
        before = await cluster.uids(kind)

        await mark(cluster, await pod_of(cluster, "x-0-a-1"))
        await eventually(lambda: deletes(operator_client, cluster, kind) != [], "the instance is deleted")
        await cluster.until_ready(INFER_SERVICE_SET, "x")
        await cluster.until_quiet(operator_client)

        after = await cluster.uids(kind)
        assert [name for name, uid in after.items() if before[name] != uid] == [f"{kind.kind}/x-0-a-1"]
        assert deletes(operator_client, cluster, kind) == ["x-0-a-1"]


async def test_v51_a_pod_that_is_faulty_when_the_operator_starts_counts(
    cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods
) -> None:
    """Vector 51."""
    await cluster.write(set_object("x", [role("a", 2, "StatefulSet"), role("b")]))
    async with running_operator(operator_client):
        await cluster.until_ready(INFER_SERVICE_SET, "x")
    before = await cluster.uids(STATEFUL_SET, DEPLOYMENT)
    await mark(cluster, "x-0-a-0-0")
    await mark(cluster, await pod_of(cluster, "x-0-b-0"))

    async with running_operator(operator_client):
        await eventually(lambda: _are_new(cluster, before, 2), "both instances are made again", 30)
        await cluster.until_ready(INFER_SERVICE_SET, "x")
        await cluster.until_quiet(operator_client)

    after = await cluster.uids(STATEFUL_SET, DEPLOYMENT)
    assert {name for name, uid in before.items() if after[name] == uid} == {"StatefulSet/x-0-a-1"}
    assert deletes(operator_client, cluster, STATEFUL_SET) + deletes(operator_client, cluster, DEPLOYMENT) == ["x-0-a-0", "x-0-b-0"]


async def _are_new(cluster: Cluster, before: dict[str, str], count: int) -> bool:
    after = await cluster.uids(STATEFUL_SET, DEPLOYMENT)
    return set(after) == set(before) and sum(after[name] != uid for name, uid in before.items()) == count


@KINDS
async def test_v52_retries_are_counted_across_restarts_and_then_the_instance_stays(
    cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods, kind: Kind
) -> None:
    """Vector 52: two rebuilds, then none, and one Event that says so."""
    template = {"replicas": 1, "template": pod_template({"fault-retry-times": "2"})}
    await cluster.write(set_object("x", [role("a", 1, kind.kind, spec=template)]))
    for rebuilds in (1, 2):
        async with running_operator(operator_client):
            await cluster.until_ready(INFER_SERVICE_SET, "x")
            before = await cluster.uids(STATEFUL_SET, DEPLOYMENT)
            await mark(cluster, await pod_of(cluster, "x-0-a-0"), "Unhealthy-pod-failed")
            await eventually(lambda: _are_new(cluster, before, 1), "the instance is made again", 30)  # noqa: B023 - awaited here
            await cluster.until_ready(INFER_SERVICE_SET, "x")
            await cluster.until_quiet(operator_client)
            assert deletes(operator_client, cluster, kind) == ["x-0-a-0"] * rebuilds

    for _ in range(2):
        async with running_operator(operator_client):
            await mark(cluster, await pod_of(cluster, "x-0-a-0"), "Unhealthy-pod-failed")
            await eventually(lambda: _is_told(cluster), "the user is told", 30)
            await cluster.until_quiet(operator_client)
    assert deletes(operator_client, cluster, kind) == ["x-0-a-0"] * 2
    assert await cluster.events("FaultRetriesExhausted") == [("InferServiceSet/x", 1)]
    workload = await cluster.get(kind, "x-0-a-0")
    assert "infer.huawei.com/fault-record" not in workload["metadata"].get("annotations", {})


async def _is_told(cluster: Cluster) -> bool:
    return await cluster.events("FaultRetriesExhausted") != []


@pytest.mark.parametrize("retry_times", [None, "x"])
async def test_v52_without_a_number_of_retries_a_business_fault_is_ignored(
    cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods, retry_times: str | None
) -> None:
    """Vector 52."""
    labels = {"fault-retry-times": retry_times} if retry_times else None
    await cluster.write(set_object("x", [role("a", 1, spec={"replicas": 1, "template": pod_template(labels)})]))
    async with running_operator(operator_client):
        await cluster.until_ready(INFER_SERVICE_SET, "x")
        await cluster.until_quiet(operator_client)
        before = len(operator_client.writes_in(cluster.namespace))

        await mark(cluster, await pod_of(cluster, "x-0-a-0"), "Unhealthy-pod-failed")
        await cluster.until_quiet(operator_client, 100)
        assert len(operator_client.writes_in(cluster.namespace)) == before


async def test_v53_several_faults_of_one_instance_rebuild_it_once(
    cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods, node: FakeNode
) -> None:
    """Vector 53: the other pods of the instance become faulty while it is being made again."""
    pods.terminating_s = 3.0
    await cluster.write(set_object("x", [role("a", 1, "Deployment", 4)]))
    async with running_operator(operator_client):
        await cluster.until_ready(INFER_SERVICE_SET, "x")
        old = [name_of(each) for each in (await cluster.client.list(POD, cluster.namespace))[0]]
        async with life_log(cluster.client, cluster.namespace, DEPLOYMENT) as log:
            for name in old[:2]:
                await mark(cluster, name)
            once = ["-Deployment/x-0-a-0", "+Deployment/x-0-a-0"]
            await eventually(lambda: log.lines == once, "the instance is made again", 30)
            for name in old[2:]:
                await mark(cluster, name)

            await cluster.until_ready(INFER_SERVICE_SET, "x")
            await steadily(lambda: log.lines == once, "it is not made again twice", 6)
        assert await cluster.events("InstanceRebuilt") == [("InferServiceSet/x", 1)]


@KINDS
async def test_external_force_removes_the_old_pods_at_once_and_no_others(
    cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods, node: FakeNode, kind: Kind
) -> None:
    """On a lost node nobody else would."""
    pods.terminating_s = None
    template = pod_template({"fault-scheduling": "external-force"})
    await cluster.write(set_object("x", [role("a", 1, kind.kind, spec={"replicas": 2, "template": template})]))
    async with running_operator(operator_client):
        await cluster.until_ready(INFER_SERVICE_SET, "x")
        old = await controllers(cluster)
        async with life_log(cluster.client, cluster.namespace, POD) as log:
            await mark(cluster, await pod_of(cluster, "x-0-a-0", of=2))

            await eventually(lambda: log.removed.keys() >= old.keys(), "the old pods are removed", 30)
            await cluster.until_ready(INFER_SERVICE_SET, "x")
            await cluster.until_quiet(operator_client)
            await eventually(lambda: _are_gone(cluster, old), "late pods of the old instance are removed too", 30)
            assert set(log.removed.values()) == set(old.values())


async def _are_gone(cluster: Cluster, old: dict[str, str]) -> bool:
    return set((await controllers(cluster)).values()).isdisjoint(old.values())


@KINDS
async def test_external_grace_outlives_the_operator_and_spares_the_replacements(
    cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods, node: FakeNode, kind: Kind
) -> None:
    """The operator that rebuilt the instance crashes; the next one removes its pods when their time is over, not before."""
    pods.terminating_s = None
    template = pod_template({"fault-scheduling": "external-grace"})
    template["spec"]["terminationGracePeriodSeconds"] = 4
    await cluster.write(set_object("x", [role("a", 1, kind.kind, spec={"replicas": 2, "template": template})]))
    async with running_operator(operator_client) as crashing:
        await cluster.until_ready(INFER_SERVICE_SET, "x")
        before = await cluster.uids(STATEFUL_SET, DEPLOYMENT)
        old = await controllers(cluster)
        await mark(cluster, await pod_of(cluster, "x-0-a-0", of=2))
        await eventually(lambda: _are_new(cluster, before, 1), "the instance is made again", 30)
        crashing.cancel()

    async with life_log(cluster.client, cluster.namespace, POD) as log, running_operator(operator_client):
        await steadily(lambda: not log.removed.keys() & old.keys(), "the old pods have their time", 2)
        await eventually(lambda: log.removed.keys() >= old.keys(), "the old pods are removed", 30)
        await cluster.until_ready(INFER_SERVICE_SET, "x")
        await steadily(lambda: set(log.removed.values()) == set(old.values()), "the replacements stay", 6)


async def test_with_strategy_priority_less_important_roles_that_are_not_ready_make_room(
    cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods
) -> None:
    """Of whatever kind; and they wait until the rebuilt role is ready."""
    roles = [role("a", 1, "StatefulSet", priority=1), role("b", 1, "Deployment", priority=2), role("c", 1, "Deployment", priority=3)]
    await cluster.write(set_object("x", roles, schedulingStrategy={"type": "Priority"}))
    async with running_operator(operator_client):
        await cluster.until_ready(INFER_SERVICE_SET, "x")
        pods.hold = True
        await cluster.delete(POD, await pod_of(cluster, "x-0-c-0"))
        await eventually(lambda: _is_not_ready(cluster, "x-0-c"), "role c is not ready", 30)
        async with life_log(cluster.client, cluster.namespace, STATEFUL_SET, DEPLOYMENT) as log:
            await mark(cluster, "x-0-a-0-0")
            expected = ["+StatefulSet/x-0-a-0", "-Deployment/x-0-c-0", "-StatefulSet/x-0-a-0"]
            await eventually(lambda: sorted(log.lines) == expected, "role a is made again, role c gives way", 30)
            await steadily(lambda: sorted(log.lines) == expected, "role c waits, role b keeps what it has", 2)

            pods.release()
            await cluster.until_ready(INFER_SERVICE_SET, "x")
            assert sorted(log.of(DEPLOYMENT)) == ["+Deployment/x-0-c-0", "-Deployment/x-0-c-0"]


async def _is_not_ready(cluster: Cluster, name: str) -> bool:
    condition = await cluster.condition(INSTANCE_SET, name)
    return condition is not None and condition[0] == "False"


@pytest.mark.parametrize("after", ["patch", "delete"])
async def test_an_operator_that_crashes_in_a_rebuild_is_completed_by_the_next(
    cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods, after: str
) -> None:
    """After the note of the retry, and after the deletion: one rebuild, one retry used."""
    template = {"replicas": 1, "template": pod_template({"fault-retry-times": "1"})}
    await cluster.write(set_object("x", [role("a", 1, "StatefulSet", spec=template)]))
    async with running_operator(operator_client) as crashing:
        await cluster.until_ready(INFER_SERVICE_SET, "x")
        before = await cluster.uids(STATEFUL_SET)
        operator_client.crash = (after, crashing)
        await mark(cluster, "x-0-a-0-0", "Unhealthy-pod-failed")
        await eventually(crashing.done, "the operator crashed", 30)
    operator_client.crash = None

    async with running_operator(operator_client):
        await eventually(lambda: _are_new(cluster, before, 1), "the instance is made again", 30)
        await cluster.until_ready(INFER_SERVICE_SET, "x")
        await cluster.until_quiet(operator_client)
        assert deletes(operator_client, cluster, STATEFUL_SET) == ["x-0-a-0"]
        record = (await cluster.get(INSTANCE_SET, "x-0-a"))["metadata"]["annotations"]["infer.huawei.com/fault-record"]
        assert json.loads(record)["instances"]["0"] == {"used": 1, "counted": before["StatefulSet/x-0-a-0"]}


@KINDS
async def test_a_rebuild_is_seen_as_not_ready_once_and_ready_once(
    cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods, kind: Kind
) -> None:
    """Not by the cache that still shows the old workload: the note of the retry wakes the controller before the cache does."""
    spec = {"replicas": 1, "template": pod_template({"fault-retry-times": "9"})}
    await cluster.write(set_object("x", [role("a", 1, kind.kind, spec=spec)]))
    async with running_operator(operator_client):
        await cluster.until_ready(INFER_SERVICE_SET, "x")
        for _ in range(5):
            before = await cluster.uids(STATEFUL_SET, DEPLOYMENT)
            status_writes = _status_writes(operator_client, cluster)
            await mark(cluster, await pod_of(cluster, "x-0-a-0"), "Unhealthy-pod-failed")
            await eventually(lambda: _are_new(cluster, before, 1), "the instance is made again", 30)  # noqa: B023 - awaited here
            await cluster.until_ready(INFER_SERVICE_SET, "x")
            await cluster.until_quiet(operator_client)
            assert _status_writes(operator_client, cluster) == status_writes + 2


def _status_writes(client: RecordingClient, cluster: Cluster) -> int:
    return sum((verb, of) == ("status", INSTANCE_SET.kind) for verb, of, _ in client.writes_in(cluster.namespace))
