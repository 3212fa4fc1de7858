# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
import time

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from controller_runtime.foundation.profiling import add_debug_routes, describe_tasks, take_profile


def burn(seconds: float) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


async def test_a_profile_shows_where_the_time_went() -> None:
    watching = asyncio.create_task(take_profile(0.5))
    await asyncio.sleep(0)
    burn(0.4)
    stacks = await watching

    burning = sum(count for stack, count in stacks.items() if stack.endswith(f"{__name__}:burn"))
    assert burning > 0.5 * sum(stacks.values()) > 0


async def test_tasks_are_listed_with_the_line_they_wait_in() -> None:
    async def wait_for_nothing() -> None:
        await asyncio.Event().wait()

    task = asyncio.create_task(wait_for_nothing(), name="the-waiting-one")
    await asyncio.sleep(0)
    text = describe_tasks()
    task.cancel()

    assert "the-waiting-one" in text
    assert "await asyncio.Event().wait()" in text


@pytest.mark.parametrize(
    "query, status", [("?seconds=0.05", 200), ("?seconds=0", 400), ("?seconds=61", 400), ("?seconds=x", 400), ("?seconds=nan", 400)]
)
async def test_the_length_of_a_profile_is_bounded(query: str, status: int) -> None:
    async with await debug_client() as client, client.get(f"/debug/profile{query}") as answer:
        assert answer.status == status


async def test_a_second_profile_at_the_same_time_is_refused() -> None:
    async with await debug_client() as client:
        first = asyncio.create_task(client.get("/debug/profile?seconds=0.5").__aenter__())
        await asyncio.sleep(0.1)
        async with client.get("/debug/profile?seconds=0.1") as second:
            assert second.status == 409
        assert (await first).status == 200


async def debug_client() -> TestClient[web.Request, web.Application]:
    app = web.Application()
    add_debug_routes(app)
    return TestClient(TestServer(app))
