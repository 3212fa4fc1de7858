# SPDX-License-Identifier: Apache-2.0
"""Scaling by HorizontalPodAutoscalers: the real autoscaler controller runs, without metrics, so it only keeps its bounds."""

from __future__ import annotations

from typing import Any

import pytest

from controller_runtime.kube.errors import ConflictError
from controller_runtime.kube.kind import (
    DEPLOYMENT,
    HORIZONTAL_POD_AUTOSCALER,
    INFER_SERVICE,
    INFER_SERVICE_SET,
    INSTANCE_SET,
    STATEFUL_SET,
)
from controller_runtime.reconcilers.apply import ChildWriter
from controller_runtime.reconcilers.autoscaler import keep_scale
from tests.support.eventually import eventually
from tests.support.infer import instance_set_object, role, service_object, set_object
from tests.support.operator_run import Cluster, running_operator
from tests.support.ready_pods import ReadyPods
from tests.support.recording_client import RecordingClient

pytestmark = pytest.mark.cluster

POLICY = {"type": "HPA", "spec": {"minReplicas": 1, "maxReplicas": 4}}
IMAGE = "/spec/template/roles/0/spec/template/spec/containers/0/image"
ROLE = "/spec/template/roles/0"


async def scale(cluster: Cluster, name: str, replicas: int) -> None:
    """Do what an autoscaler does."""
    await cluster.client.patch(INSTANCE_SET, name, cluster.namespace, {"spec": {"replicas": replicas}}, subresource="scale")


async def until_replicas(cluster: Cluster, name: str, replicas: int) -> None:
    """Wait until an InstanceSet asks for so many instances and all are ready."""

    async def is_so() -> bool:
        found = await cluster.find(INSTANCE_SET, name)
        status = (found or {}).get("status", {})
        is_asked = found is not None and found["spec"]["replicas"] == replicas
        return bool(is_asked and status.get("replicas") == status.get("readyReplicas") == replicas)

    await eventually(is_so, f"{name} has {replicas} ready instances", 90)


async def replicas_of(cluster: Cluster, name: str) -> int:
    return int((await cluster.get(INSTANCE_SET, name))["spec"]["replicas"])


async def scaling_status(cluster: Cluster, name: str) -> Any:
    return (await cluster.get(INSTANCE_SET, name)).get("status", {}).get("scalingResourceStatus")


async def test_v46_the_autoscaler_controller_scales_the_role_through_our_object(
    cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods
) -> None:
    """Vector 46."""
    policy = {"type": "HPA", "spec": {"minReplicas": 2, "maxReplicas": 4}}
    await cluster.write(set_object("x", [role("prefill", 1, "StatefulSet", scalingPolicy=policy)]))
    async with running_operator(operator_client):
        await until_replicas(cluster, "x-0-prefill", 2)
        assert await cluster.names(STATEFUL_SET) == ["x-0-prefill-0", "x-0-prefill-1"]
        assert await cluster.names(HORIZONTAL_POD_AUTOSCALER) == ["x-0-prefill-scaler"]
        declared = (await cluster.get(INFER_SERVICE, "x-0"))["spec"]["roles"][0]["replicas"]
        assert declared == 1
        assert await scaling_status(cluster, "x-0-prefill") == {
            "type": "HPA",
            "name": "x-0-prefill-scaler",
            "ready": True,
            "message": "HPA created successfully",
        }


async def test_v48_the_number_of_the_autoscaler_stays_whatever_else_changes(
    cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods
) -> None:
    """Vector 48, and a change of template and scale together."""
    await cluster.write(set_object("x", [role("r", 1, "StatefulSet", scalingPolicy=POLICY)]))
    async with running_operator(operator_client):
        await cluster.until_ready(INFER_SERVICE_SET, "x")
        await scale(cluster, "x-0-r", 3)
        await until_replicas(cluster, "x-0-r", 3)
        await cluster.until_quiet(operator_client)
        operator_client.writes.clear()
        await cluster.until_quiet(operator_client)
        assert operator_client.writes_in(cluster.namespace) == []

        await cluster.edit(INFER_SERVICE_SET, "x", ("replace", IMAGE, "example/none:2"), ("replace", f"{ROLE}/replicas", 2))
        await scale(cluster, "x-0-r", 4)

        async def is_rolled_out() -> bool:
            found = await cluster.find(STATEFUL_SET, "x-0-r-3")
            return found is not None and found["spec"]["template"]["spec"]["containers"][0]["image"] == "example/none:2"

        await eventually(is_rolled_out, "the template reaches every instance", 90)
        await until_replicas(cluster, "x-0-r", 4)
        await cluster.until_ready(INFER_SERVICE_SET, "x")
        await cluster.until_quiet(operator_client)
        assert await replicas_of(cluster, "x-0-r") == 4


