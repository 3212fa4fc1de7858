# SPDX-License-Identifier: Apache-2.0
"""Faulty pods: their instance is made again, once, and nothing else."""

from __future__ import annotations

import pytest

from controller_runtime.kube.kind import DEPLOYMENT, INFER_SERVICE_SET, POD, STATEFUL_SET, Kind, name_of
from tests.support.eventually import eventually
from tests.support.infer import role, set_object
from tests.support.operator_run import Cluster, running_operator
from tests.support.ready_pods import ReadyPods
from tests.support.recording_client import RecordingClient

pytestmark = pytest.mark.cluster

KINDS = pytest.mark.parametrize("kind", [STATEFUL_SET, DEPLOYMENT], ids=lambda kind: kind.kind)


async def mark(cluster: Cluster, pod: str, says: str = "Unhealthy-node") -> None:
    """Do as the scheduler plugin does."""
    await cluster.client.patch(POD, pod, cluster.namespace, {"metadata": {"annotations": {"huawei.com/pod-status": says}}})


async def pod_of(cluster: Cluster, workload: str) -> str:
    """A pod of a workload that is not going."""
    pods = (await cluster.client.list(POD, cluster.namespace))[0]
    return next(name_of(each) for each in pods if name_of(each).startswith(f"{workload}-") and "deletionTimestamp" not in each["metadata"])


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
