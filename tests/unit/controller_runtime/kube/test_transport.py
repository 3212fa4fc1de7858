# SPDX-License-Identifier: Apache-2.0
"""Load shedding, refusals and broken answers, spoken by a small server over loopback."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import orjson
import pytest
from aiohttp import web

from controller_runtime.errors import PeerRefusedError, TransportError
from controller_runtime.foundation.metrics import REGISTRY
from controller_runtime.kube.client import KubeClient
from controller_runtime.kube.config import KubeConfig
from controller_runtime.kube.credentials import Credential, StaticCredential
from controller_runtime.kube.errors import GoneError, LeaseLostError, TooManyRequestsError, UnauthorizedError, UnavailableError
from controller_runtime.kube.kind import CONFIG_MAP, POD

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serving(answer: Answer, **options: object) -> AsyncIterator[KubeClient]:
    """A client of a server that gives `answer` to everything."""

    async def handle(request: web.Request) -> web.StreamResponse:
        return await answer(request)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    config = KubeConfig(f"http://127.0.0.1:{port}", None, StaticCredential(Credential("secret-token")))
    client = KubeClient(config, **options)  # type: ignore[arg-type]  # options of the constructor
    try:
        yield client
    finally:
        await client.close()
        await runner.cleanup()


def status(code: int, reason: str = "", headers: dict[str, str] | None = None, **more: object) -> web.Response:
    body = {"kind": "Status", "code": code, "reason": reason, "message": f"because {reason}", **more}
    return web.json_response(body, status=code, headers=headers)


class Sequence:
    """Gives the answers in order, the last one for ever."""

    def __init__(self, *answers: web.Response) -> None:
        self.requests: list[web.Request] = []
        self.times: list[float] = []
        self._answers = [(answer.status, answer.body, dict(answer.headers)) for answer in answers]

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        self.times.append(time.monotonic())
        code, body, headers = self._answers[min(len(self.requests), len(self._answers)) - 1]
        return web.Response(status=code, body=body, headers=headers)


@pytest.mark.parametrize("code", [429, 503])
async def test_a_server_that_sheds_load_is_obeyed_then_asked_again(code: int) -> None:
    server = Sequence(status(code, headers={"Retry-After": "1"}), web.json_response({"ok": True}))
    async with serving(server) as client:
        assert await client.call("GET", "/x") == {"ok": True}
    assert server.times[1] - server.times[0] >= 1.0


async def test_a_server_that_sheds_load_for_ever_is_left_alone_after_six_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []

    async def note(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr("controller_runtime.kube.transport.asyncio.sleep", note)
    server = Sequence(status(429, "TooManyRequests", {"Retry-After": "7"}))
    async with serving(server) as client:
        with pytest.raises(TooManyRequestsError) as caught:
            await client.call("GET", "/x")
    assert caught.value.retry_after_s == 7
    assert len(server.requests) == 6
    assert waits[:5] == [7] * 5


async def test_a_fenced_write_is_checked_each_time_before_it_leaves_and_reads_are_not() -> None:
    server = Sequence(status(429, "TooManyRequests", {"Retry-After": "0"}), web.json_response({"ok": True}))

    def check() -> None:
        if server.requests:
            raise LeaseLostError("lost")

    async with serving(server) as client:
        fenced = client.fenced(check)
        with pytest.raises(LeaseLostError):
            await fenced.call("POST", "/x", {})
        with pytest.raises(LeaseLostError):
            await fenced.delete(POD, "x", "ns")
        assert len(server.requests) == 1
        assert await fenced.call("GET", "/x") == {"ok": True}
        assert await client.call("POST", "/x", {}) == {"ok": True}


async def test_a_fenced_write_that_waited_for_its_connection_is_checked_after_that(monkeypatch: pytest.MonkeyPatch) -> None:
    server, is_leader, connect = Sequence(web.json_response({})), True, aiohttp.TCPConnector.connect

    async def connect_slowly(*arguments: Any, **options: Any) -> Any:
        nonlocal is_leader
        connection = await connect(*arguments, **options)
        is_leader = False
        return connection

    def check() -> None:
        if not is_leader:
            raise LeaseLostError("lost")

    monkeypatch.setattr(aiohttp.TCPConnector, "connect", connect_slowly)
    async with serving(server) as client:
        with pytest.raises(TransportError):
            await client.fenced(check).call("POST", "/x", {})
    assert server.requests == []


async def test_an_error_without_retry_after_is_not_repeated() -> None:
    server = Sequence(status(500, "InternalError"))
    async with serving(server) as client:
        with pytest.raises(UnavailableError, match=r"POST /x: 500 because InternalError"):
            await client.call("POST", "/x", {})
    assert len(server.requests) == 1


async def test_a_second_401_is_final_and_names_no_token() -> None:
    server = Sequence(status(401, "Unauthorized"))
    async with serving(server) as client:
        with pytest.raises(UnauthorizedError) as caught:
            await client.call("GET", "/x")
    assert len(server.requests) == 2
    assert server.requests[0].headers["Authorization"] == "Bearer secret-token"
    assert "secret-token" not in str(caught.value)


async def test_a_refusal_that_is_not_json_is_still_told() -> None:
    async with serving(Sequence(web.Response(status=502, text="bad gateway"))) as client:
        with pytest.raises(UnavailableError, match="502 bad gateway"):
            await client.call("GET", "/x")


async def test_an_answer_that_is_not_json_is_a_transport_error() -> None:
    async with serving(Sequence(web.Response(text="<html>"))) as client:
        with pytest.raises(TransportError, match="not JSON"):
            await client.call("GET", "/x")


async def test_a_server_that_never_answers_times_out() -> None:
    async def silent(request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(30)
        return web.Response()

    async with serving(silent, timeout_s=0.2) as client:
        with pytest.raises(TransportError, match="no answer in time"):
            await client.call("GET", "/x")


async def test_nobody_listening_is_a_transport_error() -> None:
    async with serving(Sequence(web.Response())) as client:
        pass
    with pytest.raises(TransportError, match="cannot connect"):
        await client.call("GET", "/x")
    await client.close()


async def test_a_server_without_tls_is_refused() -> None:
    async with serving(Sequence(web.Response())) as plain:
        server = plain._transport._config.server.replace("http:", "https:")
        client = KubeClient(KubeConfig(server, None, StaticCredential(Credential())))
        with pytest.raises(PeerRefusedError, match="TLS failed"):
            await client.call("GET", "/x")
        await client.close()


async def test_requests_are_counted_by_code_method_and_host() -> None:
    async with serving(Sequence(web.Response(status=418))) as client:
        host = client._transport._config.server.removeprefix("http://")
        with pytest.raises(Exception, match="418"):
            await client.call("PUT", "/x", {})
    with pytest.raises(TransportError):
        await client.call("PUT", "/x", {})
    await client.close()

    def count(code: str) -> float | None:
        return REGISTRY.get_sample_value("rest_client_requests_total", {"code": code, "method": "PUT", "host": host})

    assert (count("418"), count("<error>")) == (1, 1)
    assert REGISTRY.get_sample_value("rest_client_request_duration_seconds_count", {"verb": "PUT", "host": host}) == 1


def line(kind: str, version: int, **more: object) -> bytes:
    return orjson.dumps({"type": kind, "object": {"metadata": {"resourceVersion": str(version)}, **more}}) + b"\n"


def streaming(*chunks: bytes, pause_s: float = 0.0) -> Answer:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for chunk in chunks:
            await response.write(chunk)
            await asyncio.sleep(0.01)
        await asyncio.sleep(pause_s)
        return response

    return answer


async def versions(client: KubeClient) -> list[str]:
    return [event.object["metadata"]["resourceVersion"] async for event in client.watch(CONFIG_MAP, resource_version="1")]


async def test_events_are_cut_at_newlines_wherever_the_network_cuts_them() -> None:
    whole = line("ADDED", 2) + line("MODIFIED", 3, data="x" * 300_000) + line("BOOKMARK", 4)
    pieces = [whole[:10], whole[10:70], whole[70:200_000], whole[200_000:-1], whole[-1:]]
    async with serving(streaming(*pieces)) as client:
        assert await versions(client) == ["2", "3", "4"]


async def test_a_watch_asks_for_bookmarks_and_ends_between_five_and_ten_minutes() -> None:
    asked: list[dict[str, str]] = []

    async def note(request: web.Request) -> web.StreamResponse:
        asked.append(dict(request.query))
        return web.Response()

    async with serving(note) as client:
        for _ in range(20):
            assert await versions(client) == []
    timeouts = {int(query.pop("timeoutSeconds")) for query in asked}
    assert len(timeouts) > 1
    assert min(timeouts) >= 300
    assert max(timeouts) <= 600
    assert asked[0] == {"watch": "true", "allowWatchBookmarks": "true", "resourceVersion": "1"}


async def test_an_error_event_with_code_410_is_gone() -> None:
    error = orjson.dumps({"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}}) + b"\n"
    async with serving(streaming(line("ADDED", 2), error)) as client:
        with pytest.raises(GoneError, match="too old"):
            await versions(client)


async def test_a_line_that_is_no_event_is_a_transport_error() -> None:
    async with serving(streaming(b"garbage\n")) as client:
        with pytest.raises(TransportError, match="not a watch event"):
            await versions(client)


async def test_a_silent_watch_is_given_up() -> None:
    async with serving(streaming(line("ADDED", 2), pause_s=30), watch_idle_s=0.2) as client:
        with pytest.raises(TransportError, match="no answer in time"):
            await versions(client)
