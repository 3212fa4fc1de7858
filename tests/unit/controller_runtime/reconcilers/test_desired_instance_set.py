# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from controller_runtime.api.labels import (
    GANG_SCHEDULE,
    INFER_SERVICE_ID,
    INSTANCE_SET_NAME,
    SCHEDULE_POLICY,
    SCHEDULING_STRATEGY,
    SERVICE_NAME,
)
from controller_runtime.reconcilers.desired_instance_set import desired_instance_set
from tests.support.infer import infer_service, pod_template, role


def metadata_of(made_role: dict[str, Any], **spec: Any) -> dict[str, Any]:
    parent = infer_service("test", [made_role], **spec)
    found: dict[str, Any] = desired_instance_set(parent, parent.spec.roles[0])["metadata"]
    return found


def test_v9_each_role_has_an_instance_set_of_its_name() -> None:
    parent = infer_service("multi-role-infer", [role("frontend", 2), role("backend", 4, kind="StatefulSet")])

    names = [desired_instance_set(parent, each)["metadata"]["name"] for each in parent.spec.roles]

    assert names == ["multi-role-infer-frontend", "multi-role-infer-backend"]


def test_v10_labels_and_annotations_of_the_role_are_on_its_instance_set() -> None:
    found = metadata_of(role("role1", metadata={"labels": {"key1": "value1"}, "annotations": {"key2": "value2"}}))

    assert found["name"] == "test-role1"
    assert found["labels"] == {"key1": "value1", SERVICE_NAME: "test", INSTANCE_SET_NAME: "role1", SCHEDULING_STRATEGY: "Parallel"}
    assert found["annotations"] == {"key2": "value2"}


def test_a_role_cannot_replace_its_identity() -> None:
    found = metadata_of(role("role1", metadata={"labels": {SERVICE_NAME: "other", SCHEDULING_STRATEGY: "Priority"}}))

    assert (found["labels"][SERVICE_NAME], found["labels"][SCHEDULING_STRATEGY]) == ("test", "Parallel")


def test_the_gang_label_and_the_strategy_reach_the_instance_set() -> None:
    found = metadata_of(role("r", metadata={"labels": {GANG_SCHEDULE: "true"}}), schedulingStrategy={"type": "Priority"})

    assert (found["labels"][GANG_SCHEDULE], found["labels"][SCHEDULING_STRATEGY]) == ("true", "Priority")


def test_the_role_is_handed_down_as_it_is_written() -> None:
    written = role("r", 2, kind="StatefulSet", metadata={"labels": {}}, services=[{"name": "s", "spec": {"ports": []}}], priority=3)
    parent = infer_service("test", [written])

    assert desired_instance_set(parent, parent.spec.roles[0])["spec"] == written


def test_an_instance_set_has_one_controller() -> None:
    (reference,) = metadata_of(role("r"))["ownerReferences"]

    assert (reference["kind"], reference["name"], reference["uid"]) == ("InferService", "test", "uid-1")


def policy_role(on_role: str | None = None, on_pods: str | None = None, role_labels: Any = None, pod_labels: Any = None) -> dict[str, Any]:
    annotations = {SCHEDULE_POLICY: on_pods} if on_pods else None
    metadata = {"labels": role_labels or {}, "annotations": {SCHEDULE_POLICY: on_role} if on_role else {}}
    return role("r", metadata=metadata, spec={"template": pod_template(pod_labels, annotations)})


@pytest.mark.parametrize(
    "made_role, service_id",
    [
        pytest.param(policy_role("chip8-node8-sp"), "uid-1", id="V36"),
        pytest.param(policy_role("-sp"), None, id="V37-suffix-only"),
        pytest.param(policy_role("sp"), None, id="V37-no-dash"),
        pytest.param(policy_role("chip2-node8"), None, id="V37-other-policy"),
        pytest.param(policy_role(None, "chip8-node8-sp"), "uid-1", id="V38"),
        pytest.param(policy_role("chip8-node8-sp", None, {INFER_SERVICE_ID: "custom"}), "custom", id="V39"),
        pytest.param(policy_role("chip8-node8-sp", None, None, {INFER_SERVICE_ID: "custom"}), None, id="V40"),
        (policy_role("chip2-node8", "chip8-node8-sp"), None),
    ],
)
def test_pods_on_a_super_node_are_grouped_by_their_service(made_role: dict[str, Any], service_id: str | None) -> None:
    assert metadata_of(made_role)["labels"].get(INFER_SERVICE_ID) == service_id


def test_v38_a_policy_of_the_pods_is_lifted_to_the_instance_set() -> None:
    assert metadata_of(policy_role(None, "chip8-node8-sp"))["annotations"] == {SCHEDULE_POLICY: "chip8-node8-sp"}
    assert metadata_of(policy_role("mine", "chip8-node8-sp"))["annotations"] == {SCHEDULE_POLICY: "mine"}