@pytest.mark.parametrize("declared", [pytest.param(1, id="V49-policy-removed"), pytest.param(2, id="with-another-number-in-one-edit")])
async def test_v49_without_its_policy_a_role_loses_the_autoscaler_and_has_the_declared_number_again(
    cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods, declared: int
) -> None:
    """Vector 49."""
    await cluster.write(set_object("x", [role("r", 1, scalingPolicy=POLICY)]))
    async with running_operator(operator_client):
        await cluster.until_ready(INFER_SERVICE_SET, "x")
        await scale(cluster, "x-0-r", 3)
        await until_replicas(cluster, "x-0-r", 3)

        edits: list[tuple[str, str, Any]] = [("remove", f"{ROLE}/scalingPolicy", None), ("replace", f"{ROLE}/replicas", declared)]
        await cluster.edit(INFER_SERVICE_SET, "x", *edits)
        await cluster.until_names(HORIZONTAL_POD_AUTOSCALER)
        await cluster.until_names(DEPLOYMENT, *(f"x-0-r-{index}" for index in range(declared)))
        await until_replicas(cluster, "x-0-r", declared)
        assert await scaling_status(cluster, "x-0-r") is None


async def test_v50_an_unknown_policy_is_told_once_at_the_root_and_the_workloads_run_on(
    cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods
) -> None:
    """Vector 50, also as the successor of a policy that worked."""
    await cluster.write(set_object("x", [role("r", 1, scalingPolicy=POLICY)], 2))
    async with running_operator(operator_client):
        await cluster.until_ready(INFER_SERVICE_SET, "x")
        await cluster.until_names(HORIZONTAL_POD_AUTOSCALER, "x-0-r-scaler", "x-1-r-scaler")

        await cluster.edit(INFER_SERVICE_SET, "x", ("replace", f"{ROLE}/scalingPolicy/type", "KEDA"))
        await cluster.until_names(HORIZONTAL_POD_AUTOSCALER)
        await until_told(cluster, "role r: unsupported scaling policy type: KEDA")
        await cluster.until_ready(INFER_SERVICE_SET, "x")
        await cluster.until_quiet(operator_client)

        assert await scaling_status(cluster, "x-0-r") == {
            "type": "KEDA",
            "name": "",
            "ready": False,
            "message": "unsupported scaling policy type: KEDA",
        }
        assert await cluster.names(DEPLOYMENT) == ["x-0-r-0", "x-1-r-0"]
        assert await cluster.events("ScalingResourceReconcileError") == [("InferServiceSet/x", 1)]

        await cluster.edit(INFER_SERVICE_SET, "x", ("replace", f"{ROLE}/scalingPolicy/type", "HPA"))
        await until_told(cluster, None)
        await cluster.until_names(HORIZONTAL_POD_AUTOSCALER, "x-0-r-scaler", "x-1-r-scaler")


