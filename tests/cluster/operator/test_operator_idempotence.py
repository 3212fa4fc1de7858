# SPDX-License-Identifier: Apache-2.0
"""An unchanged cluster costs no write: measured on the client and by resource versions."""

from __future__ import annotations

from typing import Any

import pytest

from controller_runtime.api.labels import GANG_SCHEDULE
from controller_runtime.kube.kind import DEPLOYMENT, INFER_SERVICE, INFER_SERVICE_SET, INSTANCE_SET
from tests.support import volcano
from tests.support.infer import node_port, pod_template, role, service, set_object
from tests.support.operator_run import Cluster, running_operator
from tests.support.ready_pods import ReadyPods
from tests.support.recording_client import RecordingClient

pytestmark = pytest.mark.cluster

ODD_CONTAINER = {
    "name": "infer",
    "image": "example/none:1",
    "env": [{"name": "EMPTY", "value": ""}, {"name": "TWICE", "value": "1"}, {"name": "TWICE", "value": "2"}],
    "resources": {"limits": {"cpu": "1000m", "memory": "1024Mi"}, "requests": {"cpu": 1, "memory": "0.5Gi"}},
    "securityContext": {},
    "ports": [{"containerPort": 8000}],
}
"""Everything the API server stores in another spelling than it is written."""
ODD_TEMPLATE = {"metadata": {"creationTimestamp": None}, "spec": {"containers": [ODD_CONTAINER], "nodeSelector": {}, "hostNetwork": False}}


async def test_v58_a_second_run_on_an_unchanged_cluster_writes_nothing(
    cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods
) -> None:
    roles = [
        role("prefill", 2, "StatefulSet", 2, services=[service("a", clusterIP="None")]),
        role("decode", 1, "StatefulSet", None),
        role("router", 1, services=[node_port("np", 31700)], metadata={"labels": {"team": "a"}, "annotations": {"note": "n"}}),
    ]
    await cluster.write(set_object("x", roles, 2))
    async with running_operator(operator_client):
        await cluster.until_ready(INFER_SERVICE_SET, "x")
        await cluster.until_quiet(operator_client)
    before = await cluster.versions()
    operator_client.writes.clear()

    async with running_operator(operator_client):
        await cluster.client.patch(INFER_SERVICE_SET, "x", cluster.namespace, {"metadata": {"annotations": {"poke": "1"}}})
        await cluster.until_quiet(operator_client)

    assert operator_client.writes_in(cluster.namespace) == []
    after = await cluster.versions()
    assert {name for name in before if before[name] != after[name]} == {"InferServiceSet/x"}
    assert len(after) == len(before) == 1 + 2 + 2 * 3 + 2 * 4 + 2 * (3 + 2)


async def test_spellings_that_the_api_server_normalises_are_applied_once_and_left_alone(
    cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods
) -> None:
    kinds = ("Deployment", "StatefulSet")
    roles = [role(kind.lower(), 1, kind, spec={"template": ODD_TEMPLATE, "minReadySeconds": 0}) for kind in kinds]
    await cluster.write(set_object("odd", roles))

    async with running_operator(operator_client):
        await cluster.until_ready(INFER_SERVICE_SET, "odd")
        await cluster.until_quiet(operator_client)

    workloads = [write for write in operator_client.writes_in(cluster.namespace) if write[1] in kinds and write[0] == "apply"]
    assert len(workloads) <= 2 * len(kinds)
    operator_client.writes.clear()
    before = await cluster.versions()
    async with running_operator(operator_client):
        await cluster.until_quiet(operator_client)
    assert await cluster.versions() == before


async def test_v70_empty_maps_and_lists_of_the_user_cost_no_repeated_write(
    cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods
) -> None:
    empty = role("a", metadata={"labels": {}, "annotations": {}}, services=[], scalingPolicy={})
    await cluster.write(set_object("x", [empty], 5, schedulingStrategy={}))
    await cluster.write(set_object("y", [], 2))

    async with running_operator(operator_client):
        await cluster.until_ready(INFER_SERVICE_SET, "x")
        await cluster.until_quiet(operator_client)

    applied = [(kind, name) for verb, kind, name in operator_client.writes_in(cluster.namespace) if verb == "apply"]
    assert sorted(name for kind, name in applied if kind == "InferService") == [f"x-{index}" for index in range(5)] + ["y-0", "y-1"]
    assert len(applied) == len(set(applied))
    operator_client.writes.clear()

    async with running_operator(operator_client):
        await cluster.until_quiet(operator_client)
        for kind, name in ((INFER_SERVICE_SET, "x"), (INFER_SERVICE, "x-3")):
            await cluster.client.patch(kind, name, cluster.namespace, {"metadata": {"annotations": {"poke": "1"}}})
        await cluster.until_quiet(operator_client)
    assert operator_client.writes_in(cluster.namespace) == []


async def test_a_service_costs_few_writes(cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods) -> None:
    """10 objects (1 service, 3 instance sets, 3 workloads, 3 Services); the reference needs about 14 status writes more."""
    roles = [role("prefill", 1, "StatefulSet"), role("decode", 1, "StatefulSet"), role("router", 1)]
    await cluster.write(set_object("x", roles, 5))

    async with running_operator(operator_client):
        await cluster.until_ready(INFER_SERVICE_SET, "x")
        await cluster.until_quiet(operator_client)

    writes = operator_client.writes_in(cluster.namespace)
    assert len([write for write in writes if write[0] == "apply"]) == 50
    assert len(writes) / 5 <= 24


async def test_gangs_priorities_and_autoscalers_cost_nothing_once_they_are_as_they_should_be(
    cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods
) -> None:
    container = {"name": "infer", "image": "example/none:1", "resources": {"limits": {"cpu": "1500m", "memory": "0.5Gi"}}}
    gang: dict[str, Any] = {
        "metadata": {"labels": {GANG_SCHEDULE: "true"}},
        "spec": {"replicas": 2, "template": pod_template(None, None, container)},
    }
    target = {"type": "AverageValue", "averageValue": "0.5"}
    metrics = [{"type": "External", "external": {"metric": {"name": "queue"}, "target": target}}]
    behavior = {"scaleDown": {"stabilizationWindowSeconds": 60}}
    policy = {"type": "HPA", "spec": {"maxReplicas": 4, "metrics": metrics, "behavior": behavior}}
    roles = [role("decode", 1, "StatefulSet", priority=1, **gang), role("prefill", 1, priority=2, scalingPolicy=policy)]
    async with volcano.installed(cluster.client):
        await cluster.write(set_object("x", roles, 2, schedulingStrategy={"type": "Priority"}))
        async with running_operator(operator_client):
            await cluster.until_ready(INFER_SERVICE_SET, "x")
            scale = {"spec": {"replicas": 3}}
            await cluster.client.patch(INSTANCE_SET, "x-0-prefill", cluster.namespace, scale, subresource="scale")
            await cluster.until_names(DEPLOYMENT, *(f"x-0-prefill-{index}" for index in range(3)), "x-1-prefill-0")
            await cluster.until_ready(INSTANCE_SET, "x-0-prefill")
            await cluster.until_quiet(operator_client)
        operator_client.writes.clear()

        async with running_operator(operator_client):
            await cluster.until_quiet(operator_client)
            await cluster.client.patch(INFER_SERVICE, "x-0", cluster.namespace, {"metadata": {"annotations": {"poke": "1"}}})
            await cluster.until_quiet(operator_client)
        assert operator_client.writes_in(cluster.namespace) == []
