# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from controller_runtime.api.labels import FAULT_SCHEDULING, INFER_SERVICE_ID, SCHEDULING_STRATEGY, SERVICE_NAME, index_labels
from controller_runtime.kube.kind import DEPLOYMENT, STATEFUL_SET, Object
from controller_runtime.reconcilers.workloads.base import build
from tests.support.infer import infer_service, pod_template, role, view


def built(name: str, made_role: Object, index: int = 0, set_name: str | None = None) -> Object:
    return build(DEPLOYMENT, view(infer_service(name, [made_role], set_name=set_name)), index)


def environments(workload: Object) -> list[dict[str, str]]:
    containers = workload["spec"]["template"]["spec"]["containers"]
    return [{each["name"]: each["value"] for each in container["env"]} for container in containers]


TWO_CONTAINERS = {"template": pod_template(None, None, {"name": "a"}, {"name": "b"})}


def test_v25_an_instance_is_named_after_service_role_and_index() -> None:
    made = build(STATEFUL_SET, view(infer_service("vllm-0", [role("prefill", 2, "StatefulSet", 2)])), 1)

    assert (made["apiVersion"], made["kind"], made["metadata"]["name"]) == ("apps/v1", "StatefulSet", "vllm-0-prefill-1")
    assert made["spec"]["replicas"] == 2
    assert index_labels("vllm-0", "prefill", 1).items() <= made["spec"]["template"]["metadata"]["labels"].items()


@pytest.mark.parametrize(
    "name, set_name, place",
    [
        pytest.param("vllm-0", "vllm", {"INFER_SERVICE_INDEX": "0", "INFER_SERVICE_NAME": "vllm"}, id="V25"),
        pytest.param("my-svc-3", None, {"INFER_SERVICE_INDEX": "3", "INFER_SERVICE_NAME": "my-svc"}, id="V26-number"),
        pytest.param("solo", None, {}, id="V26-none"),
        ("my-service", None, {}),
    ],
)
def test_every_container_knows_its_place(name: str, set_name: str | None, place: dict[str, str]) -> None:
    made = built(name, role("prefill", 3, spec=TWO_CONTAINERS), 2, set_name)

    assert environments(made) == [{"INSTANCE_INDEX": "2", "INSTANCE_ROLE": "prefill", **place}] * 2


def test_our_variables_come_last_in_the_order_consumers_rely_on() -> None:
    template = pod_template(None, None, {"name": "a", "env": [{"name": "USER", "value": "x"}]})
    made = built("vllm-0", role(spec={"template": template}), set_name="vllm")

    (container,) = made["spec"]["template"]["spec"]["containers"]
    names = [each["name"] for each in container["env"]]
    assert names == ["USER", "INSTANCE_INDEX", "INSTANCE_ROLE", "INFER_SERVICE_INDEX", "INFER_SERVICE_NAME"]


def test_a_variable_given_twice_is_kept_once_and_ours_wins() -> None:
    env = [{"name": "A", "value": "1"}, {"name": "INSTANCE_ROLE", "value": "mine"}, {"name": "A", "value": "2"}]
    made = built("solo", role(spec={"template": pod_template(None, None, {"name": "a", "env": env})}))

    (container,) = made["spec"]["template"]["spec"]["containers"]
    assert [(each["name"], each["value"]) for each in container["env"]] == [
        ("A", "2"),
        ("INSTANCE_INDEX", "0"),
        ("INSTANCE_ROLE", "worker"),
    ]


def test_init_containers_are_left_alone() -> None:
    template = {"spec": {"containers": [{"name": "a"}], "initContainers": [{"name": "i"}]}}

    assert built("s-0", role(spec={"template": template}))["spec"]["template"]["spec"]["initContainers"] == [{"name": "i"}]


@pytest.mark.parametrize("spec", [{"template": pod_template()}, {"template": pod_template(), "replicas": None, "selector": None}])
def test_v62_pods_and_selector_have_defaults(spec: dict[str, Any]) -> None:
    made = built("s-0", role(spec=spec))

    assert made["spec"]["replicas"] == 1
    assert made["spec"]["selector"] == {"matchLabels": index_labels("s-0", "worker", 0)}


def test_zero_pods_are_not_one_pod() -> None:
    assert built("s-0", role(pods=0))["spec"]["replicas"] == 0


def test_a_selector_of_the_user_is_kept() -> None:
    spec = {"selector": {"matchLabels": {"app": "x"}}, "template": pod_template({"app": "x"})}

    made = built("s-0", role(spec=spec))
    assert made["spec"]["selector"] == {"matchLabels": {"app": "x"}}
    assert made["spec"]["template"]["metadata"]["labels"] == {"app": "x", **index_labels("s-0", "worker", 0)}


def test_labels_of_the_role_are_on_the_workload_and_not_on_pods() -> None:
    made = built("s-0", role(metadata={"labels": {"team": "a", SERVICE_NAME: "other"}, "annotations": {"note": "n"}}))

    assert made["metadata"]["labels"] == {"team": "a", SCHEDULING_STRATEGY: "Parallel", **index_labels("s-0", "worker", 0)}
    assert made["metadata"]["annotations"] == {"note": "n"}
    assert made["spec"]["template"]["metadata"] == {"labels": index_labels("s-0", "worker", 0)}


def test_annotations_of_pods_are_kept() -> None:
    made = built("s-0", role(spec={"template": pod_template(None, {"a": "b"})}))

    assert made["spec"]["template"]["metadata"]["annotations"] == {"a": "b"}


def test_v28_the_fault_policy_of_pods_is_on_their_workload() -> None:
    made = built("s-0", role(spec={"template": pod_template({FAULT_SCHEDULING: "external-force"})}))

    assert made["metadata"]["labels"][FAULT_SCHEDULING] == "external-force"


def test_v40_a_service_id_of_the_user_s_pods_wins() -> None:
    metadata = {"labels": {INFER_SERVICE_ID: "role"}}
    assert built("s-0", role(metadata=metadata))["spec"]["template"]["metadata"]["labels"][INFER_SERVICE_ID] == "role"

    spec = {"template": pod_template({INFER_SERVICE_ID: "pods"})}
    made = built("s-0", role(metadata=metadata, spec=spec))
    assert made["spec"]["template"]["metadata"]["labels"][INFER_SERVICE_ID] == "pods"


def test_an_instance_does_not_depend_on_how_many_there_are() -> None:
    """Scaling a role from 1 to 2 must not restart the first instance."""
    assert built("s-0", role(replicas=1)) == built("s-0", role(replicas=2))


def test_building_leaves_the_template_alone() -> None:
    parent = infer_service("s-0", [role(spec=TWO_CONTAINERS)])
    before = parent.model_dump()

    build(DEPLOYMENT, view(parent), 0)

    assert parent.model_dump() == before
