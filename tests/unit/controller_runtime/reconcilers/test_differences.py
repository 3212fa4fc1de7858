# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller_runtime.api.labels import APPLIED_HASH
from controller_runtime.api.quantities import quantity
from controller_runtime.reconcilers.differences import covers, equal, fingerprint, is_as_wanted, with_hash

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=12,
)


@pytest.mark.parametrize(
    "live, desired",
    [
        ({"a": 1, "b": 2}, {"a": 1}),
        ({}, {"a": {}}),
        ({}, {"a": "", "b": [], "c": None}),
        ({"env": [{"name": "sidecar"}, {"name": "x", "value": "1"}]}, {"env": [{"name": "x", "value": "1"}]}),
        ({"ports": [{"port": 80, "protocol": "TCP"}]}, {"ports": [{"port": 80}]}),
        ({"cpu": "1"}, {"cpu": "1000m"}),
        ({"cpu": "1"}, {"cpu": 1}),
        ({"memory": "1Gi"}, {"memory": "1024Mi"}),
        ({"name": "x"}, {"name": "x", "value": ""}),
    ],
)
def test_defaults_sidecars_and_other_spellings_are_no_difference(live: Any, desired: Any) -> None:
    assert covers(live, desired)


@pytest.mark.parametrize(
    "live, desired",
    [
        ({"a": 1}, {"a": 2}),
        ({"a": 1}, {"b": 1}),
        ({"replicas": 3}, {"replicas": 0}),
        ({}, {"flag": False}),
        ({"args": ["a", "b"]}, {"args": ["a"]}),
        ({"args": ["b", "a"]}, {"args": ["a", "b"]}),
        ({"env": [{"name": "x", "value": "2"}]}, {"env": [{"name": "x", "value": "1"}]}),
        ({"env": "x"}, {"env": [{"name": "x"}]}),
        ({"a": {"b": 1}}, {"a": ""}),
        ({"memory": "1Gi"}, {"memory": "1G"}),
        ({"a": True}, {"a": 1, "b": 2}),
    ],
)
def test_another_value_of_a_stated_field_is_a_difference(live: Any, desired: Any) -> None:
    assert not covers(live, desired)


@given(JSON)
def test_every_object_covers_and_equals_itself(value: Any) -> None:
    assert covers(value, value)
    assert equal(value, value)


@given(JSON, JSON)
def test_equality_is_symmetric(one: Any, other: Any) -> None:
    assert equal(one, other) == equal(other, one)


def test_v70_absent_equals_empty() -> None:
    assert equal({"roles": [{"name": "a"}]}, {"roles": [{"name": "a", "metadata": {"labels": {}}}], "more": None})
    assert not equal({"roles": []}, {"roles": [{"name": "a"}]})


def test_an_extra_field_makes_two_specs_unequal() -> None:
    assert not equal({"a": 1}, {"a": 1, "b": 1})


def test_an_extra_role_in_an_object_of_ours_is_a_difference_but_an_extra_variable_in_a_workload_is_none() -> None:
    ours = {"apiVersion": "mindcluster.huawei.com/v1", "metadata": {}, "spec": {"roles": [{"name": "a"}]}}
    edited = {**ours, "spec": {"roles": [{"name": "a"}, {"name": "b"}]}}
    assert is_as_wanted(ours, ours)
    assert not is_as_wanted(edited, ours)

    workload = {**ours, "apiVersion": "apps/v1"}
    assert is_as_wanted({**edited, "apiVersion": "apps/v1"}, workload)


@pytest.mark.parametrize(
    "text, value",
    [
        ("1", 1),
        ("1500m", 1.5),
        ("2k", 2000),
        ("1Ki", 1024),
        ("1e3", 1000),
        (4, 4),
        ("0.5", 0.5),
        ("E", None),
        ("x", None),
        ("", None),
        (True, None),
        ("NaN", None),
    ],
)
def test_quantities_have_the_value_kubernetes_gives_them(text: object, value: float | None) -> None:
    found = quantity(text)

    assert (None if found is None else float(found)) == value


def test_the_digest_follows_the_content() -> None:
    one = with_hash({"metadata": {"name": "a"}, "spec": {"x": 1, "y": 2}})
    same = with_hash({"spec": {"y": 2, "x": 1}, "metadata": {"name": "a"}})
    fewer = with_hash({"metadata": {"name": "a"}, "spec": {"x": 1}})

    assert one["metadata"]["annotations"][APPLIED_HASH] == same["metadata"]["annotations"][APPLIED_HASH]
    assert one["metadata"]["annotations"][APPLIED_HASH] != fewer["metadata"]["annotations"][APPLIED_HASH]


def test_a_template_that_lost_a_field_is_a_difference() -> None:
    live = with_hash({"metadata": {"name": "a"}, "spec": {"x": 1, "y": 2}})

    assert not covers(live, with_hash({"metadata": {"name": "a"}, "spec": {"x": 1}}))


def test_the_hash_keeps_other_annotations_and_its_input() -> None:
    given_object = {"metadata": {"annotations": {"note": "n"}}}

    assert with_hash(given_object)["metadata"]["annotations"]["note"] == "n"
    assert given_object == {"metadata": {"annotations": {"note": "n"}}}


def test_a_fingerprint_ignores_the_status_and_sees_an_edit() -> None:
    live = {"metadata": {"uid": "u", "resourceVersion": "1"}, "spec": {"a": 1}, "status": {}}

    assert fingerprint(live) == fingerprint({**live, "metadata": {"uid": "u", "resourceVersion": "2"}, "status": {"x": 1}})
    assert fingerprint(live) != fingerprint({**live, "spec": {"a": 2}})


def test_a_hash_that_looks_like_a_power_of_ten_is_text() -> None:
    assert quantity("51e4995521140799") is None
    assert not covers({"hash": "51e4995521140799"}, {"hash": "52e4995521140799"})
