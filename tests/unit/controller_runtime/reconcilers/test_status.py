# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from controller_runtime.api.infer_service import InferServiceStatus
from controller_runtime.api.infer_service_set import InferServiceSetStatus
from controller_runtime.api.instance_set import InstanceSetStatus, ScalingResourceStatus
from controller_runtime.api.meta import Condition, Status
from controller_runtime.errors import TransportError
from controller_runtime.kube.errors import ConflictError, ForbiddenError, InvalidError
from controller_runtime.reconcilers.apply import NameTakenError, PredecessorError, StillDeletingError
from controller_runtime.reconcilers.status import (
    Blocker,
    blocker_of,
    blockers_of,
    instance_set_status,
    invalid,
    is_ready,
    must_report,
    service_status,
    set_status,
    unscaled_of,
)
from tests.support.infer import infer_service, role, view

NOW = datetime(2026, 1, 1, 12, 0, 0, 999, tzinfo=UTC)
VIEW = view(infer_service("s", [role()]))
LATER = datetime(2026, 1, 1, 13, 0, 0, tzinfo=UTC)


def ready(status: Status) -> tuple[str, str, str]:
    condition = status.condition("Ready")
    assert condition is not None
    return condition.status, condition.reason, condition.message


@pytest.mark.parametrize(
    "count, expected",
    [
        (2, ("True", "AllInferServicesReady", "All InferService replicas are ready")),
        (1, ("False", "ReplicasNotReady", "1 of 2 InferService replicas are ready")),
    ],
)
def test_a_set_is_ready_when_all_its_services_are(count: int, expected: tuple[str, str, str]) -> None:
    status = set_status(InferServiceSetStatus(), 3, 2, count, [], NOW)

    assert ready(status) == expected
    assert (status.observed_generation, status.replicas, status.ready_replicas) == (3, 2, count)


@pytest.mark.parametrize(
    "roles, count, expected",
    [
        (2, 2, ("True", "AllInstanceSetsReady", "All InstanceSet replicas are ready")),
        pytest.param(2, 1, ("False", "ReplicasNotReady", "1 of 2 InstanceSet replicas are ready"), id="V56"),
        pytest.param(0, 0, ("False", "ReplicasNotReady", "0 of 0 InstanceSet replicas are ready"), id="V57"),
    ],
)
def test_a_service_is_ready_when_it_has_roles_and_all_are(roles: int, count: int, expected: tuple[str, str, str]) -> None:
    assert ready(service_status(InferServiceStatus(), 1, roles, count, [], NOW)) == expected


@pytest.mark.parametrize(
    "replicas, count, expected",
    [
        (2, 2, ("True", "AllWorkLoadReady", "All WorkLoad replicas are ready")),
        (2, 0, ("False", "ReplicasNotReady", "0 of 2 WorkLoad replicas are ready")),
        pytest.param(0, 0, ("True", "AllWorkLoadReady", "All WorkLoad replicas are ready"), id="V16"),
    ],
)
def test_an_instance_set_is_ready_when_its_instances_are(replicas: int, count: int, expected: tuple[str, str, str]) -> None:
    shown = view(infer_service("vllm-0", [role("prefill", replicas)]))

    status = instance_set_status(shown, InstanceSetStatus(), count, [], NOW)

    assert ready(status) == expected
    assert status.label_selector == "infer.huawei.com/inferservice-name=vllm-0,infer.huawei.com/instanceset-name=prefill"


def test_v58_the_same_facts_give_the_same_status() -> None:
    first = set_status(InferServiceSetStatus(), 1, 2, 1, [], NOW)

    assert set_status(first, 1, 2, 1, [], LATER) == first


def test_the_transition_time_changes_with_the_status_and_not_with_the_message() -> None:
    first = set_status(InferServiceSetStatus(), 1, 2, 0, [], NOW)
    second = set_status(first, 1, 2, 1, [], LATER)
    third = set_status(second, 1, 2, 2, [], LATER)

    times = [status.conditions[0].last_transition_time for status in (first, second, third)]
    assert times == ["2026-01-01T12:00:00Z", "2026-01-01T12:00:00Z", "2026-01-01T13:00:00Z"]


def test_a_blocker_wins_over_the_counts() -> None:
    status = set_status(InferServiceSetStatus(), 1, 1, 1, invalid(["role a: is odd. Fix it.", "role b: too. Fix it."]), NOW)

    assert ready(status) == ("False", "ValidateError", "role a: is odd. Fix it. role b: too. Fix it.")


def test_of_several_blockers_the_one_already_shown_stays() -> None:
    one, two = Blocker("ValidateError", "one"), Blocker("NameConflict", "two")
    first = set_status(InferServiceSetStatus(), 1, 1, 0, [two], NOW)

    assert ready(set_status(first, 1, 1, 0, [one, two], NOW))[2] == "two"
    assert ready(set_status(first, 1, 1, 0, [one], NOW))[2] == "one"


