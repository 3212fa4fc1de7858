# SPDX-License-Identifier: Apache-2.0
"""HTTP to one API server: credentials, TLS, rate limit, load shedding, error mapping.

Invariants: every request passes the limiter and has a timeout; a 401 makes the credentials be read again, once; a server
that sheds load is obeyed (`Retry-After`) a bounded number of times. Nothing else is retried here: the work queue and the
reflector do that.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import aiohttp
import orjson
from aiohttp.abc import AbstractStreamWriter
from prometheus_client import Counter, Histogram

from controller_runtime.errors import PeerRefusedError, TransportError
from controller_runtime.foundation.metrics import REGISTRY
from controller_runtime.kube.config import KubeConfig, ssl_context
from controller_runtime.kube.credentials import Credential
from controller_runtime.kube.errors import api_error
from controller_runtime.kube.rate_limit import Limiter

JSON = "application/json"
CONNECT_TIMEOUT_S = 10.0
SHED_RETRIES = 5
DEFAULT_RETRY_AFTER_S = 1.0
MAX_RETRY_AFTER_S = 30.0

NO_ANSWER = "<error>"
"""Value of the label `code` for a request that got no answer, as the Go client libraries write it."""

REQUESTS = Counter("rest_client_requests_total", "Requests by answer of the API server.", ["code", "method", "host"], registry=REGISTRY)
LATENCY = Histogram("rest_client_request_duration_seconds", "Time to the first byte of an answer.", ["verb", "host"], registry=REGISTRY)

Check: TypeAlias = Callable[[], None]


class _CheckedBody(aiohttp.BytesPayload):
    """Is checked once more when it is its turn: a process may be frozen while a request waits for its connection."""

    def __init__(self, content: bytes, check: Check) -> None:
        super().__init__(content)
        self._check = check

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        self._check()
        await super().write_with_length(writer, content_length)


class Transport:
    """Calls to `config.server`. Create it in the event loop that uses it, `close` it at the end."""

    def __init__(self, config: KubeConfig, limiter: Limiter, *, user_agent: str, timeout_s: float, stream_idle_s: float) -> None:
        self._config = config
        self._host = urlsplit(config.server).netloc
        self._limiter = limiter
        self._user_agent = user_agent
        self._call_timeout = aiohttp.ClientTimeout(total=timeout_s, sock_connect=CONNECT_TIMEOUT_S)
        self._stream_timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S, sock_read=stream_idle_s)
        self._open_session: aiohttp.ClientSession | None = None
        self._tls: tuple[tuple[str | None, str | None], ssl.SSLContext] | None = None

    async def call(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: object | None = None,
        content_type: str = JSON,
        check: Check | None = None,
    ) -> Any:
        """Make one request and return the decoded JSON answer. `check` is called each time before it is sent, and raises to stop it.

        Raises:
            ApiError: the server refused; the class says why.
            TransportError: no usable answer.
        """
        data = None if body is None else orjson.dumps(body)
        response = await self._send(method, path, params, data, content_type, self._call_timeout, check)
        with self._network(method, path):
            raw = await response.read()
        try:
            return orjson.loads(raw)
        except orjson.JSONDecodeError as err:
            raise TransportError(f"{method} {self._config.server}{path}: the answer is not JSON. Check what listens there.") from err

    @asynccontextmanager
    async def stream(self, path: str, params: Mapping[str, str]) -> AsyncIterator[AsyncGenerator[list[bytes], None]]:
        """Open a GET that does not end and yield batches of complete lines, as they arrive."""
        response = await self._send("GET", path, params, None, JSON, self._stream_timeout)
        try:
            yield self._lines(response, path)
        finally:
            self._abort(response)

    async def close(self) -> None:
        """Close every connection."""
        if self._open_session is not None:
            await self._open_session.close()
            self._open_session = None

    async def _lines(self, response: aiohttp.ClientResponse, path: str) -> AsyncGenerator[list[bytes], None]:
        rest: list[bytes] = []
        with self._network("GET", path):
            async for chunk in response.content.iter_any():
                head, newline, tail = chunk.rpartition(b"\n")
                if not newline:
                    rest.append(tail)
                    continue
                rest.append(head)
                yield b"".join(rest).split(b"\n")
                rest = [tail]

    async def _send(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None,
        data: bytes | None,
        content_type: str,
        timeout: aiohttp.ClientTimeout,
        check: Check | None = None,
    ) -> aiohttp.ClientResponse:
        was_refused, sheds = False, 0
        while True:
            credential = await self._config.credentials.current()
            await self._limiter.acquire()
            if check is not None:
                check()
            body = data if data is None or check is None else _CheckedBody(data, check)
            response = await self._request(method, path, params, body, content_type, timeout, credential)
            if response.status < 400:
                return response
            with self._network(method, path):
                answer = await response.read()
            error = api_error(f"{method} {path}", response.status, answer, response.headers.get("Retry-After"))
            if response.status == 401 and not was_refused:
                was_refused = True
                self._config.credentials.refused(credential)
            elif self._is_shedding(response) and sheds < SHED_RETRIES:
                sheds += 1
                await asyncio.sleep(min(error.retry_after_s or DEFAULT_RETRY_AFTER_S, MAX_RETRY_AFTER_S))
            else:
                raise error

    async def _request(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None,
        data: bytes | aiohttp.BytesPayload | None,
        content_type: str,
        timeout: aiohttp.ClientTimeout,
        credential: Credential,
    ) -> aiohttp.ClientResponse:
        headers = {"Content-Type": content_type} if data is not None else {}
        if credential.token:
            headers["Authorization"] = f"Bearer {credential.token}"
        started = time.monotonic()
        try:
            with self._network(method, path):
                response = await self._session().request(
                    method,
                    self._config.server + path,
                    params=params,
                    data=data,
                    headers=headers,
                    timeout=timeout,
                    ssl=self._context(credential),
                    server_hostname=self._config.tls_server_name,
                    allow_redirects=False,
                )
        except TransportError:
            REQUESTS.labels(NO_ANSWER, method, self._host).inc()
            raise
        LATENCY.labels(method, self._host).observe(time.monotonic() - started)
        REQUESTS.labels(str(response.status), method, self._host).inc()
        return response

    @staticmethod
    def _abort(response: aiohttp.ClientResponse) -> None:
        """Drop the connection without TLS's goodbye: a peer that fell silent would let it linger after `close`."""
        if response.connection is not None and response.connection.transport is not None:
            response.connection.transport.abort()
        response.close()

    def _network(self, method: str, path: str) -> _NetworkErrors:
        return _NetworkErrors(f"{method} {self._config.server}{path}")

    @staticmethod
    def _is_shedding(response: aiohttp.ClientResponse) -> bool:
        return response.status == 429 or (response.status >= 500 and "Retry-After" in response.headers)

    def _context(self, credential: Credential) -> ssl.SSLContext:
        shown = (credential.certificate_pem, credential.key_pem)
        if self._tls is None or self._tls[0] != shown:
            self._tls = (shown, ssl_context(self._config.ca_pem, credential))
        return self._tls[1]

    def _session(self) -> aiohttp.ClientSession:
        if self._open_session is None:
            self._open_session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),
                headers={"Accept": JSON, "Accept-Encoding": "identity", "User-Agent": self._user_agent},
            )
        return self._open_session


class _NetworkErrors:
    """Turns what goes wrong below HTTP into our tree; `call` names the request."""

    def __init__(self, call: str) -> None:
        self._call = call

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, err: BaseException | None, trace: object) -> None:
        if isinstance(err, (aiohttp.ClientSSLError, ssl.SSLError)):
            raise PeerRefusedError(f"{self._call}: TLS failed ({err}). Check the certificate authority of the kubeconfig.") from err
        if isinstance(err, aiohttp.ClientConnectorError):
            raise TransportError(f"{self._call}: cannot connect ({err.os_error.strerror or err.os_error}).") from err
        if isinstance(err, TimeoutError):
            raise TransportError(f"{self._call}: no answer in time.") from err
        if isinstance(err, (aiohttp.ClientError, OSError)):
            raise TransportError(f"{self._call}: {str(err) or type(err).__name__}.") from err