@pytest.mark.parametrize(
    "spec, word",
    [
        pytest.param({"minReplicas": 5, "maxReplicas": 4}, "maxReplicas", id="bounds"),
        pytest.param({"maxReplicas": 4, "metrics": "x"}, "metrics", id="shape"),
        pytest.param({"maxReplicas": 4, "other": 1}, "other", id="unknown-field"),
    ],
)
async def test_a_policy_the_api_server_refuses_is_told_and_the_workloads_run_on(
    cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods, spec: dict[str, Any], word: str
) -> None:
    await cluster.write(set_object("x", [role("r", 1, scalingPolicy={"type": "HPA", "spec": spec})]))
    async with running_operator(operator_client):
        await cluster.until_ready(INFER_SERVICE_SET, "x")
        assert word in (await until_told(cluster, "role r: ", is_whole=False))[0]

        await cluster.edit(INFER_SERVICE_SET, "x", ("replace", f"{ROLE}/scalingPolicy/spec", {"maxReplicas": 4}))
        await until_told(cluster, None)
        await cluster.until_names(HORIZONTAL_POD_AUTOSCALER, "x-0-r-scaler")
        assert await cluster.events("ScalingResourceReconcileError") == [("InferServiceSet/x", 1)]


async def until_told(cluster: Cluster, message: str | None, *, is_whole: bool = True) -> list[str]:
    """Wait until the set's condition about scaling says `message` (None: until it is gone). Returns what it says."""
    said: list[str] = []

    async def is_told() -> bool:
        conditions = (await cluster.get(INFER_SERVICE_SET, "x")).get("status", {}).get("conditions", ())
        said[:] = [each["message"] for each in conditions if each["type"] == "ScalingActive" and each["status"] == "False"]
        if message is None:
            return not said
        return said == [message] if is_whole else any(each.startswith(message) for each in said)

    await eventually(is_told, f"the set says {message}", 60)
    return said


async def test_an_autoscaler_is_healed_follows_its_policy_and_is_written_only_then(
    cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods
) -> None:
    await cluster.write(service_object("s", [role("r", 1, scalingPolicy=POLICY)]))
    async with running_operator(operator_client):
        await cluster.until_ready(INFER_SERVICE, "s")

        async def has_maximum(maximum: int) -> bool:
            found = await cluster.find(HORIZONTAL_POD_AUTOSCALER, "s-r-scaler")
            return found is not None and found["spec"]["maxReplicas"] == maximum

        await eventually(lambda: has_maximum(4), "the autoscaler is made", 60)
        await cluster.edit(INFER_SERVICE, "s", ("replace", "/spec/roles/0/scalingPolicy/spec/maxReplicas", 6))
        await eventually(lambda: has_maximum(6), "it follows the policy", 60)
        await cluster.until_ready(INFER_SERVICE, "s")
        await cluster.until_quiet(operator_client, 100)
        await cluster.edit(HORIZONTAL_POD_AUTOSCALER, "s-r-scaler", ("replace", "/spec/maxReplicas", 9))
        await eventually(lambda: has_maximum(6), "an edit is taken back", 60)
        await cluster.until_quiet(operator_client)
        await cluster.delete(HORIZONTAL_POD_AUTOSCALER, "s-r-scaler")
        await eventually(lambda: has_maximum(6), "a deleted autoscaler is made again", 60)
        await cluster.until_quiet(operator_client)
        operator_client.writes.clear()

        status = {"status": {"currentReplicas": 1, "desiredReplicas": 1, "currentMetrics": []}}
        await cluster.client.patch(HORIZONTAL_POD_AUTOSCALER, "s-r-scaler", cluster.namespace, status, subresource="status")
        await cluster.until_quiet(operator_client)
        assert operator_client.writes_in(cluster.namespace) == []


async def test_a_scale_that_the_cache_has_not_seen_is_not_taken_back(cluster: Cluster, operator_client: RecordingClient) -> None:
    owned = {"name": "x", "namespace": cluster.namespace}
    desired = {**instance_set_object("x", role("r", 1, scalingPolicy=POLICY)), "metadata": owned}
    writer = ChildWriter(operator_client)
    seen = await writer.ensure(desired, None, keep_scale)
    await scale(cluster, "x", 3)
    changed = {**desired, "metadata": {**owned, "labels": {"team": "a"}}}

    with pytest.raises(ConflictError):
        await writer.ensure(changed, seen, keep_scale)
    assert await replicas_of(cluster, "x") == 3

    after = await writer.ensure(changed, await cluster.get(INSTANCE_SET, "x"), keep_scale)
    assert (after["spec"]["replicas"], after["metadata"]["labels"]) == (3, {"team": "a"})
