# SPDX-License-Identifier: Apache-2.0
"""Services of one name in two namespaces are two services."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from controller_runtime.kube.kind import INFER_SERVICE_SET, POD, STATEFUL_SET
from tests.support.eventually import eventually
from tests.support.infer import pod_template, role, set_object
from tests.support.operator_run import CHILDREN, Cluster, running_operator
from tests.support.ready_pods import ReadyPods
from tests.support.recording_client import RecordingClient

pytestmark = pytest.mark.cluster

FAULT = {"metadata": {"annotations": {"huawei.com/pod-status": "Unhealthy-pod-failed"}}}


@pytest.fixture
async def other(cluster: Cluster) -> AsyncIterator[Cluster]:
    """A second namespace whose pods become ready, too."""
    name = f"{cluster.namespace}-other"
    await cluster.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    stop = asyncio.Event()
    task = asyncio.create_task(ReadyPods(cluster.client, name).run(stop))
    yield Cluster(cluster.client, name)
    stop.set()
    await task


async def test_a_service_that_goes_takes_no_memory_of_its_namesake_along(
    cluster: Cluster, other: Cluster, operator_client: RecordingClient, pods: ReadyPods
) -> None:
    """Defect 6: the one rebuild that a role may cost stays counted when a set of the same name is deleted elsewhere."""
    template = {"replicas": 1, "template": pod_template({"fault-retry-times": "1"})}
    for each in (cluster, other):
        await each.write(set_object("x", [role("a", 1, "StatefulSet", spec=template)]))

    async def mark_a_pod(where: Cluster) -> str:
        before = (await where.uids(STATEFUL_SET))["StatefulSet/x-0-a-0"]
        await where.client.patch(POD, "x-0-a-0-0", where.namespace, FAULT)
        return before

    async with running_operator(operator_client):
        for each in (cluster, other):
            await each.until_ready(INFER_SERVICE_SET, "x")
        untouched = await other.uids(STATEFUL_SET)
        before = await mark_a_pod(cluster)

        async def is_made_again() -> bool:
            return (await cluster.uids(STATEFUL_SET)).get("StatefulSet/x-0-a-0") not in (None, before)

        await eventually(is_made_again, "the instance is made again", 30)
        await cluster.until_ready(INFER_SERVICE_SET, "x")
        assert await other.uids(STATEFUL_SET) == untouched

        await other.delete(INFER_SERVICE_SET, "x")

        async def is_gone() -> bool:
            return await other.uids(*CHILDREN) == {}

        async def has_a_pod_of_its_own() -> bool:
            found = await cluster.find(POD, "x-0-a-0-0")
            return found is not None and "annotations" not in found["metadata"]

        await eventually(is_gone, "the namesake is gone", 60)
        await eventually(has_a_pod_of_its_own, "the new instance has its pod", 60)
        now = await mark_a_pod(cluster)

        async def is_told() -> bool:
            return await cluster.events("FaultRetriesExhausted") == [("InferServiceSet/x", 1)]

        await eventually(is_told, "no rebuild is left", 30)
        assert await cluster.uids(STATEFUL_SET) == {"StatefulSet/x-0-a-0": now}
