# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from aiohttp import web

from controller_runtime.errors import PeerRefusedError, TransportError
from controller_runtime.foundation import http_client
from controller_runtime.foundation.http_client import HttpClient, HttpResponse
from controller_runtime.foundation.http_server import HttpServer
from controller_runtime.foundation.tls import TlsIdentity
from tests.support.eventually import eventually
from tests.support.pki import Authority, publish_crl, write_identity
from tests.unit.controller_runtime.foundation.conftest import Site

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Peer:
    """A server with one handler; counts requests and the connections they came on."""

    def __init__(self, handler: Handler, tls: TlsIdentity | None) -> None:
        self.requests = 0
        self.links: list[asyncio.Transport] = []
        self._handler = handler
        application = web.Application()
        application.router.add_route("*", "/", self._count)
        self.server = HttpServer(application, "127.0.0.1", 0, tls, shutdown_s=0.1)
        self._scheme = "https" if tls else "http"

    @property
    def url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self.server.port}/"

    async def _count(self, request: web.Request) -> web.StreamResponse:
        self.requests += 1
        if request.transport is not None and request.transport not in self.links:
            self.links.append(request.transport)
        return await self._handler(request)


async def ok(_request: web.Request) -> web.Response:
    return web.json_response({"ok": True})


@pytest.fixture
async def serve() -> AsyncIterator[Callable[[Handler, TlsIdentity | None], Awaitable[Peer]]]:
    started: list[Peer] = []

    async def start(handler: Handler, tls: TlsIdentity | None) -> Peer:
        peer = Peer(handler, tls)
        await peer.server.start()
        started.append(peer)
        return peer

    yield start
    for peer in started:
        await peer.server.stop()


@pytest.fixture
async def connect() -> AsyncIterator[Callable[..., HttpClient]]:
    made: list[HttpClient] = []

    def make(tls: TlsIdentity | None, timeout_s: float = 10.0, retries: int = 0) -> HttpClient:
        made.append(HttpClient(tls, timeout_s, retries))
        return made[-1]

    yield make
    for client in made:
        await client.close()


Serve = Callable[[Handler, TlsIdentity | None], Awaitable[Peer]]
Connect = Callable[..., HttpClient]


async def test_json_goes_out_and_any_status_comes_back(serve: Serve, connect: Connect) -> None:
    async def echo(request: web.Request) -> web.Response:
        return web.json_response({"got": await request.json(), "type": request.content_type}, status=418)

    peer = await serve(echo, None)
    answer = await connect(None).request("POST", peer.url, json={"role": "prefill"})

    assert answer.status == 418
    assert answer.json() == {"got": {"role": "prefill"}, "type": "application/json"}
    assert answer.headers["content-type"].startswith("application/json")


async def test_links_are_reused(serve: Serve, connect: Connect, site: Site) -> None:
    peer = await serve(ok, site.server())
    client = connect(site.client())
    for _ in range(5):
        await client.request("GET", peer.url)

    assert (peer.requests, len(peer.links)) == (5, 1)


async def test_a_peer_with_an_expected_name_is_served(serve: Serve, connect: Connect, site: Site) -> None:
    peer = await serve(ok, site.server())

    assert (await connect(site.client()).request("GET", peer.url, expect_sans=["mindie-server.*"])).status == 200


async def test_a_peer_with_another_name_gets_no_byte_of_the_request(serve: Serve, connect: Connect, site: Site) -> None:
    peer = await serve(ok, site.server())
    client = connect(site.client(), retries=3)
    assert (await client.request("GET", peer.url)).status == 200

    with pytest.raises(PeerRefusedError, match=r"peer is mindie-server\.mindie, expected ms-coordinator\.mindie"):
        await client.request("POST", peer.url, json={"secret": 1}, expect_sans=["ms-coordinator.mindie"])
    assert peer.requests == 1


