# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller_runtime.foundation.backoff import Backoff


def test_waits_double_up_to_the_cap() -> None:
    backoff = Backoff(0.5, 3.0, jitter=0)

    assert [backoff.next_s() for _ in range(5)] == [0.5, 1.0, 2.0, 3.0, 3.0]


def test_reset_starts_over() -> None:
    backoff = Backoff(1.0, 8.0, jitter=0)
    backoff.next_s()
    backoff.next_s()

    backoff.reset()

    assert backoff.failures == 0
    assert backoff.next_s() == 1.0


@given(st.floats(0, 1), st.floats(0, 1, exclude_max=True), st.integers(1, 2000))
def test_jitter_only_shortens_and_never_below_its_share(jitter: float, chance: float, tries: int) -> None:
    backoff = Backoff(1.0, 60.0, jitter=jitter, random=lambda: chance)
    for n in range(tries):
        wait = backoff.next_s()
        whole = min(60.0, 2.0**n) if n < 10 else 60.0
        assert whole * (1 - jitter) <= wait <= whole


@pytest.mark.parametrize(("base", "cap", "jitter"), [(0, 1, 0), (2, 1, 0), (1, 1, 1.5), (1, 1, -0.1)])
def test_impossible_settings_are_refused(base: float, cap: float, jitter: float) -> None:
    with pytest.raises(ValueError, match="backoff needs"):
        Backoff(base, cap, jitter)
