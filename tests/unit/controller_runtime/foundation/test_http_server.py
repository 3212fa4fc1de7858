# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator

import pytest
import structlog
from aiohttp import web

from controller_runtime.errors import ConfigError, PeerRefusedError, TransportError
from controller_runtime.foundation.http_client import HttpClient
from controller_runtime.foundation.http_server import HttpServer, peer_identity
from controller_runtime.foundation.metrics import REGISTRY
from controller_runtime.foundation.tls import TlsIdentity
from tests.support.pki import Authority, publish_crl, replace_file, write_identity
from tests.unit.controller_runtime.foundation.conftest import Site


def app() -> web.Application:
    async def who(request: web.Request) -> web.Response:
        return web.json_response(sorted(peer_identity(request)))

    application = web.Application()
    application.router.add_get("/who", who)
    return application


@contextlib.asynccontextmanager
async def link(
    tls: TlsIdentity | None, client_tls: TlsIdentity | None, **options: float
) -> AsyncIterator[tuple[HttpServer, HttpClient, str]]:
    client = HttpClient(client_tls)
    async with HttpServer(app(), "127.0.0.1", 0, tls) as server:
        try:
            yield server, client, f"{'https' if tls else 'http'}://127.0.0.1:{server.port}/who"
        finally:
            await client.close()


