# SPDX-License-Identifier: Apache-2.0
"""Names that cannot become names of children, and selectors that several workloads share."""

from __future__ import annotations

import pytest

from controller_runtime.kube.kind import (
    DEPLOYMENT,
    INFER_SERVICE,
    INFER_SERVICE_SET,
    INSTANCE_SET,
    POD,
    STATEFUL_SET,
    Object,
    controller_owner_of,
    name_of,
)
from tests.support.infer import pod_template, role, service, set_object
from tests.support.operator_run import CHILDREN, Cluster, running_operator
from tests.support.ready_pods import ReadyPods
from tests.support.recording_client import RecordingClient

pytestmark = pytest.mark.cluster

SHARED = {"app": "x"}
IMAGE = "/spec/template/roles/0/spec/template/spec/containers/0/image"


@pytest.mark.parametrize(
    "obj, words",
    [
        pytest.param(set_object("a.b", [role("r")]), "has a dot", id="dot"),
        pytest.param(set_object("s" * 60, [role("r", services=[service("api")])]), "limit 63", id="service-too-long"),
        pytest.param(set_object("s" * 48, [role("r", 1, "StatefulSet")]), "limit 52", id="stateful-set-too-long"),
    ],
)
async def test_a_name_that_no_child_can_have_is_told_once_and_nothing_is_made(
    cluster: Cluster, operator_client: RecordingClient, obj: Object, words: str
) -> None:
    await cluster.write(obj)
    async with running_operator(operator_client):
        message = await cluster.until_blocked(INFER_SERVICE_SET, name_of(obj))
        await cluster.until_quiet(operator_client)

        assert words in message
        assert await cluster.uids(INSTANCE_SET, STATEFUL_SET, DEPLOYMENT) == {}
        assert await cluster.events("ValidateError") == [(f"InferServiceSet/{name_of(obj)}", 1)]


async def test_workloads_that_share_a_selector_leave_each_other_s_pods_alone(
    cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods
) -> None:
    """Defect 16: instances and roles have one selector, as consumers write it."""

    def shared(name: str, kind: str) -> Object:
        return role(name, 2, kind, spec={"replicas": 2, "selector": {"matchLabels": SHARED}, "template": pod_template(SHARED)})

    async def pods_by_owner() -> dict[str, str]:
        found = (await cluster.client.list(POD, cluster.namespace))[0]
        return {each["metadata"]["uid"]: str((controller_owner_of(each) or {})["name"]) for each in found}

    await cluster.write(set_object("x", [shared("a", "Deployment"), shared("b", "Deployment"), shared("c", "StatefulSet")]))
    async with running_operator(operator_client):
        await cluster.until_ready(INFER_SERVICE_SET, "x")
        before = await pods_by_owner()
        assert len(before) == 3 * 2 * 2

        await cluster.edit(INFER_SERVICE_SET, "x", ("replace", IMAGE, "example/none:2"))
        await cluster.delete(DEPLOYMENT, "x-0-b-1")
        await cluster.until_ready(INFER_SERVICE_SET, "x")
        await cluster.until_quiet(operator_client)
        after = await pods_by_owner()

    untouched = {uid: owner for uid, owner in before.items() if owner.startswith(("x-0-b-0", "x-0-c"))}
    assert len(untouched) == 2 + 4
    assert untouched.items() <= after.items()
    assert len(after) == 3 * 2 * 2


async def test_children_are_named_apart_where_sets_and_services_stand_side_by_side(
    cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods
) -> None:
    """Defect 15: a set whose name begins with a digit is fine, too."""
    await cluster.write(set_object("1x", [role("a", 1, "StatefulSet"), role("b", services=[service("api")])]))
    async with running_operator(operator_client):
        await cluster.until_ready(INFER_SERVICE_SET, "1x")
        await cluster.until_names(INFER_SERVICE, "1x-0")
        made = {key.partition("/")[2] for key in await cluster.uids(*CHILDREN)}
    assert made == {"1x-0", "1x-0-a", "1x-0-b", "1x-0-a-0", "1x-0-b-0", "service-1x-0-a-0", "api-1x-0-b"}
