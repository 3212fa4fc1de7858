# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller_runtime.api.quantities import BINARY, DECIMAL, quantity, total

SPELLINGS = st.builds(
    "{}{}".format, st.one_of(st.integers(0, 10**6), st.decimals(0, 10**6, places=3)), st.sampled_from([*BINARY, *DECIMAL])
)


@pytest.mark.parametrize(
    "terms, times, written",
    [
        (["16"], 2, "32"),
        (["64Gi"], 2, "128Gi"),
        (["8"], 2, "16"),
        (["500m", 1], 1, "1500m"),
        (["500m", "500m"], 1, "1"),
        (["1.5Gi"], 1, "1536Mi"),
        (["1Gi", "1G"], 1, "2073741824"),
        (["1G", "1Gi"], 1, "2073741824"),
        (["1000Mi", "24Mi"], 1, "1Gi"),
        (["0.5Ki"], 1, "512"),
        (["0.0001Ki"], 1, "102400u"),
        (["1000"], 1, "1k"),
        (["2e3"], 1, "2k"),
        (["0.1n"], 1, "1n"),
        ([0], 5, "0"),
        (["0Gi"], 1, "0"),
        (["9e99"], 1, "9" + "0" * 81 + "E"),
    ],
)
def test_sums_are_exact_and_written_as_the_api_server_writes_them(terms: list[object], times: int, written: str) -> None:
    assert total(terms, times) == written


@pytest.mark.parametrize("terms", [[], ["much"], [None, True]])
def test_without_a_quantity_there_is_no_sum(terms: list[object]) -> None:
    assert total(terms) is None


@given(st.lists(SPELLINGS, min_size=1, max_size=6), st.integers(1, 64))
def test_a_sum_has_the_value_of_its_terms_rounded_up_to_a_billionth(terms: list[str], times: int) -> None:
    values = [quantity(term) or Decimal(0) for term in terms]
    written = quantity(total(terms, times))

    assert written is not None
    assert 0 <= Fraction(written) - times * sum(map(Fraction, values)) < Fraction(1, 10**9)