class RawLink:
    """One kept-alive TLS connection, without a client library that would hide its end."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def open(cls, port: int, context: ssl.SSLContext) -> RawLink:
        return cls(*await asyncio.open_connection("127.0.0.1", port, ssl=context))

    async def get(self) -> bytes:
        self.writer.write(b"GET /who HTTP/1.1\r\nHost: x\r\n\r\n")
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        return head + await self.reader.readexactly(length)

    async def is_cut(self) -> bool:
        try:
            async with asyncio.timeout(10):
                return await self.reader.read(1) == b""
        except ConnectionError:
            return True

    async def close(self) -> None:
        self.writer.close()
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            await self.writer.wait_closed()


async def test_the_handler_learns_the_names_of_the_peer(site: Site) -> None:
    async with link(site.server(), site.client()) as (_, client, url):
        assert (await client.request("GET", url)).json() == ["ms-controller.mindie"]


async def test_a_plain_link_has_no_identity() -> None:
    async with link(None, None) as (_, client, url):
        assert (await client.request("GET", url)).json() == []


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "0:0:0:0:0:0:0:0", "::ffff:0.0.0.0", "0", "0x0", ""])
def test_an_address_that_means_all_is_refused_in_any_spelling(host: str) -> None:
    with pytest.raises(ConfigError, match="means all addresses"):
        HttpServer(app(), host, 0, None)


async def test_a_taken_port_is_a_configuration_error() -> None:
    async with HttpServer(app(), "127.0.0.1", 0, None) as first:
        second = HttpServer(app(), "127.0.0.1", first.port, None)
        with pytest.raises(ConfigError, match=rf"listener 127\.0\.0\.1:{first.port}: Address already in use"):
            await second.start()


async def test_a_stopped_server_refuses_connections(site: Site) -> None:
    async with link(site.server(), site.client()) as (server, client, url):
        await client.request("GET", url)
        await server.stop()

        with pytest.raises(TransportError):
            await client.request("GET", url)


async def test_strangers_of_the_same_ca_get_403(site: Site) -> None:
    async with HttpServer(app(), "127.0.0.1", 0, site.server(), allow_sans=["probe.*", "ms-coordinator.mindie"]) as server:
        client = HttpClient(site.client())
        with structlog.testing.capture_logs() as logs:
            answer = await client.request("GET", f"https://127.0.0.1:{server.port}/who")
        await client.close()

    assert answer.status == 403
    assert [(line["event"], line["sans"]) for line in logs if line["log_level"] == "warning"] == [
        ("peer not allowed here", frozenset({"ms-controller.mindie"}))
    ]


async def test_a_refused_client_leaves_its_address_and_the_reason_in_the_log_once(site: Site) -> None:
    publish_crl(site.server_dir, site.authority, [site.client_leaf])
    before = REGISTRY.get_sample_value("tls_handshakes_refused_total", {"identity": "server", "reason": "certificate revoked"}) or 0
    async with link(site.server(), site.client()) as (_, client, url):
        with structlog.testing.capture_logs() as logs:
            for _ in range(3):
                with pytest.raises(TransportError):
                    await client.request("GET", url)

    refusals = [line for line in logs if line["event"] == "tls peer refused"]
    assert [(line["peer"], line["reason"], line["identity"]) for line in refusals] == [("127.0.0.1", "certificate revoked", "server")]
    after = REGISTRY.get_sample_value("tls_handshakes_refused_total", {"identity": "server", "reason": "certificate revoked"})
    assert after is not None
    assert after >= before + 3


async def test_a_reload_cuts_the_revoked_peer_at_once_and_keeps_the_others(site: Site, tmp_path_factory: pytest.TempPathFactory) -> None:
    tls = site.server()
    good_leaf = site.authority.issue("good", sans=["good.mindie"])
    good_dir = write_identity(tmp_path_factory.mktemp("good"), site.authority, good_leaf)
    good_context = TlsIdentity(site.client().files.in_directory(good_dir)).client_context()
    async with HttpServer(app(), "127.0.0.1", 0, tls) as server:
        bad = await RawLink.open(server.port, site.client().client_context())
        good = await RawLink.open(server.port, good_context)
        assert b"ms-controller.mindie" in await bad.get()
        assert b"good.mindie" in await good.get()

        publish_crl(site.server_dir, site.authority, [site.client_leaf])
        with structlog.testing.capture_logs() as logs:
            assert tls.reload_if_changed()

        assert await bad.is_cut()
        assert b"good.mindie" in await good.get()
        cut = [line for line in logs if line["event"] == "link of refused peer cut"]
        assert [(line["peer"], line["reason"]) for line in cut] == [
            ("127.0.0.1", f"certificate revoked (serial {site.client_leaf.serial:x})")
        ]
        await bad.close()
        await good.close()


async def test_a_reload_that_drops_a_ca_cuts_its_peers(site: Site) -> None:
    old = Authority("pd-old")
    leaf = old.issue("client", sans=["old.mindie"])
    write_identity(site.client_dir, old, leaf)
    for directory in (site.server_dir, site.client_dir):
        replace_file(directory / "ca.crt", site.authority.cert_pem + old.cert_pem)
        replace_file(directory / "crl.pem", site.authority.crl() + old.crl())
    tls = site.server()
    async with HttpServer(app(), "127.0.0.1", 0, tls) as server:
        peer = await RawLink.open(server.port, site.client().client_context())
        await peer.get()

        replace_file(site.server_dir / "ca.crt", site.authority.cert_pem)
        replace_file(site.server_dir / "crl.pem", site.authority.crl())
        assert tls.reload_if_changed()

        assert await peer.is_cut()
        await peer.close()


async def test_a_revoked_server_certificate_can_be_replaced_without_restart(site: Site) -> None:
    tls = site.server()
    async with link(tls, site.client()) as (_, _, url):
        site.publish(site.server_leaf)
        strict = HttpClient(site.client())
        with pytest.raises(PeerRefusedError, match="certificate revoked"):
            await strict.request("GET", url)

        replacement = site.authority.issue("server", sans=["mindie-server.mindie"])
        write_identity(site.server_dir, site.authority, replacement, revoked=[site.server_leaf])
        assert tls.reload_if_changed()

        assert (await strict.request("GET", url)).status == 200
        await strict.close()


async def test_an_old_link_closes_with_its_next_answer(site: Site) -> None:
    async with HttpServer(app(), "127.0.0.1", 0, site.server(), max_link_age_s=0) as server:
        peer = await RawLink.open(server.port, site.client().client_context())
        assert b"connection: close" not in (await peer.get()).lower()
        assert b"connection: close" in (await peer.get()).lower()
        assert await peer.is_cut()
        await peer.close()


async def test_a_peer_that_never_shakes_hands_does_not_block_others(site: Site) -> None:
    async with link(site.server(), site.client()) as (server, client, url):
        _, silent = await asyncio.open_connection("127.0.0.1", server.port)

        assert (await client.request("GET", url)).status == 200
        silent.close()
        await silent.wait_closed()


async def test_answers_do_not_name_library_or_version(site: Site) -> None:
    async with link(site.server(), site.client()) as (_, client, url):
        assert "server" not in (await client.request("GET", url)).headers


async def test_stop_ends_the_subscription_to_reloads(site: Site) -> None:
    tls = site.server()
    server = HttpServer(app(), "127.0.0.1", 0, tls)
    await server.start()
    await server.stop()
    site.publish()

    assert tls.reload_if_changed()


async def test_a_peer_that_never_speaks_is_hung_up_on(site: Site) -> None:
    async with HttpServer(app(), "127.0.0.1", 0, site.server(), handshake_timeout_s=0.2) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        async with asyncio.timeout(10.0):
            with contextlib.suppress(ConnectionResetError):
                assert await reader.read() == b""
        writer.close()
