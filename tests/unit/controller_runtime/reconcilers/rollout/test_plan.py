# SPDX-License-Identifier: Apache-2.0
"""Rollouts on paper: every step, what serves, and which plans must not be applied."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller_runtime.api.infer_service import InferService
from controller_runtime.kube.kind import Object
from controller_runtime.reconcilers.rollout.plan import RolloutPlan, plan_rollout
from tests.support.infer import pod_template, role, service_object

strategies = st.fixed_dictionaries(
    {"maxUnavailable": st.integers(0, 3), "maxSurge": st.integers(0, 2), "partition": st.integers(0, 3)},
).filter(lambda each: each["maxUnavailable"] + each["maxSurge"] > 0)


def pd(name: str, replicas: int, image: str = "a", **more: Any) -> Object:
    return role(name, replicas, spec={"template": pod_template(None, None, {"name": "infer", "image": image})}, **more)


def plan(old: list[Object] | None, new: list[Object]) -> RolloutPlan:
    services = [None if roles is None else InferService.model_validate(service_object("s", roles)) for roles in (old, new)]
    assert services[1] is not None
    return plan_rollout(services[0], services[1])


def counts(found: RolloutPlan, name: str) -> list[tuple[int, int, int]]:
    return [(row.roles[name].old, row.roles[name].new, row.roles[name].serving) for row in found.steps]


def test_roles_go_one_after_the_other_and_instances_from_the_highest_index() -> None:
    found = plan([pd("prefill", 2), pd("decode", 2)], [pd("prefill", 2, "b"), pd("decode", 2, "b")])

    assert [row.changes for row in found.steps] == [
        ["prefill: update 1"],
        ["prefill: update 0"],
        ["decode: update 1"],
        ["decode: update 0"],
    ]
    assert counts(found, "prefill") == [(1, 1, 1), (0, 2, 1), (0, 2, 2), (0, 2, 2)]
    assert counts(found, "decode") == [(2, 0, 2), (2, 0, 2), (1, 1, 1), (0, 2, 1)]
    assert [(row.step, row.steps) for row in found.steps] == [(0, 4), (1, 4), (2, 4), (3, 4)]
    assert (found.minimum_serving, found.problems) == ({"prefill": 1, "decode": 1}, [])


def test_a_number_of_instances_alone_updates_nothing() -> None:
    found = plan([pd("prefill", 1), pd("decode", 1)], [pd("prefill", 1), pd("decode", 2)])

    assert [row.changes for row in found.steps] == [["decode: create 1"]]
    assert counts(found, "decode") == [(0, 2, 1)]
    assert found.problems == []


def test_a_waiting_role_scales_with_its_old_template() -> None:
    found = plan([pd("prefill", 2), pd("decode", 1)], [pd("prefill", 2, "b"), pd("decode", 2, "b")])

    assert counts(found, "decode")[0] == (2, 0, 1)
    assert counts(found, "decode")[-1] == (0, 2, 1)


def test_equal_services_and_new_ones_have_no_rollout() -> None:
    assert plan([pd("a", 2)], [pd("a", 2)]).steps == []
    fresh = plan(None, [pd("prefill", 2), pd("decode", 1)])
    assert ([row.changes for row in fresh.steps], fresh.problems) == ([["prefill: create 0, 1", "decode: create 0"]], [])


def test_extra_instances_keep_a_single_one_in_service() -> None:
    surge = {"maxSurge": 1}

    found = plan([pd("decode", 1)], [pd("decode", 1, "b", rolloutStrategy=surge)])

    assert counts(found, "decode") == [(1, 1, 1), (0, 2, 1), (0, 1, 1)]
    assert found.problems == []


@pytest.mark.parametrize(
    "new, remedy",
    [
        pytest.param([pd("decode", 1, "b")], "maxSurge", id="single"),
        pytest.param([pd("decode", 0)], "Keep at least 1", id="scaled-to-zero"),
        pytest.param([pd("other", 1)], "Keep at least 1", id="role-removed"),
    ],
)
def test_a_plan_that_stops_decode_is_refused_with_its_remedy(new: list[Object], remedy: str) -> None:
    (problem,) = plan([pd("decode", 1)], new).problems

    assert "role decode: no instance serves" in problem
    assert remedy in problem


def test_other_roles_may_stop() -> None:
    assert plan([pd("router", 1)], [pd("router", 1, "b")]).problems == []


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.booleans(), strategies), min_size=1, max_size=4))
def test_every_plan_ends_keeps_its_minimum_and_updates_one_role_at_a_time(given_roles: list[tuple[int, int, bool, dict[str, int]]]) -> None:
    named = [(f"r{number}", *each) for number, each in enumerate(given_roles)]
    old = [pd(name, before) for name, before, _, _, _ in named]
    new = [pd(name, after, "b" if changes else "a", rolloutStrategy=strategy) for name, _, after, changes, strategy in named]

    found = plan(old, new)

    for row in found.steps:
        assert sum(": update" in change for change in row.changes) <= 1
    for name, before, after, changes, strategy in named:
        floor = max(after - strategy["maxUnavailable"], min(1, after) if after > 1 else 0)
        assert found.minimum_serving[name] >= min(before, after, floor)
        if found.steps and changes:
            last = found.steps[-1].roles[name]
            assert last.old + last.new == after
            assert last.old <= min(strategy["partition"], after)


def test_a_partition_ends_the_plan_early_and_the_next_role_follows() -> None:
    found = plan([pd("prefill", 3), pd("decode", 2)], [pd("prefill", 3, "b", rolloutStrategy={"partition": 2}), pd("decode", 2, "b")])

    assert [row.changes for row in found.steps] == [["prefill: update 2"], ["decode: update 1"], ["decode: update 0"]]