async def test_a_revoked_server_is_refused_with_the_reason(serve: Serve, connect: Connect, site: Site) -> None:
    peer = await serve(ok, site.server())
    publish_crl(site.client_dir, site.authority, [site.server_leaf])

    with pytest.raises(PeerRefusedError, match="certificate revoked"):
        await connect(site.client()).request("GET", peer.url)
    assert peer.requests == 0


async def test_a_refused_peer_is_not_tried_again(connect: Connect, site: Site) -> None:
    links = 0

    async def answer_in_the_clear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal links
        links += 1
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(answer_in_the_clear, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(PeerRefusedError, match="wrong version number"):
            await connect(site.client(), retries=3).request("GET", f"https://127.0.0.1:{port}/")

    assert links == 1


async def test_a_server_of_another_ca_is_refused(serve: Serve, connect: Connect, site: Site, tmp_path: Path) -> None:
    stranger = Authority("pd")
    directory = write_identity(tmp_path / "stranger", stranger, stranger.issue("server", sans=["mindie-server.mindie"]))
    peer = await serve(ok, TlsIdentity(site.client().files.in_directory(directory)))

    with pytest.raises(PeerRefusedError, match="TLS failed"):
        await connect(site.client()).request("GET", peer.url)


async def test_being_refused_is_a_transport_error_that_points_at_the_servers_log(serve: Serve, connect: Connect, site: Site) -> None:
    publish_crl(site.server_dir, site.authority, [site.client_leaf])
    peer = await serve(ok, site.server())

    with pytest.raises(TransportError, match=r"its log names the reason|TLS failed"):
        await connect(site.client()).request("GET", peer.url)


async def test_a_client_without_identity_speaks_no_tls(serve: Serve, connect: Connect, site: Site) -> None:
    peer = await serve(ok, site.server())

    with pytest.raises(TransportError):
        await connect(None).request("GET", peer.url)
    assert peer.requests == 0


async def test_after_a_reload_idle_links_are_replaced(serve: Serve, connect: Connect, site: Site) -> None:
    peer = await serve(ok, site.server())
    tls = site.client()
    client = connect(tls)
    await client.request("GET", peer.url)

    site.publish()
    assert tls.reload_if_changed()
    await eventually(peer.links[0].is_closing, "the old link is closed")
    await client.request("GET", peer.url)

    assert len(peer.links) == 2


async def test_after_a_reload_the_revoked_server_is_not_used_again(serve: Serve, connect: Connect, site: Site) -> None:
    peer = await serve(ok, site.server())
    tls = site.client()
    client = connect(tls)
    await client.request("GET", peer.url)

    publish_crl(site.client_dir, site.authority, [site.server_leaf])
    assert tls.reload_if_changed()

    with pytest.raises(PeerRefusedError, match="certificate revoked"):
        await client.request("GET", peer.url)


async def test_a_running_request_survives_a_reload(serve: Serve, connect: Connect, site: Site) -> None:
    arrived, go_on = asyncio.Event(), asyncio.Event()

    async def wait(_request: web.Request) -> web.Response:
        arrived.set()
        await go_on.wait()
        return web.Response(text="done")

    peer = await serve(wait, site.server())
    tls = site.client()
    running = asyncio.create_task(connect(tls).request("GET", peer.url))
    await arrived.wait()

    site.publish()
    assert tls.reload_if_changed()
    go_on.set()

    assert (await running).body == b"done"


async def test_silence_ends_with_a_transport_error(serve: Serve, connect: Connect) -> None:
    never = asyncio.Event()

    async def hang(_request: web.Request) -> web.Response:
        await never.wait()
        return web.Response()

    peer = await serve(hang, None)

    with pytest.raises(TransportError, match="no answer in time"):
        await connect(None).request("GET", peer.url, timeout_s=0.05)


async def test_nobody_listening_is_a_transport_error(unused_tcp_port: int, connect: Connect) -> None:
    with pytest.raises(TransportError, match="Check that the peer runs"):
        await connect(None).request("GET", f"http://127.0.0.1:{unused_tcp_port}/")


async def test_a_refused_connection_is_told_in_plain_words(unused_tcp_port: int, connect: Connect, site: Site) -> None:
    with pytest.raises(TransportError) as told:
        await connect(site.client()).request("GET", f"https://127.0.0.1:{unused_tcp_port}/")

    assert str(told.value) == (f"GET https://127.0.0.1:{unused_tcp_port}/: Connection refused. Check that the peer runs and listens there.")


async def test_lost_answers_are_asked_for_again_up_to_the_limit(serve: Serve, connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_client, "RETRY_BASE_S", 0.001)
    failures = 2

    async def flaky(request: web.Request) -> web.Response:
        nonlocal failures
        if failures > 0:
            failures -= 1
            assert request.transport is not None
            request.transport.close()
        return web.Response(text="at last")

    peer = await serve(flaky, None)
    client = connect(None)

    with pytest.raises(TransportError):
        await client.request("POST", peer.url)
    assert (await client.request("POST", peer.url, retries=1)).body == b"at last"
    assert peer.requests == 3


async def test_redirects_are_answers_not_followed(serve: Serve, connect: Connect) -> None:
    async def elsewhere(_request: web.Request) -> web.Response:
        raise web.HTTPFound("http://127.0.0.1:1/")

    peer = await serve(elsewhere, None)

    assert (await connect(None).request("GET", peer.url)).status == 302


async def test_an_answer_above_the_limit_is_refused(serve: Serve, connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_client, "MAX_BODY_BYTES", 1000)

    async def big(_request: web.Request) -> web.Response:
        return web.Response(body=b"x" * 1001)

    peer = await serve(big, None)

    with pytest.raises(TransportError, match="larger than 1000 bytes"):
        await connect(None).request("GET", peer.url)


def test_a_body_that_is_not_json_is_a_transport_error() -> None:
    with pytest.raises(TransportError, match="status 200 is not JSON"):
        HttpResponse(200, b"<html>").json()


async def test_a_stream_yields_lines_as_they_come(serve: Serve, connect: Connect, site: Site) -> None:
    taken = asyncio.Event()

    async def events(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(status=201)
        await response.prepare(request)
        await response.write(b"data: 1\n")
        await taken.wait()
        await response.write(b"data: 2\n")
        return response

    peer = await serve(events, site.server())
    lines: list[bytes] = []
    statuses: list[int] = []
    async for line in connect(site.client()).stream("GET", peer.url, on_answer=statuses.append, expect_sans=["mindie-server.mindie"]):
        lines.append(line)
        taken.set()

    assert lines == [b"data: 1\n", b"data: 2\n"]
    assert statuses == [201]


async def test_a_stream_from_a_peer_that_gets_revoked_ends(serve: Serve, connect: Connect, site: Site) -> None:
    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for number in range(1_000_000):
            await response.write(json.dumps(number).encode() + b"\n")
        return response

    peer = await serve(endless, site.server())
    tls = site.client()

    async def read_all() -> None:
        first = True
        async for _line in connect(tls).stream("GET", peer.url):
            if first:
                first = False
                publish_crl(site.client_dir, site.authority, [site.server_leaf])
                assert tls.reload_if_changed()

    with pytest.raises(PeerRefusedError, match="certificate revoked"):
        await read_all()


async def test_a_silent_stream_ends_with_a_transport_error(serve: Serve, connect: Connect) -> None:
    never = asyncio.Event()

    async def stalls(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"one\n")
        await never.wait()
        return response

    peer = await serve(stalls, None)
    seen: list[bytes] = []

    async def read_all() -> None:
        async for line in connect(None).stream("GET", peer.url, idle_timeout_s=0.1):
            seen.append(line)

    with pytest.raises(TransportError, match="no answer in time"):
        await read_all()

    assert seen == [b"one\n"]
