# SPDX-License-Identifier: Apache-2.0
"""Time as a dependency, so that tests decide what time it is."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """`monotonic` measures intervals (seconds, never goes back); `now` is for people and certificates (UTC, may jump)."""

    def monotonic(self) -> float: ...

    def now(self) -> datetime: ...


class SystemClock:
    """The machine's clock."""

    def monotonic(self) -> float:
        return time.monotonic()

    def now(self) -> datetime:
        return datetime.now(UTC)
