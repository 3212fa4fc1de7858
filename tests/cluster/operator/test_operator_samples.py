# SPDX-License-Identifier: Apache-2.0
"""The samples in `deploy/samples` as the operator RFC has them (9.1 to 9.3), in a namespace of the restricted profile."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import yaml

from controller_runtime.kube.client import KubeClient
from controller_runtime.kube.kind import DEPLOYMENT, INFER_SERVICE, INFER_SERVICE_SET, NAMESPACE, SERVICE, STATEFUL_SET, Object
from tests.support.control_plane import ControlPlane
from tests.support.operator_run import Cluster, running_operator
from tests.support.ready_pods import ReadyPods
from tests.support.recording_client import RecordingClient

pytestmark = pytest.mark.cluster

SAMPLES = sorted((Path(__file__).parents[3] / "deploy" / "samples").glob("*.yaml"))
OPERATOR_NAMESPACE = "mindx-dl"


def objects(sample: Path) -> list[Object]:
    return [each for each in yaml.safe_load_all(sample.read_text()) if each]


async def ensure_namespace(client: KubeClient) -> None:
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    await client.apply({"apiVersion": "v1", "kind": NAMESPACE.kind, "metadata": {"name": OPERATOR_NAMESPACE, "labels": labels}})


def test_there_are_the_three_samples_of_the_rfc() -> None:
    assert [path.stem for path in SAMPLES] == ["infer-cluster", "multi-role-infer", "simple-infer"]


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.stem)
async def test_the_api_server_accepts_every_field_of_a_sample(cluster: Cluster, workload_plane: ControlPlane, sample: Path) -> None:
    await ensure_namespace(cluster.client)

    said = await asyncio.to_thread(
        workload_plane.kubectl, "create", "--dry-run=server", "--validate=strict", "-o", "yaml", "-f", str(sample)
    )

    assert yaml.safe_load(said)["spec"].keys() == objects(sample)[0]["spec"].keys()


async def test_all_samples_become_ready_side_by_side(cluster: Cluster, operator_client: RecordingClient) -> None:
    await ensure_namespace(cluster.client)
    stop = asyncio.Event()
    ready_pods = asyncio.create_task(ReadyPods(cluster.client, OPERATOR_NAMESPACE).run(stop))
    samples = Cluster(cluster.client, OPERATOR_NAMESPACE)
    made = [obj for sample in SAMPLES for obj in objects(sample)]
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
