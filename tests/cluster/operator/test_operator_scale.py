# SPDX-License-Identifier: Apache-2.0
"""Scaling and changing templates: what is touched and, more important, what is not."""

from __future__ import annotations

import pytest

from controller_runtime.kube.kind import DEPLOYMENT, INFER_SERVICE, INFER_SERVICE_SET, INSTANCE_SET, POD, SERVICE, STATEFUL_SET
from tests.support.eventually import eventually
from tests.support.infer import node_port, pod_template, role, service, service_object, set_object
from tests.support.operator_run import CHILDREN, Cluster, running_operator
from tests.support.ready_pods import ReadyPods
from tests.support.recording_client import RecordingClient

pytestmark = pytest.mark.cluster

IMAGE = "/spec/template/roles/0/spec/template/spec/containers/0/image"


async def test_scaling_decode_from_1_to_2_restarts_no_pod(cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods) -> None:
    roles = [role("prefill", 2, "StatefulSet", 2), role("decode", 1, "StatefulSet", 2), role("router", 1)]
    await cluster.write(set_object("pd", roles))
    async with running_operator(operator_client):
        await cluster.until_ready(INFER_SERVICE_SET, "pd")
        before = await cluster.uids(*CHILDREN, POD)
        generations = {
            name: (await cluster.get(STATEFUL_SET, name))["metadata"]["generation"] for name in await cluster.names(STATEFUL_SET)
        }

        await cluster.edit(INFER_SERVICE_SET, "pd", ("replace", "/spec/template/roles/1/replicas", 2))
        await cluster.until_ready(INFER_SERVICE_SET, "pd")

        after = await cluster.uids(*CHILDREN, POD)
        assert before.items() <= after.items()
        assert sorted(set(after) - set(before)) == [
            "Pod/pd-0-decode-1-0",
            "Pod/pd-0-decode-1-1",
            "Service/service-pd-0-decode-1",
            "StatefulSet/pd-0-decode-1",
        ]
        for name, generation in generations.items():
            assert (await cluster.get(STATEFUL_SET, name))["metadata"]["generation"] == generation


async def test_v29_scaling_down_takes_the_highest_instances_with_their_services(
    cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods
) -> None:
    await cluster.write(service_object("s", [role("r", 3, "StatefulSet", services=[service("front")])]))
    async with running_operator(operator_client):
        await cluster.until_ready(INFER_SERVICE, "s")
        kept = (await cluster.uids(STATEFUL_SET))["StatefulSet/s-r-0"]

        await cluster.edit(INFER_SERVICE, "s", ("replace", "/spec/roles/0/replicas", 1))
        await cluster.until_names(STATEFUL_SET, "s-r-0")
        await cluster.until_names(SERVICE, "front-s-r", "service-s-r-0")
        await cluster.until_ready(INFER_SERVICE, "s")

        assert (await cluster.uids(STATEFUL_SET))["StatefulSet/s-r-0"] == kept


async def test_v16_a_role_of_no_instances_is_ready_and_keeps_its_declared_services(
    cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods
) -> None:
    await cluster.write(service_object("s", [role("r", 1, services=[service("front")])]))
    async with running_operator(operator_client):
        await cluster.until_ready(INFER_SERVICE, "s")

        await cluster.edit(INFER_SERVICE, "s", ("replace", "/spec/roles/0/replicas", 0))
        await cluster.until_names(DEPLOYMENT)
        await cluster.until_ready(INSTANCE_SET, "s-r")

        assert await cluster.names(SERVICE) == ["front-s-r"]


async def test_v5_shrinking_a_set_takes_the_last_services_and_leaves_the_first(
    cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods
) -> None:
    await cluster.write(set_object("x", [role()], 3))
    async with running_operator(operator_client):
        await cluster.until_ready(INFER_SERVICE_SET, "x")
        first = (await cluster.uids(INFER_SERVICE))["InferService/x-0"]

        await cluster.edit(INFER_SERVICE_SET, "x", ("replace", "/spec/replicas", 1))
        await cluster.until_names(INFER_SERVICE, "x-0")
        await cluster.until_names(DEPLOYMENT, "x-0-worker-0")

        assert (await cluster.uids(INFER_SERVICE))["InferService/x-0"] == first


async def test_v8_a_new_image_rolls_through_every_workload_in_place(
    cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods
) -> None:
    await cluster.write(set_object("x", [role("a", 1, "StatefulSet"), role("b", 1)], 2))
    async with running_operator(operator_client):
        await cluster.until_ready(INFER_SERVICE_SET, "x")
        before = await cluster.uids(*CHILDREN)

        await cluster.edit(INFER_SERVICE_SET, "x", ("replace", IMAGE, "example/none:2"))
        await cluster.until_ready(INFER_SERVICE_SET, "x")

        assert await cluster.uids(*CHILDREN) == before
        images = {}
        for name in await cluster.names(POD):
            images[name] = (await cluster.get(POD, name))["spec"]["containers"][0]["image"]
        assert {name: image for name, image in images.items() if "-a-" in name} == {
            "x-0-a-0-0": "example/none:2",
            "x-1-a-0-0": "example/none:2",
        }
        assert {image for name, image in images.items() if "-b-" in name} == {"example/none:1"}


