# SPDX-License-Identifier: Apache-2.0
"""The members of a cluster as one callee: a kept connection to one member, the next member when that one fails.

Invariants: every call ends within its time; a failure that leaves the outcome open moves to the next member only for calls
that may be made twice; a TLS reload closes all connections, so a revoked member or an old certificate is not used on.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from grpclib.client import Channel, UnaryUnaryMethod
from grpclib.const import Status
from grpclib.exceptions import GRPCError, ProtocolError, StreamTerminatedError

from controller_runtime.errors import ConfigError
from controller_runtime.etcd.errors import EtcdUnavailableError, refusal
from controller_runtime.foundation.backoff import Backoff
from controller_runtime.foundation.grpc_link import hang_up, open_channel
from controller_runtime.foundation.tls import TlsIdentity
from controller_runtime.foundation.tls_handshake import reason_of

TRANSPORT_ERRORS = (TimeoutError, StreamTerminatedError, ProtocolError, OSError)
"""The link failed: the outcome of the call is unknown. `ssl.SSLError` and `ConnectionError` are kinds of `OSError`."""
RETRIED_STATUS = (Status.UNAVAILABLE, Status.DEADLINE_EXCEEDED, Status.CANCELLED)
OUTDATED = "revision of auth store is old"
"""Users or roles changed between proposal and application: nothing was done, and the same member may be asked again."""
REQUIRE_LEADER = {"hasleader": "true"}
"""Metadata that makes a member without leader refuse a stream instead of keeping it silent (etcd 3.6, `WithRequireLeader`)."""

Request = TypeVar("Request")
Reply = TypeVar("Reply")
Stub = TypeVar("Stub")


class Endpoints:
    """Connections to `https://host:port` (or `host:port`) members. Create and use it inside the event loop.

    `current`: index of the member in use. `failovers`: how often that changed.

    Raises (constructor):
        ConfigError: no endpoint, or one that is not `host:port`.
    """

    def __init__(self, endpoints: Sequence[str], tls: TlsIdentity) -> None:
        self.addresses = [_address(endpoint) for endpoint in endpoints]
        if not self.addresses:
            raise ConfigError("etcd endpoints: none given. List each member as https://host:port.")
        self.current = 0
        self.failovers = 0
        self._tls = tls
        self._channels: dict[int, Channel] = {}
        self._forget = tls.on_change(self.disconnect)

    def channel(self, index: int) -> Channel:
        """Return the connection to one member, made on first use."""
        if index not in self._channels:
            host, port = self.addresses[index]
            self._channels[index] = open_channel(host, port, self._tls.client_context(["h2"], check_hostname=True))
        return self._channels[index]

    def failed(self, index: int) -> None:
        """Drop the connection to a member (all its streams end) and go on with the next one."""
        channel = self._channels.pop(index, None)
        if channel is not None:
            hang_up(channel)
        if index == self.current:
            self.current = (index + 1) % len(self.addresses)
            self.failovers += 1

    def disconnect(self) -> None:
        """Close all connections; the next call connects anew, streams resume by themselves."""
        channels, self._channels = self._channels, {}
        for channel in channels.values():
            hang_up(channel)

    async def close(self) -> None:
        """End for good; the sockets are closed on return."""
        self._forget()
        self.disconnect()
        await asyncio.sleep(0)

    async def call(
        self,
        stub: Callable[[Channel], Stub],
        method: Callable[[Stub], UnaryUnaryMethod[Request, Reply]],
        request: Request,
        *,
        timeout_s: float,
        repeatable: bool = True,
        member: int | None = None,
    ) -> Reply:
        """Make one unary call within `timeout_s`, over the members in turn (or only `member`).

        `repeatable` False: stop at the first failure that leaves the outcome open.

        Raises:
            EtcdUnavailableError: no member answered in time.
            EtcdError: etcd's refusal, by its class.
        """
        name = type(request).__name__.removesuffix("Request")
        end = time.monotonic() + timeout_s
        try_s = one_try_s(timeout_s)
        backoff = Backoff(0.05, 0.5)
        failures: dict[int, str] = {}
        while (left_s := end - time.monotonic()) > 0:
            index = self.current if member is None else member
            try:
                async with asyncio.timeout(min(try_s, left_s)):
                    return await method(stub(self.channel(index)))(request)
            except GRPCError as error:
                failures[index] = error.message or error.status.name
                if OUTDATED in failures[index]:
                    await asyncio.sleep(min(backoff.next_s(), max(0.0, end - time.monotonic())))
                    continue
                if error.status not in RETRIED_STATUS:
                    raise refusal(name, error) from error
                is_open = "no leader" not in failures[index]
            except TRANSPORT_ERRORS as error:
                failures[index] = _words(error)
                is_open = not isinstance(error, (ConnectionRefusedError, ssl.SSLCertVerificationError))
            self.failed(index)
            if is_open and not repeatable:
                break
            if len(failures) == len(self.addresses) or member is not None:
                await asyncio.sleep(min(backoff.next_s(), max(0.0, end - time.monotonic())))
        raise EtcdUnavailableError(f"etcd {name}: {self._summary(failures)}. Check that a majority of members runs and trusts us.")

    def _summary(self, failures: dict[int, str]) -> str:
        told = (f"{self.addresses[index][0]}:{self.addresses[index][1]} {words}" for index, words in sorted(failures.items()))
        return "; ".join(told) or "no time left"


def _address(endpoint: str) -> tuple[str, int]:
    host, colon, port = endpoint.removeprefix("https://").rstrip("/").rpartition(":")
    if not colon or not host or not port.isdecimal() or "://" in endpoint.removeprefix("https://"):
        raise ConfigError(f"etcd endpoint {endpoint!r}: is not https://host:port. Plain http is not supported.")
    return host.strip("[]"), int(port)


def _words(error: BaseException) -> str:
    if isinstance(error, ssl.SSLError):
        return f"TLS failed: {reason_of(error)}"
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return str(error) or type(error).__name__


def one_try_s(call_s: float) -> float:
    """Return how long one member may take: long enough for an election (about 1.5 s), short enough for the next member."""
    return min(2.0, max(0.5, call_s * 0.4))
