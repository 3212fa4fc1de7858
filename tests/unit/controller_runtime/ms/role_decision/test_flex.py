# SPDX-License-Identifier: Apache-2.0
"""Splits with a flexible instance. Ids are numbers of the vector table."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller_runtime.errors import ConfigError
from controller_runtime.ms.role_decision.digs import Lengths, Objectives, simulate
from controller_runtime.ms.role_decision.flex import Rates, flex_split, is_switch_worthwhile
from controller_runtime.ms.role_decision.ratio import Split
from tests.support.engines import engine


def test_v44_the_share_balances_the_sides() -> None:
    found = flex_split(Rates(10, 6, 9), 16)

    assert (found.prefill, found.decode) == (6, 9)
    assert found.share == pytest.approx(0.375, abs=1e-4)
    assert found.throughput == pytest.approx(57.75, abs=1e-3)


@pytest.mark.parametrize("rates", [Rates(10, 0, 9), Rates(-1, 6, 9), Rates(10, 6, 0)])
def test_v45_a_rate_of_nothing_is_refused(rates: Rates) -> None:
    with pytest.raises(ConfigError, match="nothing to divide"):
        flex_split(rates, 16)


def test_v46_a_flexible_instance_alone_on_its_side_keeps_half() -> None:
    found = flex_split(Rates(10, 0.01, 9), 16)

    assert (found.prefill, found.decode, found.share) == (0, 15, 0.5)


@pytest.mark.parametrize(
    "count,expected",
    [(1, (0, 0, 0.5)), (2, (1, 0, 0.39888)), (3, (2, 0, 0.09831)), (5, (3, 1, 0.49719)), (8, (5, 2, 0.59550)), (16, (11, 4, 0.19100))],
)
def test_v47_splits_of_the_other_machine(count: int, expected: tuple[int, int, float]) -> None:
    abilities = simulate(engine("T"), Lengths(3000, 200), Objectives(1000, 50))
    found = flex_split(Rates(abilities.prefill, abilities.decode, abilities.transfer), count)

    assert found[:3] == (expected[0], expected[1], pytest.approx(expected[2], abs=2e-4))


@pytest.mark.parametrize(
    "rates,old,new,expected",
    [
        pytest.param(Rates(2, 1, 9), Split(1, 4), Split(2, 3), True, id="V48a"),
        pytest.param(Rates(1, 2, 9), Split(4, 1), Split(3, 2), True, id="V48b"),
        pytest.param(Rates(1, 1, 9), Split(4, 4), Split(3, 5), False, id="V49"),
        pytest.param(Rates(1, 1, 9), Split(4, 4), Split(4, 4), False, id="unchanged"),
    ],
)
def test_a_switch_must_leave_the_losing_side_ahead(rates: Rates, old: Split, new: Split, expected: bool) -> None:
    assert is_switch_worthwhile(rates, old, new) is expected


@given(st.floats(0.1, 100), st.floats(0.1, 100), st.integers(2, 16))
def test_the_search_finds_the_analytic_share_where_transfer_does_not_bind(prefill: float, decode: float, count: int) -> None:
    found = flex_split(Rates(prefill, decode, 1e6), count)
    exact = (found.decode * decode + decode - found.prefill * prefill) / (prefill + decode)

    if found.prefill and found.decode:
        assert found.share == pytest.approx(min(1.0, max(0.0, exact)), abs=1e-2)
    assert found.prefill + found.decode in (count - 1, count)
