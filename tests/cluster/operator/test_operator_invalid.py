# SPDX-License-Identifier: Apache-2.0
"""What the user is told about a spec that cannot run, and what keeps running meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from controller_runtime.kube.errors import InvalidError
from controller_runtime.kube.kind import DEPLOYMENT, INFER_SERVICE, INFER_SERVICE_SET, INSTANCE_SET, SERVICE, STATEFUL_SET
from tests.support.eventually import eventually
from tests.support.infer import node_port, pod_template, role, service_object, set_object
from tests.support.operator_run import Cluster, running_operator
from tests.support.ready_pods import ReadyPods
from tests.support.recording_client import RecordingClient

pytestmark = pytest.mark.cluster

UNMATCHED = {"selector": {"matchLabels": {"app": "x"}}, "template": pod_template({"app": "y"})}


@pytest.mark.parametrize(
    "bad, words",
    [
        pytest.param(role("bad", workload={"apiVersion": "apps/v1", "kind": "Job"}), ["role bad", "workload", "Job"], id="V60-kind"),
        pytest.param({"name": "bad", "replicas": 1, "spec": {"template": pod_template()}}, ["role bad", "workload"], id="V60-no-workload"),
        pytest.param(role("bad", None), ["role bad", "replicas"], id="V61-no-replicas"),
        pytest.param(
            {"name": "bad", "replicas": 1, "workload": {"apiVersion": "apps/v1", "kind": "Deployment"}},
            ["role bad", "spec"],
            id="V61-no-spec",
        ),
        pytest.param(role("bad", 1, "StatefulSet", spec=UNMATCHED), ["role bad", "selector"], id="V62-selector"),
        pytest.param(role("b" * 60), ["role " + "b" * 60, "limit"], id="V64-long-name"),
        pytest.param(role("bad", services=[node_port("np", 0)]), ["role bad", "np", "nodePort"], id="V67-node-port"),
    ],
)
async def test_a_bad_role_is_told_once_where_the_user_wrote_it_and_the_others_run(
    cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods, bad: dict[str, Any], words: list[str]
) -> None:
    await cluster.write(set_object("x", [role("good"), bad]))
    async with running_operator(operator_client):
        message = await cluster.until_blocked(INFER_SERVICE_SET, "x")
        await cluster.until_ready(INSTANCE_SET, "x-0-good")
        await cluster.until_quiet(operator_client)

        assert all(word in message for word in words)
        assert await cluster.names(INSTANCE_SET) == ["x-0-good"]
        assert await cluster.names(STATEFUL_SET) == []
        assert await cluster.names(SERVICE) == ["service-x-0-good-0"]
        assert await cluster.events("ValidateError") == [("InferServiceSet/x", 1)]
        assert (await cluster.get(INFER_SERVICE, "x-0"))["status"]["readyReplicas"] == 1


async def test_the_event_goes_to_whatever_the_user_wrote(cluster: Cluster, operator_client: RecordingClient) -> None:
    await cluster.write(service_object("lone", [role("bad", None)]))
    async with running_operator(operator_client):
        await cluster.until_blocked(INFER_SERVICE, "lone")
        await cluster.until_quiet(operator_client)

    assert await cluster.events("ValidateError") == [("InferService/lone", 1)]


async def test_a_change_for_the_worse_leaves_the_good_state_and_a_repair_ends_the_complaint(
    cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods
) -> None:
    await cluster.write(set_object("x", [role("a"), role("b")]))
    async with running_operator(operator_client):
        await cluster.until_ready(INFER_SERVICE_SET, "x")
        before = await cluster.uids(INSTANCE_SET, DEPLOYMENT, SERVICE)

        await cluster.edit(INFER_SERVICE_SET, "x", ("replace", "/spec/template/roles/1/workload/kind", "Job"))
        await cluster.until_blocked(INFER_SERVICE_SET, "x")
        await cluster.until_blocked(INFER_SERVICE, "x-0")
        await cluster.until_quiet(operator_client)
        assert await cluster.uids(INSTANCE_SET, DEPLOYMENT, SERVICE) == before

        await cluster.edit(INFER_SERVICE_SET, "x", ("replace", "/spec/template/roles/1/workload/kind", "Deployment"))
        await cluster.until_ready(INFER_SERVICE_SET, "x")
        assert await cluster.uids(INSTANCE_SET, DEPLOYMENT, SERVICE) == before


async def test_overlapping_node_ports_block_the_set_and_leave_it_as_it_was(
    cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods
) -> None:
    await cluster.write(set_object("x", [role("r", services=[node_port("np", 31720, 31721)])], 1))
    async with running_operator(operator_client):
        await cluster.until_ready(INFER_SERVICE_SET, "x")

        await cluster.edit(INFER_SERVICE_SET, "x", ("replace", "/spec/replicas", 2))
        message = await cluster.until_blocked(INFER_SERVICE_SET, "x")
        await cluster.until_quiet(operator_client)

        assert "31721" in message
        assert await cluster.names(INFER_SERVICE) == ["x-0"]
        assert await cluster.events("ValidateError") == [("InferServiceSet/x", 1)]


async def test_v68_a_refusal_of_the_api_server_is_told_at_the_root_and_retried_ever_more_slowly(
    cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods
) -> None:
    bad = role("bad", 1, "StatefulSet", spec={"template": pod_template(None, None, {"name": "Not A Name", "image": "i"})})
    await cluster.write(set_object("x", [role("good"), bad]))
    async with running_operator(operator_client):
        message = await cluster.until_blocked(INFER_SERVICE_SET, "x")
        await cluster.until_ready(INSTANCE_SET, "x-0-good")

        def tries() -> int:
            return sum(write == ("apply", "StatefulSet", "x-0-bad-0") for write in operator_client.writes_in(cluster.namespace))

        await eventually(lambda: tries() >= 4, "the refused workload is tried again")
        statuses = [write for write in operator_client.writes_in(cluster.namespace) if write[0] == "status" and write[2] == "x-0-bad"]

        assert "Not A Name" in message
        assert await cluster.events("ValidateError") == [("InferServiceSet/x", 1)]
        assert len(statuses) == 1

        good = pod_template()["spec"]["containers"]
        await cluster.edit(INFER_SERVICE_SET, "x", ("replace", "/spec/template/roles/1/spec/template/spec/containers", good))
        await cluster.until_ready(INFER_SERVICE_SET, "x")


async def test_a_node_port_that_is_taken_is_told_as_a_service_that_cannot_be_made(
    cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods
) -> None:
    await cluster.write(set_object("x", [role("r", services=[node_port("np", 31730)])]))
    async with running_operator(operator_client):
        await cluster.until_ready(INFER_SERVICE_SET, "x")

        await cluster.write(set_object("y", [role("r", services=[node_port("np", 31730)])]))
        message = await cluster.until_blocked(INFER_SERVICE_SET, "y", "ServiceCreateError")

        assert "31730" in message
        await cluster.until_names(DEPLOYMENT, "x-0-r-0", "y-0-r-0")


@pytest.mark.parametrize(
    "obj",
    [
        pytest.param(set_object(replicas=0), id="V59-0"),
        pytest.param(set_object(replicas=65), id="V59-65"),
        pytest.param(set_object(replicas=-1), id="V59-negative"),
        pytest.param(set_object(roles=[role("a"), role("a")]), id="V63-duplicate"),
        pytest.param(set_object(roles=[role("Prefill")]), id="V63-upper-case"),
        pytest.param(set_object(roles=[role("")]), id="V12"),
        pytest.param(set_object(roles=[role(replicas=-1)]), id="V61-negative"),
        pytest.param(set_object(roles=[role(f"r{number}") for number in range(33)]), id="V11"),
        pytest.param(set_object(schedulingStrategy={"type": "Serial"}), id="V65"),
        pytest.param(set_object(roles=[role(priority=33)], schedulingStrategy={"type": "Priority"}), id="V66-33"),
        pytest.param(set_object(roles=[role(priority=40)], schedulingStrategy={"type": "Priority"}), id="V66-40"),
        pytest.param(service_object(roles=[role(priority=0)], schedulingStrategy={"type": "Priority"}), id="V15-0"),
        pytest.param(set_object(roles=[role(services=[{"name": "1a", "spec": {}}])]), id="service-name"),
        pytest.param(set_object(roles=[role(services=[node_port("a", 31000), node_port("a", 31001)])]), id="two-services-of-one-name"),
    ],
)
async def test_the_schema_refuses_what_can_mean_nothing(cluster: Cluster, obj: dict[str, Any]) -> None:
    with pytest.raises(InvalidError):
        await cluster.write(obj)


@pytest.mark.parametrize(
    "obj",
    [
        pytest.param(set_object(replicas=64), id="V4"),
        pytest.param(set_object(replicas=None), id="V3"),
        pytest.param(set_object(roles=[role(f"r{number}") for number in range(32)]), id="V11"),
        pytest.param(set_object(roles=[role(priority=0)], schedulingStrategy={"type": "Parallel"}), id="V15"),
        pytest.param(set_object(roles=[role(priority=32)], schedulingStrategy={"type": "Priority"}), id="V15-32"),
        pytest.param(set_object(roles=[]), id="V57"),
        pytest.param(set_object(roles=[{"name": "a"}]), id="V61-told-by-condition"),
    ],
)
async def test_the_schema_accepts_what_is_valid_or_told_by_condition(cluster: Cluster, obj: dict[str, Any]) -> None:
    stored = await cluster.write(obj)

    assert stored["spec"] == obj["spec"]


async def test_v57_a_service_without_roles_is_never_ready(cluster: Cluster, operator_client: RecordingClient) -> None:
    await cluster.write(service_object("s", []))
    async with running_operator(operator_client):

        async def is_told() -> bool:
            return await cluster.condition(INFER_SERVICE, "s") == (
                "False",
                "ReplicasNotReady",
                "0 of 0 InstanceSet replicas are ready",
            )

        await eventually(is_told, "not ready")
