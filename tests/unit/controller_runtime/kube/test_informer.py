# SPDX-License-Identifier: Apache-2.0
"""How an informer treats its handlers. Its talk with the server is tested against a real one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import orjson
from aiohttp import web

from controller_runtime.kube.client import KubeClient
from controller_runtime.kube.config import KubeConfig
from controller_runtime.kube.credentials import Credential, StaticCredential
from controller_runtime.kube.informer import Informer
from controller_runtime.kube.kind import CONFIG_MAP, Object, name_of
from tests.support.eventually import eventually


def config_map(name: str, version: int) -> Object:
    return {"metadata": {"namespace": "ns", "name": name, "uid": name, "resourceVersion": str(version)}}


@asynccontextmanager
async def server_with(listed: list[Object], added: list[Object]) -> AsyncIterator[KubeClient]:
    """A server whose list has `listed` and whose watch adds `added`, then stays open."""

    async def answer(request: web.Request) -> web.StreamResponse:
        if "watch" not in request.query:
            return web.json_response({"items": listed, "metadata": {"resourceVersion": "10"}})
        response = web.StreamResponse()
        await response.prepare(request)
        for obj in added:
            await response.write(orjson.dumps({"type": "ADDED", "object": obj}) + b"\n")
        await asyncio.sleep(60)
        return response

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    client = KubeClient(KubeConfig(f"http://127.0.0.1:{runner.addresses[0][1]}", None, StaticCredential(Credential())))
    try:
        yield client
    finally:
        await client.close()
        await runner.cleanup()


async def test_a_handler_that_raises_costs_neither_the_others_nor_the_cache() -> None:
    heard: list[str] = []

    def broken(old: Object | None, new: Object | None) -> None:
        raise ZeroDivisionError

    async with server_with([config_map("a", 1)], [config_map("b", 11)]) as client:
        informer, stop = Informer(client, CONFIG_MAP), asyncio.Event()
        informer.add_handler(broken)
        informer.add_handler(lambda old, new: heard.append(name_of(new or {})))
        task = asyncio.create_task(informer.run(stop))
        await eventually(lambda: len(heard) == 2, "both objects")
        stop.set()
        await task

    assert heard == ["a", "b"]
    assert len(informer.store) == 2


async def test_a_handler_finds_the_change_already_in_the_store_and_a_late_one_hears_of_what_exists() -> None:
    found: list[bool] = []
    late: list[str] = []
    async with server_with([config_map("a", 1)], [config_map("b", 11)]) as client:
        informer, stop = Informer(client, CONFIG_MAP), asyncio.Event()
        informer.add_handler(lambda old, new: found.append(informer.store.get("ns", name_of(new or {})) is new))
        assert not informer.is_synced
        task = asyncio.create_task(informer.run(stop))
        await informer.synced()
        await eventually(lambda: len(found) == 2, "both objects")
        informer.add_handler(lambda old, new: late.append(f"{old} {name_of(new or {})}"))
        stop.set()
        await task

    assert found == [True, True]
    assert late == ["None a", "None b"]
