# SPDX-License-Identifier: Apache-2.0
"""A token bucket: `burst` calls at once, then `qps` a second. Callers of `acquire` are served in order of arrival."""

from __future__ import annotations

import asyncio
from typing import Protocol

from controller_runtime.foundation.clock import Clock, SystemClock


class Limiter(Protocol):
    """Whoever calls `acquire` waits until the call may be made."""

    async def acquire(self) -> None: ...


class TokenBucket:
    """`qps` tokens a second, at most `burst` saved up. A debt is allowed to `acquire`, which waits until it is paid."""

    def __init__(self, qps: float, burst: int, clock: Clock | None = None) -> None:
        if qps <= 0 or burst < 1:
            raise ValueError(f"token bucket needs qps > 0 and burst >= 1, got {qps} and {burst}")
        self._clock = clock or SystemClock()
        self._qps = qps
        self._burst = float(burst)
        self._tokens = float(burst)
        self._filled_at = self._clock.monotonic()

    async def acquire(self) -> None:
        """Take a token, waiting for it when there is none."""
        self._refill()
        self._tokens -= 1
        if self._tokens < 0:
            await asyncio.sleep(-self._tokens / self._qps)

    def try_take(self) -> bool:
        """Take a token if there is one."""
        self._refill()
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    def _refill(self) -> None:
        now = self._clock.monotonic()
        self._tokens = min(self._burst, self._tokens + (now - self._filled_at) * self._qps)
        self._filled_at = now
