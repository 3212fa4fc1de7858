# SPDX-License-Identifier: Apache-2.0
"""What others do to the operator's objects, and what the operator does not do to theirs."""

from __future__ import annotations

import pytest

from controller_runtime.kube.kind import DEPLOYMENT, INFER_SERVICE, INFER_SERVICE_SET, INSTANCE_SET, SERVICE, STATEFUL_SET, Kind
from tests.support.eventually import eventually
from tests.support.infer import role, service_object, set_object
from tests.support.operator_run import CHILDREN, Cluster, running_operator
from tests.support.ready_pods import ReadyPods
from tests.support.recording_client import RecordingClient

pytestmark = pytest.mark.cluster


@pytest.mark.parametrize(
    "kind, name",
    [
        (STATEFUL_SET, "x-0-a-0"),
        (DEPLOYMENT, "x-0-b-0"),
        (SERVICE, "service-x-0-a-0"),
        (INSTANCE_SET, "x-0-b"),
        (INFER_SERVICE, "x-0"),
    ],
)
async def test_v32_a_child_deleted_by_hand_is_made_again(
    cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods, kind: Kind, name: str
) -> None:
    await cluster.write(set_object("x", [role("a", 1, "StatefulSet"), role("b")]))
    async with running_operator(operator_client):
        await cluster.until_ready(INFER_SERVICE_SET, "x")
        before = await cluster.uids(*CHILDREN)

        await cluster.delete(kind, name)

        async def is_new() -> bool:
            uid = (await cluster.uids(kind)).get(f"{kind.kind}/{name}")
            return uid not in (None, before[f"{kind.kind}/{name}"])

        await eventually(is_new, f"{kind.kind} {name} is made again", 90)
        await eventually(lambda: _same_names(cluster, before), "everything else is there", 90)
        await cluster.until_ready(INFER_SERVICE_SET, "x")


async def _same_names(cluster: Cluster, before: dict[str, str]) -> bool:
    return set(await cluster.uids(*CHILDREN)) == set(before)


async def test_edits_of_children_are_taken_back(cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods) -> None:
    await cluster.write(set_object("x", [role("a", 1, "StatefulSet"), role("b")]))
    async with running_operator(operator_client):
        await cluster.until_ready(INFER_SERVICE_SET, "x")

        await cluster.edit(STATEFUL_SET, "x-0-a-0", ("replace", "/spec/replicas", 3))
        await cluster.edit(DEPLOYMENT, "x-0-b-0", ("replace", "/spec/template/spec/containers/0/image", "other:1"))
        await cluster.edit(INFER_SERVICE, "x-0", ("add", "/spec/roles/-", role("c")))
        await cluster.edit(INSTANCE_SET, "x-0-b", ("replace", "/spec/replicas", 2))
        await cluster.edit(SERVICE, "service-x-0-b-0", ("replace", "/spec/ports/0/targetPort", 9))

        async def is_restored() -> bool:
            stateful_set, deployment = await cluster.get(STATEFUL_SET, "x-0-a-0"), await cluster.get(DEPLOYMENT, "x-0-b-0")
            service, parent = await cluster.get(SERVICE, "service-x-0-b-0"), await cluster.get(INFER_SERVICE, "x-0")
            return (
                stateful_set["spec"]["replicas"] == 1
                and deployment["spec"]["template"]["spec"]["containers"][0]["image"] == "example/none:1"
                and service["spec"]["ports"][0]["targetPort"] == 8080
                and [each["name"] for each in parent["spec"]["roles"]] == ["a", "b"]
                and await cluster.names(INSTANCE_SET) == ["x-0-a", "x-0-b"]
                and await cluster.names(DEPLOYMENT) == ["x-0-b-0"]
            )

        await eventually(is_restored, "every edit is taken back", 90)
        await cluster.until_ready(INFER_SERVICE_SET, "x")


