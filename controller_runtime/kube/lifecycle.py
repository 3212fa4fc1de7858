# SPDX-License-Identifier: Apache-2.0
"""Waiting that ends when the process stops."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine


async def run_until(stop: asyncio.Event, work: Coroutine[None, None, None]) -> None:
    """Run `work` until it returns, raises (raised here) or `stop` is set; then it is cancelled and awaited."""
    task = asyncio.ensure_future(work)
    stopping = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({task, stopping}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopping.cancel()
        task.cancel()
        await asyncio.wait({task})
    if not task.cancelled():
        task.result()


async def pause(stop: asyncio.Event, seconds: float) -> None:
    """Wait `seconds`, or less when `stop` is set."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stop.wait()
