# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from controller_runtime.api.infer_service import InferService
from controller_runtime.api.instance_set import InstanceSetSpec
from controller_runtime.reconcilers.priority import changes_order, hands_on, is_complete, reason_to_wait
from tests.support.infer import infer_service, role

BY_PRIORITY: dict[str, Any] = {"schedulingStrategy": {"type": "Priority"}}


def parent(strategy: str = "Priority", **priorities: int | None) -> InferService:
    roles = [role(name, 2, priority=priority) for name, priority in priorities.items()]
    return infer_service("s", roles, schedulingStrategy={"type": strategy})


def child(ready: int = 2, replicas: int = 2, *, generation: int = 1, observed: int = 1, asked: int | None = None) -> dict[str, Any]:
    """An InstanceSet as the cache has it; `asked`: replicas of its spec when its status speaks of others."""
    is_ready = "True" if ready >= replicas else "False"
    return {
        "metadata": {"name": "x", "generation": generation},
        "spec": {"replicas": replicas if asked is None else asked},
        "status": {
            "observedGeneration": observed,
            "replicas": replicas,
            "readyReplicas": ready,
            "conditions": [{"type": "Ready", "status": is_ready, "reason": "r", "message": ""}],
        },
    }


def test_v41_a_role_waits_for_the_one_before_it_and_no_longer() -> None:
    """Vector 41."""
    service = parent(prefill=2, decode=1)

    assert reason_to_wait(service, "decode", {"s-decode": child(0), "s-prefill": child(0)}) is None
    assert reason_to_wait(service, "prefill", {"s-decode": child(0), "s-prefill": child(0)}) == "waiting for role decode"
    assert reason_to_wait(service, "prefill", {"s-decode": child(2), "s-prefill": child(0)}) is None


def test_v42_roles_of_one_number_start_together() -> None:
    """Vector 42."""
    service = parent(a=3, b=3)

    assert [reason_to_wait(service, name, {}) for name in ("a", "b")] == [None, None]


def test_v43_a_role_without_a_number_starts_at_once_and_holds_nobody_up() -> None:
    """Vector 43."""
    service = parent(free=None, a=1)

    assert [reason_to_wait(service, name, {}) for name in ("free", "a")] == [None, None]


def test_v45_a_role_the_service_does_not_have_gets_nothing() -> None:
    """Vector 45."""
    assert reason_to_wait(parent(a=1), "gone", {}) == "InferService s has no role gone"


def test_all_roles_ahead_are_named_in_their_order() -> None:
    service = parent(router=32, prefill=2, decode=1)

    assert reason_to_wait(service, "router", {"s-prefill": child(1)}) == "waiting for roles decode, prefill"


@pytest.mark.parametrize("strategy", ["", "Parallel"])
def test_nobody_waits_without_the_strategy(strategy: str) -> None:
    assert reason_to_wait(parent(strategy, prefill=2, decode=1), "prefill", {}) is None


@pytest.mark.parametrize(
    "instance_set, complete",
    [
        pytest.param(child(), True, id="all ready"),
        pytest.param(None, False, id="missing"),
        pytest.param(child(1), False, id="one of two"),
        pytest.param(child(generation=2), False, id="status about an older spec"),
        pytest.param(child(asked=3, observed=1), False, id="status counts fewer than the spec asks"),
        pytest.param(child(1, 1), False, id="the service asks for two by now"),
        pytest.param({**child(), "metadata": {"name": "x", "generation": 1, "deletionTimestamp": "t"}}, False, id="being deleted"),
    ],
)
def test_a_role_is_complete_when_everything_asked_for_now_is_ready(instance_set: dict[str, Any] | None, complete: bool) -> None:
    assert is_complete(InstanceSetSpec.model_validate(role("x", 2)), instance_set) is complete


def test_an_autoscaled_role_is_complete_with_what_its_autoscaler_asks_for() -> None:
    scaled = InstanceSetSpec.model_validate(role("x", 2, scalingPolicy={"type": "HPA", "spec": {"maxReplicas": 4}}))

    assert is_complete(scaled, child(3, 3))
    assert not is_complete(scaled, child(2, 3))


def test_a_role_that_is_switched_off_holds_nobody_up() -> None:
    assert is_complete(InstanceSetSpec.model_validate(role("x", 0)), child(0, 0))


@pytest.mark.parametrize(
    "old, new, expected",
    [
        (child(1), child(2), True),
        (None, child(2), True),
        (child(2), None, True),
        (child(2), child(2, generation=2, observed=2), True),
        (child(2), child(2), False),
        (child(2), child(1), False),
        (None, child(1), False),
    ],
)
def test_siblings_are_woken_when_they_may_start(old: dict[str, Any] | None, new: dict[str, Any] | None, expected: bool) -> None:
    assert hands_on(old, new) is expected


@pytest.mark.parametrize(
    "old, new, expected",
    [
        ((1, BY_PRIORITY), (2, BY_PRIORITY), True),
        ((1, BY_PRIORITY), (2, {}), True),
        ((1, BY_PRIORITY), (1, BY_PRIORITY), False),
        ((1, {}), (2, {}), False),
        (None, (1, BY_PRIORITY), False),
    ],
)
def test_roles_are_woken_when_their_order_may_have_changed(old: Any, new: Any, expected: bool) -> None:
    one, other = ({"metadata": {"generation": each[0]}, "spec": each[1]} if each else None for each in (old, new))

    assert changes_order(one, other) is expected