async def test_fields_of_others_stay(cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods) -> None:
    await cluster.write(set_object("x", [role("b")]))
    async with running_operator(operator_client):
        await cluster.until_ready(INFER_SERVICE_SET, "x")

        sidecar = {"name": "mesh", "image": "example/mesh:1"}
        await cluster.edit(
            DEPLOYMENT,
            "x-0-b-0",
            ("add", "/spec/template/spec/containers/-", sidecar),
            ("add", "/metadata/labels/owner", "somebody"),
        )
        await cluster.until_ready(INFER_SERVICE_SET, "x")
        await cluster.until_quiet(operator_client)

        workload = await cluster.get(DEPLOYMENT, "x-0-b-0")
        assert [each["name"] for each in workload["spec"]["template"]["spec"]["containers"]] == ["infer", "mesh"]
        assert workload["metadata"]["labels"]["owner"] == "somebody"


async def test_a_child_that_lost_its_labels_is_found_and_gets_them_back(
    cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods
) -> None:
    await cluster.write(set_object("x", [role("b")]))
    async with running_operator(operator_client):
        await cluster.until_ready(INFER_SERVICE_SET, "x")
        before = await cluster.uids(DEPLOYMENT)
        label = "infer.huawei.com~1ascend-infer-operator"

        await cluster.edit(DEPLOYMENT, "x-0-b-0", ("remove", f"/metadata/labels/{label}", None))

        async def is_back() -> bool:
            labels = (await cluster.get(DEPLOYMENT, "x-0-b-0"))["metadata"]["labels"]
            return labels.get("infer.huawei.com/ascend-infer-operator") == "true"

        await eventually(is_back, "the label is back")
        await cluster.until_ready(INFER_SERVICE_SET, "x")
        assert await cluster.uids(DEPLOYMENT) == before


async def test_v6_a_foreign_object_of_a_child_s_name_is_never_touched_and_told(
    cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods
) -> None:
    foreign = await cluster.write(service_object("x-1", [role("theirs", 0)]))
    await cluster.write(set_object("x", [role("a")], 3))
    async with running_operator(operator_client):
        message = await cluster.until_blocked(INFER_SERVICE_SET, "x", "NameConflict")
        await cluster.until_ready(INFER_SERVICE, "x-2")

        assert "InferService x-1: exists and is controlled by nobody" in message
        now = await cluster.get(INFER_SERVICE, "x-1")
        assert (now["metadata"]["generation"], now["spec"]) == (1, foreign["spec"])
        assert "ownerReferences" not in now["metadata"]

        async def counted() -> bool:
            return bool((await cluster.get(INFER_SERVICE_SET, "x"))["status"]["readyReplicas"] == 2)

        await eventually(counted, "the foreign service is not counted")
        assert await cluster.events("NameConflict") == [("InferServiceSet/x", 1)]

        await cluster.delete(INFER_SERVICE, "x-1")
        await cluster.until_ready(INFER_SERVICE_SET, "x")


async def test_two_services_that_would_share_a_child_do_not_fight_over_it(
    cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods
) -> None:
    async with running_operator(operator_client):
        await cluster.write(service_object("a", [role("b-c")]))
        await cluster.until_ready(INFER_SERVICE, "a")
        owner = (await cluster.get(INSTANCE_SET, "a-b-c"))["metadata"]["ownerReferences"]

        await cluster.write(service_object("a-b", [role("c", 2)]))
        message = await cluster.until_blocked(INFER_SERVICE, "a-b", "NameConflict")

        assert "InstanceSet a-b-c: exists and is controlled by InferService a." in message
        assert (await cluster.get(INSTANCE_SET, "a-b-c"))["metadata"]["ownerReferences"] == owner


async def test_a_set_deleted_and_made_again_at_once_starts_over_without_a_complaint(
    cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods
) -> None:
    made = set_object("x", [role("a", 1, "StatefulSet")], 2)
    await cluster.write(made)
    async with running_operator(operator_client):
        await cluster.until_ready(INFER_SERVICE_SET, "x")
        before = set((await cluster.uids(*CHILDREN)).values())

        await cluster.delete(INFER_SERVICE_SET, "x")
        await cluster.write(made)

        async def is_over() -> bool:
            return not before & set((await cluster.uids(*CHILDREN)).values())

        await eventually(is_over, "every child is a new one", 60)
        await cluster.until_ready(INFER_SERVICE_SET, "x")
        assert await cluster.events("NameConflict") == []
