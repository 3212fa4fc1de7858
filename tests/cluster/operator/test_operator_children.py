# SPDX-License-Identifier: Apache-2.0
"""From a set to its pods and back, on a real API server with the real workload controllers."""

from __future__ import annotations

import pytest

from controller_runtime.kube.kind import DEPLOYMENT, INFER_SERVICE, INFER_SERVICE_SET, INSTANCE_SET, POD, SERVICE, STATEFUL_SET
from tests.support.eventually import eventually
from tests.support.infer import instance_set_object, role, service, service_object, set_object
from tests.support.operator_run import CHILDREN, Cluster, running_operator
from tests.support.ready_pods import ReadyPods
from tests.support.recording_client import RecordingClient

pytestmark = pytest.mark.cluster


async def test_v1_a_set_becomes_services_instance_sets_workloads_and_pods(
    cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods
) -> None:
    await cluster.write(set_object("infer-cluster", [role("worker", 2, services=[service("inference", type="ClusterIP")])], 3))

    async with running_operator(operator_client):
        await cluster.until_ready(INFER_SERVICE_SET, "infer-cluster")

    services = [f"infer-cluster-{index}" for index in range(3)]
    assert await cluster.names(INFER_SERVICE) == services
    assert await cluster.names(INSTANCE_SET) == [f"{name}-worker" for name in services]
    assert await cluster.names(DEPLOYMENT) == [f"{name}-worker-{instance}" for name in services for instance in (0, 1)]
    assert await cluster.names(SERVICE) == [f"inference-{name}-worker" for name in services]
    assert len(await cluster.names(POD)) == 6
    status = (await cluster.get(INFER_SERVICE_SET, "infer-cluster"))["status"]
    assert (status["replicas"], status["readyReplicas"]) == (3, 3)


async def test_v9_a_lone_service_of_two_kinds_becomes_ready(cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods) -> None:
    frontend = role("frontend", 2, services=[service("frontend", type="ClusterIP")])
    backend = role("backend", 4, "StatefulSet", services=[service("backend", clusterIP="None")])
    await cluster.write(service_object("multi-role-infer", [frontend, backend]))

    async with running_operator(operator_client):
        await cluster.until_ready(INFER_SERVICE, "multi-role-infer")

    assert await cluster.names(DEPLOYMENT) == [f"multi-role-infer-frontend-{index}" for index in range(2)]
    assert await cluster.names(STATEFUL_SET) == [f"multi-role-infer-backend-{index}" for index in range(4)]
    assert await cluster.names(SERVICE) == sorted(
        ["frontend-multi-role-infer-frontend", "backend-multi-role-infer-backend"]
        + [f"service-multi-role-infer-backend-{index}" for index in range(4)]
    )
    assert (await cluster.get(INFER_SERVICE, "multi-role-infer"))["status"]["replicas"] == 2


async def test_v17_a_hand_written_instance_set_works_without_labels(
    cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods
) -> None:
    await cluster.write(instance_set_object("mine", role("decode", 1, "StatefulSet", 2)))

    async with running_operator(operator_client):
        await cluster.until_ready(INSTANCE_SET, "mine")

    assert await cluster.names(POD) == ["mine-decode-0-0", "mine-decode-0-1"]


async def test_the_scale_of_an_instance_set_counts_its_pods(cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods) -> None:
    await cluster.write(service_object("s", [role("r", 2)]))

    async with running_operator(operator_client):
        await cluster.until_ready(INFER_SERVICE, "s")

    scale = await cluster.client.call("GET", INSTANCE_SET.path(cluster.namespace, "s-r", "scale"))
    assert (scale["spec"]["replicas"], scale["status"]["replicas"]) == (2, 2)
    selected = (await cluster.client.list(POD, cluster.namespace, label_selector=scale["status"]["selector"]))[0]
    assert len(selected) == 2


async def test_deleting_a_set_takes_everything_with_it_and_the_operator_writes_nothing(
    cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods, capsys: pytest.CaptureFixture[str]
) -> None:
    await cluster.write(set_object("x", [role("a", 1, "StatefulSet"), role("b", 1)], 2))

    async with running_operator(operator_client):
        await cluster.until_ready(INFER_SERVICE_SET, "x")
        await cluster.until_quiet(operator_client)
        capsys.readouterr()
        before = len(operator_client.writes_in(cluster.namespace))
        await cluster.delete(INFER_SERVICE_SET, "x")

        async def is_empty() -> bool:
            return not await cluster.uids(*CHILDREN, POD)

        await eventually(is_empty, "every child is gone", 60)
        made = [write for write in operator_client.writes_in(cluster.namespace)[before:] if write[0] != "status"]
        said = capsys.readouterr().out

    assert made == []
    assert [line for line in said.splitlines() if "[warning" in line or "[error" in line] == []