async def test_a_field_that_leaves_the_template_leaves_the_workload(
    cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods
) -> None:
    container = {"name": "infer", "image": "example/none:1", "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]}
    metadata = {"labels": {"team": "a"}, "annotations": {"note": "n"}}
    spec = {"template": pod_template({"app": "x"}, {"pod-note": "n"}, container)}
    await cluster.write(service_object("s", [role("r", metadata=metadata, spec=spec)]))
    async with running_operator(operator_client):
        await cluster.until_ready(INFER_SERVICE, "s")

        await cluster.edit(
            INFER_SERVICE,
            "s",
            ("remove", "/spec/roles/0/metadata", None),
            ("remove", "/spec/roles/0/spec/template/spec/containers/0/env/0", None),
            ("remove", "/spec/roles/0/spec/template/metadata", None),
        )
        await cluster.until_ready(INFER_SERVICE, "s")
        await cluster.until_quiet(operator_client)

        workload = await cluster.get(DEPLOYMENT, "s-r-0")
        assert "team" not in workload["metadata"]["labels"]
        assert "note" not in workload["metadata"]["annotations"]
        template = workload["spec"]["template"]
        assert "app" not in template["metadata"]["labels"]
        assert "annotations" not in template["metadata"]
        assert [each["name"] for each in template["spec"]["containers"][0]["env"]] == ["B", "INSTANCE_INDEX", "INSTANCE_ROLE"]
        assert "team" not in (await cluster.get(INSTANCE_SET, "s-r"))["metadata"]["labels"]


async def test_a_removed_role_takes_everything_of_it_along_and_a_new_one_brings_its_own(
    cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods
) -> None:
    await cluster.write(set_object("x", [role("a"), role("b", 1, "StatefulSet")]))
    async with running_operator(operator_client):
        await cluster.until_ready(INFER_SERVICE_SET, "x")

        await cluster.edit(INFER_SERVICE_SET, "x", ("replace", "/spec/template/roles", [role("a"), role("c")]))
        await cluster.until_names(INSTANCE_SET, "x-0-a", "x-0-c")
        await cluster.until_names(STATEFUL_SET)
        await cluster.until_names(DEPLOYMENT, "x-0-a-0", "x-0-c-0")
        await cluster.until_names(SERVICE, "service-x-0-a-0", "service-x-0-c-0")
        await cluster.until_ready(INFER_SERVICE_SET, "x")


async def test_a_declared_service_follows_its_template(cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods) -> None:
    await cluster.write(service_object("s", [role("r", services=[service("front"), service("back")])]))
    async with running_operator(operator_client):
        await cluster.until_ready(INFER_SERVICE, "s")

        await cluster.edit(
            INFER_SERVICE,
            "s",
            ("replace", "/spec/roles/0/services", [service("front", ports=[{"port": 90, "protocol": "TCP"}])]),
        )
        await cluster.until_names(SERVICE, "front-s-r")

        async def moved() -> bool:
            return [port["port"] for port in (await cluster.get(SERVICE, "front-s-r"))["spec"]["ports"]] == [90]

        await eventually(moved, "the port moved")


async def test_a_service_that_turns_headless_is_made_again(cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods) -> None:
    await cluster.write(service_object("s", [role("r", services=[service("front")])]))
    async with running_operator(operator_client):
        await cluster.until_ready(INFER_SERVICE, "s")

        await cluster.edit(INFER_SERVICE, "s", ("add", "/spec/roles/0/services/0/spec/clusterIP", "None"))

        async def is_headless() -> bool:
            found = await cluster.find(SERVICE, "front-s-r")
            return found is not None and found["spec"]["clusterIP"] == "None"

        await eventually(is_headless, "the Service is headless")
        await cluster.until_ready(INFER_SERVICE, "s")


async def test_another_kind_of_workload_replaces_the_old_one(cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods) -> None:
    await cluster.write(service_object("s", [role("r", 2)]))
    async with running_operator(operator_client):
        await cluster.until_ready(INFER_SERVICE, "s")

        await cluster.edit(INFER_SERVICE, "s", ("replace", "/spec/roles/0/workload/kind", "StatefulSet"))
        await cluster.until_names(DEPLOYMENT)
        await cluster.until_names(STATEFUL_SET, "s-r-0", "s-r-1")
        await cluster.until_ready(INFER_SERVICE, "s")


@pytest.mark.parametrize(
    "change",
    [
        ("add", "/spec/roles/0/spec/podManagementPolicy", "Parallel"),
        ("add", "/spec/roles/0/spec/selector", {"matchLabels": {"app": "x"}}),
    ],
)
async def test_a_field_that_cannot_change_makes_the_workload_again(
    cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods, change: tuple[str, str, object]
) -> None:
    spec = {"template": pod_template({"app": "x"})}
    await cluster.write(service_object("s", [role("r", 1, "StatefulSet", spec=spec)]))
    async with running_operator(operator_client):
        await cluster.until_ready(INFER_SERVICE, "s")
        before = (await cluster.uids(STATEFUL_SET, POD)).items()

        await cluster.edit(INFER_SERVICE, "s", change)
        await cluster.until_ready(INFER_SERVICE, "s")

        after = (await cluster.uids(STATEFUL_SET, POD)).items()
        assert {name for name, _ in after} == {name for name, _ in before}
        assert not set(after) & set(before)


async def test_v21_node_ports_of_a_set_move_by_the_index(cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods) -> None:
    await cluster.write(set_object("s", [role("r", services=[node_port("np", 31710)])], 3))
    async with running_operator(operator_client):
        await cluster.until_ready(INFER_SERVICE_SET, "s")

    ports = [(await cluster.get(SERVICE, f"np-s-{index}-r"))["spec"]["ports"][0]["nodePort"] for index in range(3)]
    assert ports == [31710, 31711, 31712]
