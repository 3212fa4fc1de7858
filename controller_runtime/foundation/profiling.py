# SPDX-License-Identifier: Apache-2.0
"""What a running process spends its time on, and what its tasks wait for.

A thread looks at the stack of the event loop's thread a hundred times a second, so the process runs at its usual speed while
it is watched; time spent waiting for the network shows as the selector's frame. Invariants: one profile at a time, never
longer than a minute; only for a listener that knows who asks, because stacks tell how the program works.
"""

from __future__ import annotations

import asyncio
import io
import sys
import threading
from collections import Counter
from types import FrameType

from aiohttp import web

PERIOD_S = 0.01
DEFAULT_S = 10.0
MAX_S = 60.0


def add_debug_routes(app: web.Application) -> None:
    """Serve `/debug/profile?seconds=N` (collapsed stacks, as flame graph tools read them) and `/debug/tasks`."""
    gate = asyncio.Lock()

    async def profile(request: web.Request) -> web.Response:
        seconds = _seconds(request.query.get("seconds"))
        if gate.locked():
            raise web.HTTPConflict(text="a profile is being taken, ask again later")
        async with gate:
            stacks = await take_profile(seconds)
        return web.Response(text="".join(f"{stack} {count}\n" for stack, count in stacks.most_common()))

    async def tasks(_request: web.Request) -> web.Response:
        return web.Response(text=describe_tasks())

    app.router.add_get("/debug/profile", profile)
    app.router.add_get("/debug/tasks", tasks)


async def take_profile(seconds: float) -> Counter[str]:
    """Sample this thread for `seconds`: how often each stack, `outermost;...;innermost`, was seen."""
    stacks: Counter[str] = Counter()
    watched, over = threading.get_ident(), threading.Event()

    def sample() -> None:
        while not over.wait(PERIOD_S):
            stacks[_stack(sys._current_frames().get(watched))] += 1

    sampler = threading.Thread(target=sample, name="profile", daemon=True)
    sampler.start()
    try:
        await asyncio.sleep(seconds)
    finally:
        over.set()
        await asyncio.to_thread(sampler.join)
    return stacks


def describe_tasks() -> str:
    """Every task of the running loop with the stack it waits in, by name."""
    text = io.StringIO()
    for task in sorted(asyncio.all_tasks(), key=asyncio.Task.get_name):
        task.print_stack(file=text)
        text.write("\n")
    return text.getvalue()


def _stack(frame: FrameType | None) -> str:
    names: list[str] = []
    while frame is not None:
        names.append(f"{frame.f_globals.get('__name__', '?')}:{frame.f_code.co_qualname}")
        frame = frame.f_back
    return ";".join(reversed(names))


def _seconds(text: str | None) -> float:
    try:
        seconds = DEFAULT_S if text is None else float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= MAX_S:
        raise web.HTTPBadRequest(text=f"seconds is {text}, allowed: more than 0, at most {MAX_S:.0f}")
    return seconds
