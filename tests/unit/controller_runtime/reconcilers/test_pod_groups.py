# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from controller_runtime.api.labels import GANG_SCHEDULE, INFER_SERVICE_ID
from controller_runtime.reconcilers.pod_groups import desired_pod_group, group_of, must_gather
from controller_runtime.reconcilers.workloads import handler_of
from tests.support.infer import infer_service, pod_template, role, view

GANG = {"labels": {GANG_SCHEDULE: "true"}}


def container(name: str = "infer", **resources: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "image": "example/none:1", "resources": resources}


def group(pods: int | None, *containers: dict[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = {"template": pod_template(None, None, *containers)}
    if pods is not None:
        spec["replicas"] = pods
    made = role("prefill", 1, "StatefulSet", spec=spec, metadata=GANG)
    return desired_pod_group(view(infer_service("vllm-0", [made], set_name="vllm")), 0)


def workload(kind: str, metadata: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    handler = handler_of("apps/v1", kind)
    assert handler is not None
    made = role("prefill", 1, kind, spec={"template": pod_template(), **spec}, metadata=GANG if metadata is None else metadata)
    return handler.desired(view(infer_service("vllm-0", [made], set_name="vllm")), 0)


def test_v33_a_pod_group_asks_for_all_pods_of_its_instance() -> None:
    """Vector 33."""
    made = group(2, container(requests={"cpu": 16, "memory": "64Gi", "huawei.com/Ascend910": 8}))

    assert made["metadata"]["name"] == "pg-vllm-0-prefill-0"
    assert made["spec"] == {"minMember": 2, "minResources": {"cpu": "32", "huawei.com/Ascend910": "16", "memory": "128Gi"}}
    assert group_of(workload("StatefulSet")) == "pg-vllm-0-prefill-0"


@pytest.mark.parametrize(
    "pods, containers, expected",
    [
        pytest.param(1, [container(limits={"cpu": 4})], {"cpu": "4"}, id="V34-limit-only"),
        pytest.param(
            1,
            [container(requests={"cpu": 2}, limits={"cpu": 4, "huawei.com/Ascend910": 8})],
            {"cpu": "2", "huawei.com/Ascend910": "8"},
            id="V34-request-before-limit",
        ),
        pytest.param(
            2,
            [container("a", limits={"huawei.com/Ascend910": 4}), container("b", limits={"huawei.com/Ascend910": "4"})],
            {"huawei.com/Ascend910": "16"},
            id="V34-two-containers",
        ),
        pytest.param(1, [container()], None, id="V34-nothing-declared"),
        pytest.param(0, [container(limits={"cpu": 4})], None, id="V34-no-pods"),
        pytest.param(None, [container(limits={"cpu": "100m"})], {"cpu": "100m"}, id="one-pod-by-default"),
    ],
)
def test_v34_resources_are_summed_exactly(pods: int | None, containers: list[dict[str, Any]], expected: dict[str, str] | None) -> None:
    """Vector 34."""
    made = group(pods, *containers)

    assert made["spec"].get("minResources") == expected
    assert made["spec"]["minMember"] == (1 if pods is None else pods)


@pytest.mark.parametrize("value", ["True", "1", "yes", ""])
def test_v35_only_true_switches_gang_scheduling_on(value: str) -> None:
    """Vector 35."""
    metadata = {"labels": {GANG_SCHEDULE: value}}

    assert not view(infer_service("s", [role(metadata=metadata)])).is_gang
    assert group_of(workload("Deployment", metadata)) is None


def test_v35_the_id_of_the_service_stays_away_from_pod_groups() -> None:
    """Vector 35."""
    metadata = {"labels": {GANG_SCHEDULE: "true", INFER_SERVICE_ID: "custom", "team": "a"}, "annotations": {"sp-block": "16"}}
    made = desired_pod_group(view(infer_service("s-0", [role("r", metadata=metadata)])), 3)

    assert INFER_SERVICE_ID not in made["metadata"]["labels"]
    assert made["metadata"]["labels"]["team"] == "a"
    assert made["metadata"]["labels"]["infer.huawei.com/instanceset-index"] == "3"
    assert made["metadata"]["annotations"] == {"sp-block": "16"}
    assert made["metadata"]["ownerReferences"][0]["kind"] == "InstanceSet"


def test_a_gang_gets_volcano_and_starts_its_pods_at_once_unless_the_user_says_otherwise() -> None:
    stateful_set, deployment = workload("StatefulSet"), workload("Deployment")
    assert stateful_set["spec"]["podManagementPolicy"] == "Parallel"
    assert "podManagementPolicy" not in deployment["spec"]
    assert {each["spec"]["template"]["spec"]["schedulerName"] for each in (stateful_set, deployment)} == {"volcano"}

    template = pod_template()
    template["spec"]["schedulerName"] = "own"
    chosen = workload("StatefulSet", template=template, podManagementPolicy="OrderedReady")
    assert chosen["spec"]["podManagementPolicy"] == "OrderedReady"
    assert chosen["spec"]["template"]["spec"]["schedulerName"] == "own"


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_a_workload_that_becomes_a_gang_is_made_again_and_one_that_stops_being_it_is_not(kind: str) -> None:
    handler = handler_of("apps/v1", kind)
    assert handler is not None
    policy = {"podManagementPolicy": "Parallel"} if kind == "StatefulSet" else {}
    with_gang, without = workload(kind, None, **policy), workload(kind, {}, **policy)

    assert must_gather(with_gang, without)
    assert handler.must_recreate(with_gang, without)
    assert not handler.must_recreate(without, with_gang)
    assert not handler.must_recreate(with_gang, with_gang)
