# SPDX-License-Identifier: Apache-2.0
"""Group vectors 61-64, and who gets which role."""

from __future__ import annotations

from collections import Counter

import pytest

from controller_runtime.api.roles import GROUP_LIMIT, GROUP_LIMIT_MULTI_NODE, Role
from controller_runtime.errors import TemporaryError
from controller_runtime.ms.assignment import Place, assign_groups, assign_roles, place_newcomer
from controller_runtime.ms.role_decision import Split
from tests.support.ms_builders import spec

P, D = Role.PREFILL, Role.DECODE


def groups(prefills: int, decodes: int, limit: int = GROUP_LIMIT) -> list[tuple[int, int]]:
    places = assign_groups([P] * prefills + [D] * decodes, limit)
    counts = Counter((place.group_id, place.role) for place in places)
    return [(counts[number, P], counts[number, D]) for number in sorted({place.group_id for place in places})]


@pytest.mark.parametrize("size", [(3, 3), (6, 3), (15, 1), (1, 15)])
def test_vector_61_up_to_sixteen_servers_are_one_group(size: tuple[int, int]) -> None:
    assert groups(*size) == [size]


@pytest.mark.parametrize(
    ("size", "expected"),
    [((9, 8), [(5, 4), (4, 4)]), ((15, 2), [(8, 1), (7, 1)]), ((2, 15), [(1, 8), (1, 7)]), ((5, 89), [(1, 18)] * 4 + [(1, 17)])],
)
def test_vector_62_more_than_sixteen_are_dealt_over_groups_that_all_hold_both_roles(
    size: tuple[int, int], expected: list[tuple[int, int]]
) -> None:
    assert sorted(groups(*size), reverse=True) == expected


def test_vector_63_a_multi_node_cluster_is_one_group() -> None:
    assert groups(5, 89, GROUP_LIMIT_MULTI_NODE) == [(5, 89)]


def test_vector_64_one_side_alone_is_no_group() -> None:
    with pytest.raises(TemporaryError):
        assign_groups([P] * 4, GROUP_LIMIT)


def test_free_servers_are_counted_out_prefill_first_in_table_order() -> None:
    assert assign_roles([spec(1), spec(2), spec(3), spec(4)], Split(1, 3)) == (P, D, D, D)


def test_fixed_roles_stand_and_free_servers_fill_the_missing_prefill() -> None:
    specs = [spec(1, D), spec(2), spec(3, P), spec(4)]

    assert assign_roles(specs, Split(2, 2)) == (D, P, P, D)


def test_a_cluster_without_both_roles_waits() -> None:
    with pytest.raises(TemporaryError, match="0 prefill and 2 decode"):
        assign_roles([spec(1, D), spec(2, D)], None)


@pytest.mark.parametrize(
    ("role", "predecessor", "present", "target", "expected"),
    [
        (P, Place(D, 0), {0: Split(1, 1)}, None, Place(P, 0)),
        (Role.UNDEFINED, Place(D, 3), {0: Split(1, 0)}, Split(1, 1), Place(D, 3)),
        (Role.UNDEFINED, None, {0: Split(1, 3)}, Split(1, 3), Place(P, 0)),
        (Role.UNDEFINED, None, {0: Split(1, 2)}, Split(1, 3), Place(D, 0)),
        (Role.UNDEFINED, None, {0: Split(2, 3), 1: Split(2, 2)}, Split(1, 2), Place(D, 1)),
        (Role.UNDEFINED, None, {}, None, Place(P, 0)),
    ],
)
def test_a_newcomer_goes_where_it_is_missing(
    role: Role, predecessor: Place | None, present: dict[int, Split], target: Split | None, expected: Place
) -> None:
    assert place_newcomer(spec(9, role), predecessor, present, target) == expected