def test_a_message_longer_than_the_schema_allows_is_cut_and_still_recognised() -> None:
    blocker = Blocker("ValidateError", "x" * 40000)
    first = set_status(InferServiceSetStatus(), 1, 1, 0, [blocker], NOW)

    assert len(first.conditions[0].message) == 32768
    assert set_status(first, 1, 1, 0, [Blocker("ValidateError", "a"), blocker], NOW) == first


def test_zero_counts_are_written_so_that_columns_are_not_empty() -> None:
    body = set_status(InferServiceSetStatus(), 1, 1, 0, [], NOW).model_dump(by_alias=True, exclude_none=True)

    assert (body["replicas"], body["readyReplicas"]) == (1, 0)


def child(reason: str = "AllWorkLoadReady", status: str = "True", *, observed: int = 2, generation: int = 2) -> dict[str, Any]:
    condition = Condition.model_validate({"type": "Ready", "status": status, "reason": reason, "message": "m", "lastTransitionTime": "t"})
    return {
        "metadata": {"generation": generation},
        "status": {"observedGeneration": observed, "conditions": [condition.model_dump(by_alias=True)]},
    }


def test_a_child_is_ready_only_for_its_present_spec() -> None:
    assert is_ready(child())
    assert not is_ready(child(observed=1))
    assert not is_ready(child(status="False"))
    assert not is_ready({**child(), "metadata": {"generation": 2, "deletionTimestamp": "t"}})
    assert not is_ready({"metadata": {"generation": 1}})


@pytest.mark.parametrize("reason", ["ValidateError", "ServiceCreateError", "NameConflict", "Forbidden"])
def test_a_child_s_trouble_is_its_parents_trouble(reason: str) -> None:
    assert blocker_of(child(reason, "False")) == Blocker(reason, "m")


def test_a_child_that_is_on_its_way_is_no_trouble() -> None:
    assert blocker_of(child("ReplicasNotReady", "False")) is None
    assert blocker_of(child()) is None
    assert blocker_of({"metadata": {}}) is None


@pytest.mark.parametrize(
    "kind, error, reason",
    [
        pytest.param("StatefulSet", InvalidError("no", status=422), "ValidateError", id="V68"),
        ("Service", InvalidError("no", status=422), "ServiceCreateError"),
        ("Deployment", NameTakenError("no"), "NameConflict"),
        ("Service", ForbiddenError("no", status=403), "Forbidden"),
    ],
)
def test_what_waiting_does_not_mend_is_told(kind: str, error: Exception, reason: str) -> None:
    assert blockers_of([({"kind": kind}, error)]) == [Blocker(reason, "no")]


@pytest.mark.parametrize("error", [ConflictError("no", status=409), TransportError("no"), StillDeletingError("no"), PredecessorError("no")])
def test_what_passes_by_itself_is_not_told(error: Exception) -> None:
    assert blockers_of([({"kind": "Service"}, error)]) == []


def test_a_scaling_policy_that_is_not_carried_out_has_a_condition_of_its_own_and_leaves_ready_alone() -> None:
    trouble = ScalingResourceStatus(type="KEDA", message="unsupported scaling policy type: KEDA")
    status = instance_set_status(VIEW, InstanceSetStatus(), 1, [], NOW, scaling=trouble)

    assert ready(status)[0] == "True"
    told = status.condition("ScalingActive")
    assert told is not None
    assert (told.status, told.reason) == ("False", "ScalingResourceReconcileError")
    assert told.message == "role worker: unsupported scaling policy type: KEDA"
    assert must_report(told)
    assert status.scaling_resource_status == trouble

    parent = service_status(InferServiceStatus(), 1, 1, 1, [], NOW, unscaled_of([status_of(status)]))
    assert [(each.type, each.status, each.message) for each in parent.conditions[1:]] == [("ScalingActive", "False", told.message)]
    assert ready(parent)[0] == "True"


def test_a_scaling_policy_that_works_needs_no_condition() -> None:
    works = ScalingResourceStatus(type="HPA", name="x", ready=True, message="HPA created successfully")

    assert [each.type for each in instance_set_status(VIEW, InstanceSetStatus(), 1, [], NOW, scaling=works).conditions] == ["Ready"]


def test_what_waits_for_other_roles_says_so_and_is_no_trouble_of_its_parents() -> None:
    status = instance_set_status(VIEW, InstanceSetStatus(), 0, [], NOW, "waiting for role decode")

    assert ready(status) == ("False", "WaitingForPriority", "0 of 1 WorkLoad replicas are ready; waiting for role decode")
    assert blocker_of(status_of(status)) is None
    assert not any(map(must_report, status.conditions))


def status_of(status: Status) -> dict[str, Any]:
    """A child with that status."""
    return {"metadata": {"generation": 1}, "status": status.model_dump(by_alias=True, exclude_none=True)}
