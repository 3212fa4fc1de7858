# SPDX-License-Identifier: Apache-2.0
"""An aiohttp application on one address, behind mutual TLS that follows reloads.

Invariants
- It never listens on all addresses: every network of the pod could reach it. The parsed address counts, not the text.
- After a TLS reload links of peers that are revoked, expired or of a CA no longer trusted are cut at once.
- A link older than `max_link_age_s` closes with its next answer, so that no peer outlives its certificate for long.
- Answers do not tell which library and version serves.
Seed: controller manual, `http_server` and `alarm` links; all-zero addresses.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import time
from collections.abc import Awaitable, Callable, Collection
from typing import Any, Self
from weakref import WeakKeyDictionary

from aiohttp import web

from controller_runtime.errors import ConfigError
from controller_runtime.foundation.log import get_logger
from controller_runtime.foundation.tls import TlsIdentity
from controller_runtime.foundation.tls_handshake import accepted_from, is_allowed, peer_sans

LINK_IDLE_S = 75.0
HANDSHAKE_TIMEOUT_S = 10.0
BACKLOG = 512

log = get_logger(__name__)


def peer_identity(request: web.Request) -> frozenset[str]:
    """Return the DNS names in the certificate of whoever sent this request; empty on a plain link."""
    return frozenset() if request.transport is None else peer_sans(request.transport)


class HttpServer:
    """Serves `app` between `start` and `stop`.

    `port` 0 takes a free one; the attribute holds the real one after `start`. `tls` None serves plain http. `allow_sans`:
    peers without one of these DNS names (patterns allowed) get 403 and a log line. `shutdown_s` bounds how long `stop` waits
    for running requests, `handshake_timeout_s` how long a peer may take over its handshake.

    Raises (constructor):
        ConfigError: `host` stands for all addresses or cannot be resolved.
    """

    def __init__(
        self,
        app: web.Application,
        host: str,
        port: int,
        tls: TlsIdentity | None,
        allow_sans: Collection[str] | None = None,
        *,
        max_link_age_s: float = 600.0,
        shutdown_s: float = 5.0,
        handshake_timeout_s: float = HANDSHAKE_TIMEOUT_S,
    ) -> None:
        self._family, self._host = _one_address(host)
        self.port = port
        self._tls = tls
        self._allow_sans = None if allow_sans is None else frozenset(allow_sans)
        self._max_link_age_s = max_link_age_s
        self._handshake_timeout_s = handshake_timeout_s
        self._server: asyncio.Server | None = None
        self._first_answer: WeakKeyDictionary[asyncio.Transport, float] = WeakKeyDictionary()
        if self._allow_sans is not None:
            app.middlewares.insert(0, self._refuse_strangers)
        app.on_response_prepare.append(self._prepare_answer)
        self._runner = web.AppRunner(app, access_log=None, keepalive_timeout=LINK_IDLE_S, shutdown_timeout=shutdown_s)
        self._forget: Callable[[], None] = _nothing

    async def start(self) -> None:
        """Bind and serve.

        Raises:
            ConfigError: the address is taken or not ours.
        """
        await self._runner.setup()
        listener = _Listener(self._family, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((self._host, self.port))
            listener.setblocking(False)
        except OSError as error:
            listener.close()
            await self._runner.cleanup()
            raise ConfigError(
                f"listener {self._host}:{self.port}: {error.strerror}. Use a free port on an address of this host."
            ) from error
        context = None if self._tls is None else self._tls.server_context
        self._server = await asyncio.get_running_loop().create_server(
            _protocol_of(self._runner),
            sock=listener,
            ssl=context,
            backlog=BACKLOG,
            ssl_handshake_timeout=None if context is None else self._handshake_timeout_s,
        )
        self.port = listener.getsockname()[1]
        if self._tls is not None:
            self._forget = self._tls.on_change(self._cut_refused)
        log.info("listening", host=self._host, port=self.port, tls=self._tls is not None)

    async def stop(self) -> None:
        """Stop listening, let running requests end, close every link."""
        self._forget()
        self._forget = _nothing
        if self._server is not None:
            self._server.close()
        await self._runner.cleanup()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.stop()

    def _cut_refused(self) -> None:
        if self._tls is None or self._runner.server is None:
            return
        for handler in self._runner.server.connections:
            transport = handler.transport
            if transport is None:
                continue
            reason = self._tls.refusal_of(transport.get_extra_info("ssl_object"))
            if reason is not None:
                log.warning("link of refused peer cut", peer=_address(transport.get_extra_info("peername")), reason=reason)
                transport.abort()

    @web.middleware
    async def _refuse_strangers(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        sans = peer_identity(request)
        if self._allow_sans is not None and not is_allowed(sans, self._allow_sans):
            log.warning("peer not allowed here", peer=request.remote, sans=sans, path=request.path)
            raise web.HTTPForbidden(text="this listener does not serve your identity")
        return await handler(request)

    async def _prepare_answer(self, request: web.Request, response: web.StreamResponse) -> None:
        response.headers.pop("Server", None)
        if request.transport is None:
            return
        now = time.monotonic()
        if now - self._first_answer.setdefault(request.transport, now) > self._max_link_age_s:
            response.headers["Connection"] = "close"
            response.force_close()


class _Listener(socket.socket):
    """A listening socket that tells the task serving a new connection where it came from.

    asyncio knows the peer's address only after the handshake; a refusal in the handshake must name it as well.
    """

    def accept(self) -> tuple[socket.socket, Any]:
        connection, address = super().accept()
        accepted_from.set(_address(address))
        return connection, address


def _one_address(host: str) -> tuple[socket.AddressFamily, str]:
    if not host:
        raise ConfigError("listener address: is empty, which means all addresses. Use $(POD_IP) or a loopback address.")
    try:
        family, _, _, _, address = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise ConfigError(f"listener address {host!r}: cannot be resolved ({error}). Use $(POD_IP) or a loopback address.") from error
    numeric = str(address[0])
    parsed = ipaddress.ip_address(numeric.partition("%")[0])
    mapped = parsed.ipv4_mapped if isinstance(parsed, ipaddress.IPv6Address) else None
    if (mapped or parsed).is_unspecified:
        raise ConfigError(f"listener address {host!r}: means all addresses. Use $(POD_IP) or a loopback address.")
    return family, numeric


def _protocol_of(runner: web.AppRunner) -> web.Server:
    if runner.server is None:
        raise RuntimeError("the runner is not set up")
    return runner.server


def _address(peername: Any) -> str:
    return str(peername[0]) if isinstance(peername, tuple) and peername else "unknown"


def _nothing() -> None:
    return None
