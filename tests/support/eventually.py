# SPDX-License-Identifier: Apache-2.0
"""Wait for a condition of another thread, task or process, or watch that it lasts: poll, with a deadline that fails the test."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

POLL_S = 0.01
STEADY_POLL_S = 0.1


async def eventually(condition: Callable[[], bool | Awaitable[bool]], what: str, timeout_s: float = 15.0) -> None:
    """Return as soon as `condition` holds; fail with `what` after `timeout_s`."""
    end = time.monotonic() + timeout_s
    while True:
        held = condition()
        if isinstance(held, Awaitable):
            held = await held
        if held:
            return
        if time.monotonic() >= end:
            raise AssertionError(f"did not happen within {timeout_s} s: {what}")
        await asyncio.sleep(POLL_S)


async def steadily(condition: Callable[[], bool | Awaitable[bool]], what: str, for_s: float) -> None:
    """Return after `for_s` if `condition` held all that time; fail with `what` as soon as it does not."""
    end = time.monotonic() + for_s
    while time.monotonic() < end:
        held = condition()
        if isinstance(held, Awaitable):
            held = await held
        if not held:
            raise AssertionError(f"did not last {for_s} s: {what}")
        await asyncio.sleep(STEADY_POLL_S)
