# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from controller_runtime.api.instance_set import ScalingResourceStatus
from controller_runtime.reconcilers.autoscaler import desired_autoscaler, keep_scale, policy_problem, scaled_by
from controller_runtime.reconcilers.role_view import RoleView
from tests.support.infer import infer_service, role, view

P = "infer.huawei.com/"
QUEUE = {"type": "External", "external": {"metric": {"name": "queue_depth"}, "target": {"type": "AverageValue", "averageValue": "10"}}}
CPU = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 70}}}


def policy(kind: str = "HPA", **spec: Any) -> dict[str, Any]:
    return {"type": kind, "spec": {"minReplicas": 1, "maxReplicas": 4, **spec}}


def scaled(service: str = "vllm-0", given: dict[str, Any] | None = None, *, set_name: str | None = None, **more: Any) -> RoleView:
    return view(infer_service(service, [role("prefill", 1, scalingPolicy=given or policy(), **more)], set_name=set_name))


def selectors(made: dict[str, Any]) -> list[Any]:
    return [each.get("external", {}).get("metric", {}).get("selector", {}).get("matchLabels") for each in made["spec"]["metrics"]]


def test_v46_the_autoscaler_targets_the_instance_set_and_external_metrics_tell_roles_apart() -> None:
    """Vector 46."""
    made = desired_autoscaler(scaled(given=policy(metrics=[QUEUE, CPU]), set_name="vllm"))

    assert made["metadata"]["name"] == "vllm-0-prefill-scaler"
    assert made["spec"]["scaleTargetRef"] == {
        "apiVersion": "mindcluster.huawei.com/v1",
        "kind": "InstanceSet",
        "name": "vllm-0-prefill",
    }
    assert (made["spec"]["minReplicas"], made["spec"]["maxReplicas"]) == (1, 4)
    names = {f"{P}inferservice-name": "vllm-0", f"{P}inferserviceset-name": "vllm", f"{P}role-name": "prefill"}
    assert selectors(made) == [names, None]
    assert made["spec"]["metrics"][1] == CPU
    assert "selector" not in QUEUE["external"]["metric"]  # type: ignore[index]


def test_v46_what_the_user_selects_is_kept() -> None:
    """Vector 46."""
    named = {"name": "q", "selector": {"matchLabels": {f"{P}role-name": "own", "a": "b"}, "matchExpressions": []}}
    made = desired_autoscaler(scaled(given=policy(metrics=[{"type": "External", "external": {"metric": named}}])))

    (selector,) = selectors(made)
    assert selector[f"{P}role-name"] == "own"
    assert selector["a"] == "b"
    assert made["spec"]["metrics"][0]["external"]["metric"]["selector"]["matchExpressions"] == []


@pytest.mark.parametrize("service", ["single", "multi-role-infer"])
def test_v47_a_service_of_no_set_names_none(service: str) -> None:
    """Vector 47. Where the reference cuts the name at its last dash, which names a set that does not exist."""
    (selector,) = selectors(desired_autoscaler(scaled(service, policy(metrics=[QUEUE]))))

    assert selector == {f"{P}inferservice-name": service, f"{P}role-name": "prefill"}


def test_an_autoscaler_carries_the_labels_of_its_instance_set_and_is_found_by_them() -> None:
    made = desired_autoscaler(scaled(metadata={"labels": {"team": "a"}, "annotations": {"note": "n"}}))

    labels = made["metadata"]["labels"]
    assert labels["team"] == "a"
    assert labels[f"{P}scaling-owned-by"] == "vllm-0-prefill"
    assert labels[f"{P}ascend-infer-operator"] == "true"
    assert made["metadata"]["annotations"] == {"note": "n"}
    assert made["metadata"]["ownerReferences"][0]["name"] == "vllm-0-prefill"


@pytest.mark.parametrize("metrics", ["x", ["x"], [{"type": "External"}], [{"type": "External", "external": {"metric": "x"}}]])
def test_a_policy_of_another_shape_is_passed_on_for_the_api_server_to_judge(metrics: object) -> None:
    assert desired_autoscaler(scaled(given=policy(metrics=metrics)))["spec"]["metrics"] == metrics


def test_v50_an_unknown_type_is_told() -> None:
    """Vector 50."""
    told = policy_problem(scaled(given=policy("KEDA")), is_served=True)

    assert told == ScalingResourceStatus(type="KEDA", name="", ready=False, message="unsupported scaling policy type: KEDA")


def test_an_api_server_without_autoscaling_is_told_and_everything_else_is_no_problem() -> None:
    assert policy_problem(scaled(), is_served=True) is None
    assert policy_problem(view(infer_service("s", [role()])), is_served=False) is None
    assert policy_problem(view(infer_service("s", [role(scalingPolicy={})])), is_served=False) is None
    told = policy_problem(scaled(), is_served=False)
    assert told is not None
    assert (told.type, told.ready) == ("HPA", False)


def live(replicas: int, kind: str | None = "HPA") -> dict[str, Any]:
    spec: dict[str, Any] = {"replicas": replicas}
    if kind is not None:
        spec["scalingPolicy"] = policy(kind)
    return {"spec": spec}


@pytest.mark.parametrize(
    "wanted, present, replicas",
    [
        pytest.param(live(1), live(3), 3, id="V48-the-autoscaler-s-number-stays"),
        pytest.param(live(1, None), live(3), 1, id="V48-policy-removed"),
        pytest.param(live(2, None), live(3), 2, id="policy-removed-and-another-number"),
        pytest.param(live(1, "KEDA"), live(3), 1, id="policy-of-another-type"),
        pytest.param(live(2), live(1, None), 2, id="policy-added"),
        pytest.param(live(1, None), live(3, None), 1, id="no-policy"),
    ],
)
def test_v48_who_decides_the_number_of_instances(wanted: dict[str, Any], present: dict[str, Any], replicas: int) -> None:
    """Vector 48."""
    assert keep_scale(wanted, present)["spec"]["replicas"] == replicas


def test_what_is_reported_stays_while_nothing_happens() -> None:
    def stored(version: str) -> dict[str, Any]:
        return {"metadata": {"name": "x-scaler", "resourceVersion": version}}

    created = scaled_by(stored("1"), None, None)
    assert created == ScalingResourceStatus(type="HPA", name="x-scaler", ready=True, message="HPA created successfully")
    assert scaled_by(stored("1"), stored("1"), created) == created
    updated = scaled_by(stored("2"), stored("1"), created)
    assert updated.message == "HPA updated successfully"
    assert scaled_by(stored("2"), stored("2"), updated) == updated
    assert scaled_by(stored("2"), stored("2"), None).message == "HPA updated successfully"
