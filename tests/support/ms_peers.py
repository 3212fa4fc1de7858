# SPDX-License-Identifier: Apache-2.0
"""Servers and Coordinators inside the test, on real sockets with real mutual TLS, answering what the test tells them to."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

from controller_runtime.foundation.http_client import HttpClient
from controller_runtime.foundation.http_server import HttpServer
from controller_runtime.foundation.tls import TlsFiles, TlsIdentity
from tests.support.pki import Authority, write_identity

GOOD_CONFIG = {"maxSeqLen": 2560, "maxOutputLen": 512, "cacheBlockSize": 128, "modelName": "m"}


def status_reply(role: str = "none", state: str = "RoleUnknown", ok: tuple[int, ...] = (), **resource: Any) -> dict[str, Any]:
    return {
        "service": {"roleStatus": state, "currentRole": role},
        "resource": {"availSlotsNum": 200, "availBlockNum": 1024} | resource,
        "linkStatus": {"peers": [{"target": peer, "link": "ok"} for peer in ok]},
    }


@dataclass
class Peer:
    """One listener. `replies` maps a path to (status, body) or to a list of them, the last one repeating.

    `requests` holds every (method, path, body). While `gate` is clear nothing is answered.
    """

    ip: str
    port: int = 0
    replies: dict[str, Any] = field(default_factory=dict)
    requests: list[tuple[str, str, bytes]] = field(default_factory=list)
    connections: set[object] = field(default_factory=set)
    gate: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.gate.set()

    def app(self) -> web.Application:
        app = web.Application(client_max_size=1 << 26)
        app.router.add_route("*", "/{tail:.*}", self._answer)
        return app

    def bodies(self, path: str) -> list[Any]:
        """Parsed bodies of the requests to this path."""
        return [json.loads(body) for _, seen, body in self.requests if seen == path]

    def count(self, path: str) -> int:
        return sum(seen == path for _, seen, _ in self.requests)

    async def _answer(self, request: web.Request) -> web.Response:
        self.connections.add(request.transport)
        self.requests.append((request.method, request.path, await request.read()))
        await self.gate.wait()
        planned = self.replies.get(request.path, (404, {}))
        if isinstance(planned, list):
            planned = planned.pop(0) if len(planned) > 1 else planned[0]
        code, body = planned
        return web.Response(status=code, body=body if isinstance(body, bytes) else json.dumps(body).encode())


class PeerPark:
    """Makes peers and clients of one certificate authority."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._authority = Authority("pd")
        self._addresses: Iterator[int] = iter(range(2, 250))
        self._opened: list[HttpServer] = []
        self._clients: list[HttpClient] = []

    def identity(self, name: str) -> TlsIdentity:
        directory = self._directory / name
        if not directory.exists():
            write_identity(directory, self._authority, self._authority.issue(name, sans=[f"{name}.mindie"]))
        return TlsIdentity(TlsFiles.in_directory(directory))

    def renew(self, name: str) -> None:
        """Give an identity a new certificate, as a renewed Secret does."""
        write_identity(self._directory / name, self._authority, self._authority.issue(name, sans=[f"{name}.mindie"]))

    async def peer(self, identity: str = "mindie-server", port: int = 0, **replies: Any) -> Peer:
        """A listener on its own loopback address; keyword `a__b` stands for the path `/a/b`."""
        peer = Peer(ip=f"127.0.7.{next(self._addresses)}", replies={"/" + key.replace("__", "/"): value for key, value in replies.items()})
        server = HttpServer(peer.app(), peer.ip, port, self.identity(identity), shutdown_s=0.1)
        await server.start()
        peer.port = server.port
        self._opened.append(server)
        return peer

    def client(self, identity: str, timeout_s: float = 2.0, retries: int = 0) -> tuple[HttpClient, TlsIdentity]:
        tls = self.identity(identity)
        client = HttpClient(tls, timeout_s, retries)
        self._clients.append(client)
        return client, tls

    async def close(self) -> None:
        for client in self._clients:
            await client.close()
        for server in self._opened:
            await server.stop()


@asynccontextmanager
async def running(work: Any) -> AsyncIterator[asyncio.Task[None]]:
    """Run a never-ending coroutine while the block lasts."""
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
