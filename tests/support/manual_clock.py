# SPDX-License-Identifier: Apache-2.0
"""A clock that stands still until the test moves it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


class ManualClock:
    """Starts at monotonic 1000 and the start of 2026."""

    def __init__(self) -> None:
        self._elapsed_s = 0.0

    def advance(self, seconds: float) -> None:
        self._elapsed_s += seconds

    def monotonic(self) -> float:
        return 1000.0 + self._elapsed_s

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self._elapsed_s)
