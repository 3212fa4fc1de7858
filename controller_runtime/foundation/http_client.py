# SPDX-License-Identifier: Apache-2.0
"""HTTP to one kind of peer: mutual TLS, kept-alive links, bounded time and size, one error per cause.

Any HTTP status is an answer. `PeerRefusedError` means the peer is not who it must be, or says we are not; `TransportError`
means no usable answer. Peers are dialled by address, so the name check is `expect_sans`, made before a byte is sent.
After a TLS reload new requests use new links; running ones may finish unless their peer is refused by the new files.
Seed: controller manual, `request_server`, `request_coordinator`, `ccae` and `external_coordinator` links.
"""

from __future__ import annotations

import asyncio
import math
import os
import ssl
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import aiohttp
import orjson

from controller_runtime.errors import PeerRefusedError, TransportError
from controller_runtime.foundation.backoff import Backoff
from controller_runtime.foundation.tls import TlsIdentity
from controller_runtime.foundation.tls_handshake import reason_of

MAX_BODY_BYTES = 64 * 1024 * 1024
LINK_IDLE_S = 30.0
"""Shorter than the 75 s after which our servers close an idle link, so that the two do not race."""
RETRY_BASE_S, RETRY_CAP_S = 0.05, 2.0
SHORTEST_TRY_S = 0.001


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """A complete answer. `headers` has lower-case names."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)

    def json(self) -> object:
        """Parse the body.

        Raises:
            TransportError: the body is not JSON.
        """
        try:
            parsed: object = orjson.loads(self.body)
        except orjson.JSONDecodeError as error:
            raise TransportError(f"answer with status {self.status} is not JSON: {error}. Check what listens there.") from error
        return parsed


class HttpClient:
    """One link kind: one identity, one timeout, one retry count. Many peers. Create and use it inside the event loop.

    `tls` None allows plain http only. `retries`: how often a request without an answer is sent again (a refused peer never).
    """

    def __init__(self, tls: TlsIdentity | None, timeout_s: float = 5.0, retries: int = 0) -> None:
        self._tls = tls
        self._timeout_s = timeout_s
        self._retries = retries
        self._pool: _Pool | None = None
        self._retired: set[_Pool] = set()
        self._forget = tls.on_change(self._renew_links) if tls else _nothing
        self._closing: set[asyncio.Task[None]] = set()

    async def request(
        self,
        method: str,
        url: str,
        *,
        json: object | None = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        expect_sans: Collection[str] | None = None,
        timeout_s: float | None = None,
        retries: int | None = None,
        within_s: float | None = None,
    ) -> HttpResponse:
        """Send one request and return the whole answer, whatever its status.

        `json` or `body` is the content. `expect_sans`: the peer's certificate must carry one of these DNS names (patterns
        allowed). `timeout_s` bounds one try from connect to the last byte, `within_s` all of them with the pauses between. A
        cancellation from outside cannot do that: one that meets the end of a try is taken for that end.

        Raises:
            PeerRefusedError: TLS failed or the peer is somebody else; not tried again.
            TransportError: no connection, no answer in time, cut off, or more than `MAX_BODY_BYTES`.
        """
        tries = 1 + (self._retries if retries is None else retries)
        longest_s = self._timeout_s if timeout_s is None else timeout_s
        loop = asyncio.get_running_loop()
        end = loop.time() + (math.inf if within_s is None else within_s)
        backoff = Backoff(RETRY_BASE_S, RETRY_CAP_S)
        while True:
            tries -= 1
            limit = aiohttp.ClientTimeout(total=min(longest_s, max(end - loop.time(), SHORTEST_TRY_S)))
            try:
                async with self._exchange(method, url, json, body, headers, expect_sans, limit) as answer:
                    return HttpResponse(answer.status, await _whole_body(answer, url), _plain_headers(answer))
            except PeerRefusedError:
                raise
            except TransportError:
                pause_s = backoff.next_s()
                if tries <= 0 or loop.time() + pause_s >= end:
                    raise
            await asyncio.sleep(pause_s)

    async def stream(
        self,
        method: str,
        url: str,
        *,
        json: object | None = None,
        headers: Mapping[str, str] | None = None,
        expect_sans: Collection[str] | None = None,
        idle_timeout_s: float | None = None,
        on_answer: Callable[[int], None] | None = None,
    ) -> AsyncIterator[bytes]:
        """Yield the body of one answer line by line (with line ends), for event streams. Never tried again.

        `idle_timeout_s` (default: the client's timeout) bounds connect and each silence, not the whole. `on_answer` is called
        with the status before the first line. Errors as for `request`; a peer refused by newly loaded TLS files ends it.
        """
        idle_s = self._timeout_s if idle_timeout_s is None else idle_timeout_s
        limit = aiohttp.ClientTimeout(total=None, connect=idle_s, sock_read=idle_s)
        async with self._exchange(method, url, json, None, headers, expect_sans, limit) as answer:
            if on_answer is not None:
                on_answer(answer.status)
            generation = self._tls.generation if self._tls else 0
            async for line in answer.content:
                if self._tls is not None and self._tls.generation != generation:
                    generation = self._tls.generation
                    _stay_or_raise(self._tls, answer, url)
                yield line

    async def close(self) -> None:
        """Close every link. Requests still running fail with `TransportError`."""
        self._forget()
        pools = [pool for pool in (self._pool, *self._retired) if pool is not None]
        self._pool = None
        self._retired.clear()
        for pool in pools:
            await pool.session.close()
        if self._closing:
            await asyncio.wait(self._closing)

    @asynccontextmanager
    async def _exchange(
        self,
        method: str,
        url: str,
        json: object | None,
        body: bytes | None,
        headers: Mapping[str, str] | None,
        expect_sans: Collection[str] | None,
        limit: aiohttp.ClientTimeout,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        sent = dict(headers or {})
        if json is not None:
            body = orjson.dumps(json)
            sent.setdefault("Content-Type", "application/json")
        with self._borrowed_pool() as pool:
            context = self._tls.client_context(expect_sans=expect_sans) if self._tls else False
            try:
                async with pool.session.request(
                    method, url, data=body, headers=sent, timeout=limit, ssl=context, allow_redirects=False
                ) as answer:
                    yield answer
            except TimeoutError as error:
                raise TransportError(f"{method} {url}: no answer in time. Check that the peer runs and is not overloaded.") from error
            except (aiohttp.ClientError, ssl.SSLError, OSError) as error:
                raise _translated(method, url, error) from error

    def _borrowed_pool(self) -> _Pool:
        if self._pool is None:
            self._pool = _Pool(self._on_unused)
        return self._pool

    def _renew_links(self) -> None:
        if self._pool is None:
            return
        old, self._pool = self._pool, None
        self._retired.add(old)
        if old.in_use == 0:
            self._on_unused(old)

    def _on_unused(self, pool: _Pool) -> None:
        if pool in self._retired:
            self._retired.discard(pool)
            task = asyncio.get_running_loop().create_task(pool.session.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)


class _Pool:
    """Links of one TLS generation; a context manager that counts its users."""

    def __init__(self, on_unused: Callable[[_Pool], None]) -> None:
        self.session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=LINK_IDLE_S, ssl=False),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
        )
        self.in_use = 0
        self._on_unused = on_unused

    def __enter__(self) -> _Pool:
        self.in_use += 1
        return self

    def __exit__(self, *_exc: object) -> None:
        self.in_use -= 1
        if self.in_use == 0:
            self._on_unused(self)


async def _whole_body(answer: aiohttp.ClientResponse, url: str) -> bytes:
    chunks: list[bytes] = []
    size = 0
    async for chunk in answer.content.iter_any():
        size += len(chunk)
        if size > MAX_BODY_BYTES:
            answer.close()
            raise TransportError(f"{url}: answer is larger than {MAX_BODY_BYTES} bytes. Check what listens there.")
        chunks.append(chunk)
    return b"".join(chunks)


def _plain_headers(answer: aiohttp.ClientResponse) -> dict[str, str]:
    return {name.lower(): value for name, value in answer.headers.items()}


def _stay_or_raise(tls: TlsIdentity, answer: aiohttp.ClientResponse, url: str) -> None:
    transport = answer.connection.transport if answer.connection else None
    reason = tls.refusal_of(transport.get_extra_info("ssl_object") if transport else None)
    if reason is not None:
        answer.close()
        raise PeerRefusedError(f"{url}: {reason}. Give the peer a new certificate.")


def _translated(method: str, url: str, error: Exception) -> TransportError:
    cause = _tls_cause(error)
    if cause is not None:
        return PeerRefusedError(f"{method} {url}: TLS failed: {reason_of(cause)}. Check both certificates and revocation lists.")
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return TransportError(
            f"{method} {url}: closed without an answer. A TLS server does that to a client it refuses: its log names the reason."
        )
    return TransportError(f"{method} {url}: {_words(error)}. Check that the peer runs and listens there.")


def _words(error: Exception) -> str:
    """Say what went wrong; aiohttp's text for a failed connection holds the address of an object in memory."""
    inner = getattr(error, "os_error", None)
    if isinstance(inner, OSError) and inner.errno is not None and inner.errno > 0:
        return os.strerror(inner.errno)
    return str(inner or error) or type(error).__name__


def _tls_cause(error: BaseException | None) -> ssl.SSLError | None:
    """Return OpenSSL's own error; aiohttp wraps it in classes that also derive from `ssl.SSLError` but carry no reason."""
    while error is not None:
        if isinstance(error, ssl.SSLError) and not isinstance(error, aiohttp.ClientError):
            return error
        inner = getattr(error, "certificate_error", None) or getattr(error, "os_error", None)
        error = inner if isinstance(inner, BaseException) else error.__cause__ or error.__context__
    return None


def _nothing() -> None:
    return None
