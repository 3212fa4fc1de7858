# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from datetime import UTC

from controller_runtime.foundation.clock import Clock, SystemClock


def test_the_system_clock_tells_utc_and_never_goes_back() -> None:
    clock: Clock = SystemClock()

    assert clock.now().tzinfo is UTC
    assert clock.monotonic() <= clock.monotonic()
