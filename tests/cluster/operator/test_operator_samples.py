# SPDX-License-Identifier: Apache-2.0
"""The samples in `deploy/samples`: those of the operator RFC (9.1 to 9.3) and one per feature, in a restricted namespace."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml

from controller_runtime.kube.client import KubeClient
from controller_runtime.kube.kind import (
    DEPLOYMENT,
    HORIZONTAL_POD_AUTOSCALER,
    INFER_SERVICE,
    INFER_SERVICE_SET,
    NAMESPACE,
    POD,
    POD_GROUP,
    SERVICE,
    STATEFUL_SET,
    Object,
)
from tests.support import volcano
from tests.support.control_plane import ControlPlane
from tests.support.eventually import eventually
from tests.support.operator_run import Cluster, running_operator
from tests.support.ready_pods import ReadyPods
from tests.support.recording_client import RecordingClient

pytestmark = pytest.mark.cluster

SAMPLES = sorted((Path(__file__).parents[3] / "deploy" / "samples").glob("*.yaml"))
OPERATOR_NAMESPACE = "mindx-dl"
RFC = ("infer-cluster", "multi-role-infer", "simple-infer")


def objects(sample: Path) -> list[Object]:
    return [each for each in yaml.safe_load_all(sample.read_text()) if each]


async def ensure_namespace(client: KubeClient) -> None:
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    await client.apply({"apiVersion": "v1", "kind": NAMESPACE.kind, "metadata": {"name": OPERATOR_NAMESPACE, "labels": labels}})


def test_there_are_the_three_samples_of_the_rfc_and_one_per_feature() -> None:
    assert {path.stem for path in SAMPLES} >= {*RFC, "fault-scheduling", "gang", "hpa", "node-port", "priority", "rollout", "super-node"}


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.stem)
async def test_the_api_server_accepts_every_field_of_a_sample(cluster: Cluster, workload_plane: ControlPlane, sample: Path) -> None:
    await ensure_namespace(cluster.client)

    said = await asyncio.to_thread(
        workload_plane.kubectl, "create", "--dry-run=server", "--validate=strict", "-o", "yaml", "-f", str(sample)
    )

    assert yaml.safe_load(said)["spec"].keys() == objects(sample)[0]["spec"].keys()


async def test_the_samples_of_the_rfc_become_ready_side_by_side(cluster: Cluster, operator_client: RecordingClient) -> None:
    await ensure_namespace(cluster.client)
    stop = asyncio.Event()
    ready_pods = asyncio.create_task(ReadyPods(cluster.client, OPERATOR_NAMESPACE).run(stop))
    samples = Cluster(cluster.client, OPERATOR_NAMESPACE)
    made = [obj for sample in SAMPLES if sample.stem in RFC for obj in objects(sample)]
    async with running_operator(operator_client):
        for obj in made:
            await samples.write(obj)
        await samples.until_ready(INFER_SERVICE, "simple-infer")
        await samples.until_ready(INFER_SERVICE, "multi-role-infer")
        await samples.until_ready(INFER_SERVICE_SET, "infer-cluster")

        assert len(await samples.names(DEPLOYMENT)) == 3 + 2 + 6
        assert await samples.names(STATEFUL_SET) == [f"multi-role-infer-backend-{index}" for index in range(4)]
        assert await samples.names(SERVICE) == sorted(
            [
                "inference-simple-infer-worker",
                "frontend-multi-role-infer-frontend",
                "backend-multi-role-infer-backend",
                *(f"service-multi-role-infer-backend-{index}" for index in range(4)),
                *(f"inference-infer-cluster-{index}-worker" for index in range(3)),
            ]
        )
        front = await samples.get(SERVICE, "inference-simple-infer-worker")
        assert front["spec"]["ports"][0]["nodePort"] == 30080
        assert (await samples.get(SERVICE, "backend-multi-role-infer-backend"))["spec"]["clusterIP"] == "None"
        for obj in made:
            kind = INFER_SERVICE if obj["kind"] == "InferService" else INFER_SERVICE_SET
            await samples.delete(kind, obj["metadata"]["name"])
        await samples.until_names(DEPLOYMENT)
    stop.set()
    await ready_pods


@contextlib.asynccontextmanager
async def applied(name: str, cluster: Cluster, operator_client: RecordingClient) -> AsyncIterator[Cluster]:
    """A sample of a feature, Ready in a namespace of its own. The cluster knows PodGroups."""
    (obj,) = [each for sample in SAMPLES if sample.stem == name for each in objects(sample)]
    kind = INFER_SERVICE if obj["kind"] == "InferService" else INFER_SERVICE_SET
    async with volcano.installed(cluster.client), running_operator(operator_client):
        await cluster.write(obj)
        await cluster.until_ready(kind, name)
        yield cluster


async def test_the_gang_sample_has_a_pod_group_per_instance(cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods) -> None:
    async with applied("gang", cluster, operator_client):
        assert await cluster.names(POD_GROUP) == ["pg-gang-prefill-0", "pg-gang-prefill-1"]
        made = (await cluster.get(POD_GROUP, "pg-gang-prefill-0"))["spec"]
        assert (made["minMember"], made["minResources"]["huawei.com/Ascend910"]) == (2, "16")


async def test_the_priority_sample_starts_decode_then_prefill_then_the_router(
    cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods
) -> None:
    async with applied("priority", cluster, operator_client):
        made = [name for verb, _, name in operator_client.writes_in(cluster.namespace) if verb == "apply"]
        order = [made.index(f"priority-{role}-0") for role in ("decode", "prefill", "router")]
        assert order == sorted(order)


async def test_the_hpa_sample_has_an_autoscaler_per_service(cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods) -> None:
    async with applied("hpa", cluster, operator_client):
        await cluster.until_names(HORIZONTAL_POD_AUTOSCALER, "hpa-0-prefill-scaler", "hpa-1-prefill-scaler")


async def test_the_node_port_sample_has_the_ports_it_says(cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods) -> None:
    async with applied("node-port", cluster, operator_client):
        services = [await cluster.get(SERVICE, f"inference-node-port-{index}-worker") for index in range(3)]
        assert [each["spec"]["ports"][0]["nodePort"] for each in services] == [31080, 31081, 31082]


async def test_the_super_node_sample_groups_the_pods_of_its_service(
    cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods
) -> None:
    async with applied("super-node", cluster, operator_client):
        uid = (await cluster.get(INFER_SERVICE, "super-node"))["metadata"]["uid"]
        labels = [(await cluster.get(POD, f"super-node-{role}-0-0"))["metadata"]["labels"] for role in ("prefill", "decode")]
        assert {each["inferserviceid"] for each in labels} == {uid}


async def test_the_fault_sample_is_rebuilt_as_its_comment_says(cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods) -> None:
    async with applied("fault-scheduling", cluster, operator_client):
        before = await cluster.uids(STATEFUL_SET)
        mark = {"metadata": {"annotations": {"huawei.com/pod-status": "Unhealthy-node"}}}
        await cluster.client.patch(POD, "fault-scheduling-0-prefill-0-0", cluster.namespace, mark)

        async def is_rebuilt() -> bool:
            now = await cluster.uids(STATEFUL_SET)
            return [name for name, uid in before.items() if now.get(name, uid) != uid] == ["StatefulSet/fault-scheduling-0-prefill-0"]

        await eventually(is_rebuilt, "the instance is made again", 30)
        await cluster.until_ready(INFER_SERVICE_SET, "fault-scheduling")
