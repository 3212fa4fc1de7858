# SPDX-License-Identifier: Apache-2.0
"""Counts from abilities, given ratios and hardware; groups. Ids are numbers of the vector table."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller_runtime.api.roles import Role
from controller_runtime.ms.role_decision.ratio import (
    Split,
    best_split,
    expected_ratio,
    given_split,
    group_splits,
    hardware_role,
    reduced,
    split_by_hardware,
)


@pytest.mark.parametrize("count,expected", [(1, (1, 0)), (2, (1, 1)), (3, (1, 2)), (4, (2, 2)), (8, (3, 5)), (16, (6, 10))])
def test_v23_the_fill_keeps_the_sides_equal(count: int, expected: tuple[int, int]) -> None:
    assert best_split(10, 6, count) == expected


@pytest.mark.parametrize("rates,count,expected", [((1, 1), 2, (1, 1)), ((1, 1), 3, (2, 1)), ((0, 1), 5, (3, 2))])
def test_v24_ties_and_missing_rates_favour_prefill(rates: tuple[float, float], count: int, expected: tuple[int, int]) -> None:
    assert best_split(*rates, count) == expected


@pytest.mark.parametrize(
    "rates,expected", [((10, 6), (3, 5)), ((1, 1), (1, 1)), ((2, 3), (3, 2)), ((1, 100), (15, 1)), ((100, 1), (1, 15))]
)
def test_v25_the_expected_ratio_is_the_smallest_that_balances(rates: tuple[float, float], expected: tuple[int, int]) -> None:
    assert expected_ratio(*rates) == expected


GIVEN = [
    pytest.param((1, 1), {2: (1, 1), 3: (2, 1), 6: (3, 3), 17: (9, 8)}, id="V26"),
    pytest.param((3, 2), {5: (3, 2)}, id="V27"),
    pytest.param((1, 15), {2: (1, 1), 6: (1, 5)}, id="V27b"),
    pytest.param((1, 15), {17: (2, 15)}, id="V28"),
    pytest.param((15, 1), {16: (15, 1), 17: (16, 1)}, id="V29"),
    pytest.param((7, 3), {10: (7, 3)}, id="V29b"),
    pytest.param((1, 9), {16: (2, 14)}, id="V29c"),
    pytest.param((3, 5), {16: (6, 10)}, id="V29d"),
    pytest.param((2, 1), {9: (6, 3)}, id="V29e"),
]


@pytest.mark.parametrize("rates,splits", GIVEN)
def test_a_given_ratio_is_followed(rates: tuple[int, int], splits: dict[int, tuple[int, int]]) -> None:
    assert {count: given_split(*rates, count) for count in splits} == splits


@given(st.integers(1, 15), st.integers(1, 15), st.integers(1, 48))
def test_multiples_of_a_given_ratio_are_exact(prefill: int, decode: int, times: int) -> None:
    assert given_split(prefill, decode, times * (prefill + decode)) == (times * prefill, times * decode)


@given(st.floats(1e-3, 1e4), st.floats(1e-3, 1e4), st.integers(2, 16))
def test_no_other_split_of_the_cluster_serves_more(prefill: float, decode: float, count: int) -> None:
    chosen = best_split(prefill, decode, count)
    best = max(min(prefill * number, decode * (count - number)) for number in range(1, count))

    assert min(prefill * chosen.prefill, decode * chosen.decode) == pytest.approx(best, rel=1e-9)
    assert min(chosen) >= 1
    assert sum(chosen) == count


@pytest.mark.parametrize("count,expected", [(7, (5, 2)), (9, (7, 2)), (17, (15, 2))])
def test_v32_hardware_dictates_the_counts(count: int, expected: tuple[int, int]) -> None:
    hardware = ["800I A2(64G)", "800I A2(64G)", *["800I A2(32G)"] * (count - 2)]

    assert split_by_hardware(hardware) == expected


def test_hardware_the_manual_does_not_name_has_no_role() -> None:
    assert hardware_role("800i a2(32G)") is Role.PREFILL
    assert hardware_role("800T A2(64G)") is Role.UNDEFINED
    assert split_by_hardware(["800T A2(64G)", "800I A2(64G)"]) == (0, 1)


@pytest.mark.parametrize("split", [(3, 3), (6, 3), (15, 1), (1, 15)])
def test_v42_up_to_sixteen_instances_are_one_group(split: tuple[int, int]) -> None:
    assert group_splits(Split(*split)) == (split,)


GROUPS = [
    pytest.param((9, 8), [(5, 4), (4, 4)], id="9P8D"),
    pytest.param((15, 2), [(8, 1), (7, 1)], id="15P2D"),
    pytest.param((2, 15), [(1, 8), (1, 7)], id="2P15D"),
    pytest.param((5, 89), [(1, 18)] * 4 + [(1, 17)], id="5P89D"),
    pytest.param((6, 89), [(1, 15)] * 5 + [(1, 14)], id="6P89D"),
]


@pytest.mark.parametrize("split,groups", GROUPS)
def test_v43_more_instances_are_more_groups_with_both_roles_in_each(split: tuple[int, int], groups: list[tuple[int, int]]) -> None:
    assert list(group_splits(Split(*split))) == groups


def test_without_one_of_the_roles_there_is_no_group() -> None:
    assert group_splits(Split(4, 0)) == ()


def test_many_hosts_share_one_group() -> None:
    assert group_splits(Split(300, 468), limit=768) == ((300, 468),)


@given(st.integers(1, 400), st.integers(1, 400))
def test_groups_lose_nobody_and_are_level(prefill: int, decode: int) -> None:
    groups = group_splits(Split(prefill, decode))

    assert (sum(group.prefill for group in groups), sum(group.decode for group in groups)) == (prefill, decode)
    for role in (0, 1):
        sizes = [group[role] for group in groups]
        assert max(sizes) - min(sizes) <= 1
        assert min(sizes) >= 1
    if min(prefill, decode) >= -(-(prefill + decode) // 16):
        assert max(sum(group) for group in groups) <= 16


@pytest.mark.parametrize("split,expected", [((6, 4), (3, 2)), ((64, 2), (15, 1)), ((31, 2), (15, 2)), ((0, 0), (0, 0)), ((30, 20), (3, 2))])
def test_a_ratio_is_reported_in_small_numbers(split: tuple[int, int], expected: tuple[int, int]) -> None:
    assert reduced(Split(*split)) == expected
