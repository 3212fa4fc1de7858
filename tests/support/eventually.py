# SPDX-License-Identifier: Apache-2.0
"""Wait for a condition of another thread, task or process: poll, with a deadline that fails the test."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

POLL_S = 0.01


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
