# SPDX-License-Identifier: Apache-2.0
"""A TLS proxy in front of a real API server, which can refuse requests as an overloaded or failing server would.

It logs in upstream as one user, whatever the client shows, and notes every request. So a test also knows which of several
replicas of one user wrote what, and when.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import aiohttp
from aiohttp import web

from tests.support.control_plane import ControlPlane, free_ports, kubeconfig_bytes

READING = ("GET", "HEAD")
HOP_BY_HOP = {"connection", "content-length", "host", "transfer-encoding", "authorization"}


@dataclass(frozen=True)
class Refusal:
    """An answer that the API server never gave. `passed_on`: it did what was asked first, and the answer was lost."""

    status: int
    retry_after_s: int | None = None
    passed_on: bool = False


@dataclass(frozen=True)
class Seen:
    """One request, when it arrived (monotonic), and what was answered."""

    at_s: float
    method: str
    path: str
    status: int

    @property
    def is_write(self) -> bool:
        """Whether it changes anything but a lease."""
        return self.method not in READING and "/leases" not in self.path


Refuse: TypeAlias = Callable[[str, str], Refusal | None]
"""Called with method and path of each request; None lets it pass."""


@dataclass
class ApiProxy:
    """One proxy. `refuse` may be changed at any time."""

    kubeconfig: Path
    refuse: Refuse = lambda _method, _path: None
    seen: list[Seen] = field(default_factory=list)

    @property
    def writes(self) -> list[Seen]:
        """The writes among the requests, leases left out."""
        return [each for each in self.seen if each.is_write]

    async def answer(self, request: web.Request, upstream: aiohttp.ClientSession, url: str) -> web.StreamResponse:
        """Pass one request on, or refuse it."""
        at_s, body = time.monotonic(), await request.read()
        refusal = self.refuse(request.method, request.path)
        if refusal is not None and not refusal.passed_on:
            return self._note(request, at_s, _refused(refusal))
        async with upstream.request(request.method, url + request.path_qs, data=body or None, headers=_kept(request.headers)) as answer:
            if refusal is not None:
                return self._note(request, at_s, _refused(refusal))
            response = web.StreamResponse(status=answer.status, headers=_kept(answer.headers))
            self._note(request, at_s, response)
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                await response.write(chunk)
            return response

    def _note(self, request: web.Request, at_s: float, response: web.StreamResponse) -> web.StreamResponse:
        self.seen.append(Seen(at_s, request.method, request.path, response.status))
        return response


@contextlib.asynccontextmanager
async def api_proxy(plane: ControlPlane, user: str, kubeconfig: Path) -> AsyncIterator[ApiProxy]:
    """A running proxy that logs in as `user`; `kubeconfig` is written and leads through it."""
    plane.kubeconfig_for(user)
    pki = plane.ca_file.parent
    port = free_ports(1)[0]
    content = kubeconfig_bytes(f"https://127.0.0.1:{port}", plane.ca_file, {"token": "unused"})
    await asyncio.to_thread(kubeconfig.write_bytes, content)
    proxy = ApiProxy(kubeconfig)
    client_side = ssl.create_default_context(cafile=str(plane.ca_file))
    client_side.load_cert_chain(pki / f"{user}.crt", pki / f"{user}.key")
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_side.load_cert_chain(pki / "apiserver.crt", pki / "apiserver.key")
    timeout = aiohttp.ClientTimeout(total=None)
    connector = aiohttp.TCPConnector(limit=0, ssl=client_side)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout, auto_decompress=False) as upstream:

        async def answer(request: web.Request) -> web.StreamResponse:
            with contextlib.suppress(ConnectionResetError, aiohttp.ClientPayloadError):
                return await proxy.answer(request, upstream, plane.url)
            raise asyncio.CancelledError

        app = web.Application(client_max_size=2**24)
        app.router.add_route("*", "/{path:.*}", answer)
        runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port, ssl_context=server_side).start()
        try:
            yield proxy
        finally:
            await runner.cleanup()


def _refused(refusal: Refusal) -> web.Response:
    headers = {} if refusal.retry_after_s is None else {"Retry-After": str(refusal.retry_after_s)}
    reason = {409: "Conflict", 429: "TooManyRequests", 500: "InternalError", 503: "ServiceUnavailable"}[refusal.status]
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": refusal.status, "message": "refused"}
    return web.json_response(status, status=refusal.status, headers=headers)


def _kept(headers: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in headers.items() if key.lower() not in HOP_BY_HOP}
