# SPDX-License-Identifier: Apache-2.0
"""What we add to a TLS handshake: the identity check of the peer, and the reason of a refusal in our log.

Both hang on `SSLContext.sslobject_class`, the documented hook of the `ssl` module, so a peer is refused before the first
byte of the application goes out. Under TLS 1.3 a refused client sees only a closed connection and asyncio drops the reason:
the server's log is the only place where an operator can learn it.
"""

from __future__ import annotations

import ssl
import time
from asyncio import BaseTransport
from collections.abc import Callable, Collection
from contextvars import ContextVar
from fnmatch import fnmatchcase

from prometheus_client import Counter

from controller_runtime.foundation.log import get_logger
from controller_runtime.foundation.metrics import REGISTRY

REPEAT_PERIOD_S = 60.0
_MAX_REMEMBERED = 1024

log = get_logger(__name__)

accepted_from: ContextVar[str] = ContextVar("accepted_from", default="unknown")
"""Address of the peer whose connection the current task serves; set by the listener, read when a handshake fails."""

_refused = Counter("tls_handshakes_refused_total", "Handshakes this server refused.", ["identity", "reason"], registry=REGISTRY)


def peer_sans(peer: BaseTransport | ssl.SSLObject | ssl.SSLSocket) -> frozenset[str]:
    """Return the DNS names (subjectAltName) of the peer's verified certificate; empty on a plain link."""
    ssl_object = peer.get_extra_info("ssl_object") if isinstance(peer, BaseTransport) else peer
    if ssl_object is None:
        return frozenset()
    names = (ssl_object.getpeercert() or {}).get("subjectAltName", ())
    return frozenset(str(entry[1]) for entry in names if entry[0] == "DNS")


def is_allowed(sans: Collection[str], allowed: Collection[str]) -> bool:
    """True when one of the peer's names matches one of the allowed patterns (`*` and `?` as in file names)."""
    return any(fnmatchcase(san, pattern) for san in sans for pattern in allowed)


def checking_identity(expect_sans: frozenset[str]) -> type[ssl.SSLObject]:
    """Return an `sslobject_class` that refuses a peer without one of these DNS names."""

    class IdentityCheckedObject(ssl.SSLObject):
        def do_handshake(self) -> None:
            super().do_handshake()
            sans = peer_sans(self)
            if not is_allowed(sans, expect_sans):
                names = ", ".join(sorted(sans)) or "nobody"
                raise ssl.SSLCertVerificationError(1, f"peer is {names}, expected {', '.join(sorted(expect_sans))}")

    return IdentityCheckedObject


def reporting_refusals(identity: str, monotonic: Callable[[], float] = time.monotonic) -> type[ssl.SSLObject]:
    """Return an `sslobject_class` that logs why a handshake failed: once, then at most once per `REPEAT_PERIOD_S` and peer."""
    last_logged: dict[tuple[str, str], float] = {}

    def report(reason: str) -> None:
        _refused.labels(identity, reason).inc()
        peer = accepted_from.get()
        now = monotonic()
        previous = last_logged.get((peer, reason))
        if previous is not None and now - previous < REPEAT_PERIOD_S:
            return
        if len(last_logged) >= _MAX_REMEMBERED:
            last_logged.clear()
        last_logged[peer, reason] = now
        log.warning("tls peer refused", identity=identity, peer=peer, reason=reason)

    class RefusalReportingObject(ssl.SSLObject):
        def do_handshake(self) -> None:
            try:
                super().do_handshake()
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                raise
            except ssl.SSLError as error:
                report(reason_of(error))
                raise

    return RefusalReportingObject


def reason_of(error: ssl.SSLError) -> str:
    """Return OpenSSL's reason in plain lower-case words, for example `certificate revoked`."""
    if isinstance(error, ssl.SSLCertVerificationError):
        message = getattr(error, "verify_message", "") or error.strerror or str(error)
        return str(message).lower()
    return (error.reason or error.strerror or "handshake failed").replace("_", " ").lower()
