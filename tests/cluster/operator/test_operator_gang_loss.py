# SPDX-License-Identifier: Apache-2.0
"""A pod of a gang that somebody removes costs its instance, once. What the operator causes itself costs nothing more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from controller_runtime.api.labels import GANG_SCHEDULE
from controller_runtime.kube.kind import DEPLOYMENT, INFER_SERVICE_SET, POD, STATEFUL_SET, Kind, Object, is_deleting, name_of, uid_of
from controller_runtime.kube.lease import LeaseElector
from controller_runtime.reconcilers.operator import OperatorSettings, build_operator
from tests.support import volcano
from tests.support.eventually import eventually, steadily
from tests.support.fake_node import FakeNode
from tests.support.infer import pod_template, role, set_object
from tests.support.life_log import life_log
from tests.support.operator_run import Cluster, running_operator
from tests.support.ready_pods import ReadyPods
from tests.support.recording_client import RecordingClient

pytestmark = pytest.mark.cluster

TERMINATING_S = 3.0
KINDS = pytest.mark.parametrize("kind", [STATEFUL_SET, DEPLOYMENT], ids=lambda kind: kind.kind)


@pytest.fixture(autouse=True)
async def pod_groups(cluster: Cluster) -> AsyncIterator[None]:
    """The cluster knows PodGroups."""
    async with volcano.installed(cluster.client):
        yield


@pytest.fixture(autouse=True)
def slow_end(pods: ReadyPods, node: FakeNode) -> None:
    """Pods take their time to terminate, as containers do."""
    pods.terminating_s = TERMINATING_S


def gang(kind: Kind, pods: int, replicas: int = 1, image: str = "example/none:1") -> Object:
    """A role whose pods start together."""
    template = pod_template(None, None, {"name": "infer", "image": image})
    spec: dict[str, Any] = {"replicas": pods, "template": template}
    if kind is STATEFUL_SET:
        spec["podManagementPolicy"] = "Parallel"
    return role("g", replicas, kind.kind, metadata={"labels": {GANG_SCHEDULE: "true"}}, spec=spec)


async def pods_of(cluster: Cluster, workload: str) -> list[Object]:
    """Pods of a workload that are not going."""
    pods = (await cluster.client.list(POD, cluster.namespace))[0]
    return [each for each in pods if name_of(each).startswith(f"{workload}-") and not is_deleting(each)]


async def test_v69_a_lost_pod_costs_one_delete_and_one_create(cluster: Cluster, operator_client: RecordingClient) -> None:
    """Vectors 54 and 69: both kinds, 1, 2 and 4 pods."""
    cases = {f"{letter}{pods}": (kind, pods) for letter, kind in (("s", STATEFUL_SET), ("d", DEPLOYMENT)) for pods in (1, 2, 4)}
    for name, (kind, pods) in cases.items():
        await cluster.write(set_object(name, [gang(kind, pods)]))
    async with running_operator(operator_client):
        for name in cases:
            await cluster.until_ready(INFER_SERVICE_SET, name)
        async with life_log(cluster.client, cluster.namespace, STATEFUL_SET, DEPLOYMENT) as log:
            for name in cases:
                victim = (await pods_of(cluster, f"{name}-0-g-0"))[0]
                await cluster.delete(POD, name_of(victim))

            expected = {f"{sign}{kind.kind}/{name}-0-g-0" for name, (kind, _) in cases.items() for sign in "+-"}
            await eventually(lambda: set(log.lines) == expected, "each instance is made again", 60)
            for name in cases:
                await cluster.until_ready(INFER_SERVICE_SET, name)
            await steadily(lambda: len(log.lines) == 12, "nothing is made again twice", 10 * TERMINATING_S)

        events = await cluster.events("InstanceRebuilt")
        assert events == sorted((f"InferServiceSet/{name}", 1) for name in cases)


@KINDS
async def test_v54_without_gang_a_lost_pod_is_its_workload_s_business(
    cluster: Cluster, operator_client: RecordingClient, kind: Kind
) -> None:
    """Vector 54."""
    await cluster.write(set_object("x", [role("g", 1, kind.kind, 2)]))
    async with running_operator(operator_client):
        await cluster.until_ready(INFER_SERVICE_SET, "x")
        before = await cluster.uids(kind)

        victim = (await pods_of(cluster, "x-0-g-0"))[0]
        await cluster.delete(POD, name_of(victim))

        async def is_replaced() -> bool:
            found = await pods_of(cluster, "x-0-g-0")
            return len(found) == 2 and uid_of(victim) not in {uid_of(each) for each in found}

        await eventually(is_replaced, "the pod is replaced", 30)
        await cluster.until_ready(INFER_SERVICE_SET, "x")
        await cluster.until_quiet(operator_client, 100)
        assert await cluster.uids(kind) == before


@KINDS
async def test_scale_in_of_a_gang_rebuilds_nothing(cluster: Cluster, operator_client: RecordingClient, kind: Kind) -> None:
    """Fewer instances, then fewer pods in the one that is left."""
    await cluster.write(set_object("x", [gang(kind, 4, 3)]))
    async with running_operator(operator_client):
        await cluster.until_ready(INFER_SERVICE_SET, "x")
        async with life_log(cluster.client, cluster.namespace, kind, POD) as log:
            await cluster.edit(INFER_SERVICE_SET, "x", ("replace", "/spec/template/roles/0/replicas", 1))
            await eventually(lambda: sorted(log.of(kind)) == [f"-{kind.kind}/x-0-g-1", f"-{kind.kind}/x-0-g-2"], "two instances go", 30)
            await cluster.edit(INFER_SERVICE_SET, "x", ("replace", "/spec/template/roles/0/spec/replicas", 2))

            await eventually(lambda: len(log.of(POD)) == 4 + 4 + 2, "all surplus pods go", 60)
            await cluster.until_ready(INFER_SERVICE_SET, "x")
            await steadily(lambda: len(log.of(kind)) == 2, "the instance that is left stays", 2 * TERMINATING_S)
        assert await cluster.events("InstanceRebuilt") == []


@KINDS
async def test_a_roll_out_of_a_gang_rebuilds_nothing(cluster: Cluster, operator_client: RecordingClient, kind: Kind) -> None:
    """The pods of the older template go because of the newer one."""
    await cluster.write(set_object("x", [gang(kind, 2)]))
    async with running_operator(operator_client):
        await cluster.until_ready(INFER_SERVICE_SET, "x")
        async with life_log(cluster.client, cluster.namespace, kind, POD) as log:
            image = "/spec/template/roles/0/spec/template/spec/containers/0/image"
            await cluster.edit(INFER_SERVICE_SET, "x", ("replace", image, "example/none:2"))

            await eventually(lambda: sum(line.startswith("-") for line in log.of(POD)) == 2, "both old pods are gone", 60)
            await cluster.until_ready(INFER_SERVICE_SET, "x")
            await steadily(lambda: log.of(kind) == [], "the workload stays", 2 * TERMINATING_S)
        assert await cluster.events("InstanceRebuilt") == []


@KINDS
async def test_a_deleted_set_made_again_at_once_starts_over_without_a_rebuild(
    cluster: Cluster, operator_client: RecordingClient, kind: Kind
) -> None:
    """Its old pods are still going when the new instance of the same name is there."""
    await cluster.write(set_object("x", [gang(kind, 2)]))
    async with running_operator(operator_client):
        await cluster.until_ready(INFER_SERVICE_SET, "x")
        async with life_log(cluster.client, cluster.namespace, kind) as log:
            await cluster.delete(INFER_SERVICE_SET, "x")
            await cluster.write(set_object("x", [gang(kind, 2)]))

            once = [f"-{kind.kind}/x-0-g-0", f"+{kind.kind}/x-0-g-0"]
            await eventually(lambda: log.lines == once, "the instance is made again", 90)
            await cluster.until_ready(INFER_SERVICE_SET, "x")
            await steadily(lambda: log.lines == once, "it stays", 3 * TERMINATING_S)
        assert await cluster.events("InstanceRebuilt") == []


@KINDS
async def test_a_pod_lost_while_a_new_operator_starts_counts_once(cluster: Cluster, operator_client: RecordingClient, kind: Kind) -> None:
    """The pod is still terminating, so the next operator finds it, with its replacement beside it."""
    await cluster.write(set_object("x", [gang(kind, 2)]))
    async with running_operator(operator_client):
        await cluster.until_ready(INFER_SERVICE_SET, "x")
    async with life_log(cluster.client, cluster.namespace, kind) as log:
        victim = (await pods_of(cluster, "x-0-g-0"))[0]
        await cluster.delete(POD, name_of(victim))
        if kind is DEPLOYMENT:
            await eventually(lambda: _has_pods(cluster, 2), "the pod is replaced")
        async with running_operator(operator_client):
            once = [f"-{kind.kind}/x-0-g-0", f"+{kind.kind}/x-0-g-0"]
            await eventually(lambda: log.lines == once, "the instance is made again", 30)
            await cluster.until_ready(INFER_SERVICE_SET, "x")
        async with running_operator(operator_client):
            await steadily(lambda: log.lines == once, "it stays", 2 * TERMINATING_S)


async def _has_pods(cluster: Cluster, count: int) -> bool:
    return len(await pods_of(cluster, "x-0-g-0")) == count


async def test_a_pod_lost_just_before_the_leader_dies_is_not_forgotten_by_the_next(
    cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods
) -> None:
    """The standby saw it go. The pod is gone at once, so nothing else tells of it."""
    pods.terminating_s = 0.0
    await cluster.write(set_object("x", [gang(STATEFUL_SET, 2)]))
    one, two = (LeaseElector(cluster.client, cluster.namespace, "lease", name) for name in ("one", "two"))
    standby, stop = build_operator(operator_client, elector=two), asyncio.Event()
    async with running_operator(operator_client, elector=one) as crashing:
        await cluster.until_ready(INFER_SERVICE_SET, "x")
        following = asyncio.create_task(standby.run(stop))
        await eventually(lambda: standby.is_synced, "the standby is warm", 30)
        async with life_log(cluster.client, cluster.namespace, STATEFUL_SET) as log:
            crashing.cancel()
            await asyncio.wait({crashing})
            assert not standby.is_leading
            await cluster.client.delete(POD, "x-0-g-0-0", cluster.namespace, grace_s=0)

            once = ["-StatefulSet/x-0-g-0", "+StatefulSet/x-0-g-0"]
            await eventually(lambda: log.lines == once, "the instance is made again", 60)
            await cluster.until_ready(INFER_SERVICE_SET, "x")
            await steadily(lambda: log.lines == once, "it stays", TERMINATING_S)
        stop.set()
        await following


async def test_a_gang_on_a_lost_node_is_made_again_once(
    cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods, node: FakeNode
) -> None:
    """All its pods are removed from the node; that is one loss."""
    await cluster.write(set_object("x", [gang(STATEFUL_SET, 4)]))
    async with running_operator(operator_client, OperatorSettings(node_cleaner_delay_s=0)):
        await cluster.until_ready(INFER_SERVICE_SET, "x")
        async with life_log(cluster.client, cluster.namespace, STATEFUL_SET) as log:
            pods.node = None
            await node.report("False")
            once = ["-StatefulSet/x-0-g-0", "+StatefulSet/x-0-g-0"]
            await eventually(lambda: log.lines == once, "the instance is made again", 30)
            await cluster.until_ready(INFER_SERVICE_SET, "x")
            await steadily(lambda: log.lines == once, "it stays", 2 * TERMINATING_S)
