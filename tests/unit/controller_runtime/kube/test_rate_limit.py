# SPDX-License-Identifier: Apache-2.0
"""The token bucket in simulated time."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from controller_runtime.kube.rate_limit import TokenBucket

pytestmark = pytest.mark.looptime


class LoopClock:
    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.monotonic(), UTC)


async def test_a_burst_passes_at_once_and_then_the_rate_holds() -> None:
    bucket, clock = TokenBucket(50, 100, LoopClock()), LoopClock()
    started = clock.monotonic()
    served: list[float] = []

    async def call() -> None:
        await bucket.acquire()
        served.append(clock.monotonic() - started)

    await asyncio.gather(*(call() for _ in range(200)))

    assert served[99] == pytest.approx(0, abs=0.01)
    assert served[149] == pytest.approx(1.0, abs=0.05)
    assert served[199] == pytest.approx(2.0, abs=0.05)
    assert served == sorted(served)


async def test_unused_tokens_are_saved_up_to_the_burst() -> None:
    bucket = TokenBucket(1, 3, LoopClock())
    await asyncio.sleep(1000)
    assert [bucket.try_take() for _ in range(4)] == [True, True, True, False]
    await asyncio.sleep(1.1)
    assert bucket.try_take()
    assert not bucket.try_take()


async def test_a_bucket_that_never_fills_is_refused() -> None:
    with pytest.raises(ValueError, match="qps > 0"):
        TokenBucket(0, 1)
