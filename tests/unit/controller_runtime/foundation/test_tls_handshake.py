# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import ssl

import pytest
import structlog

from controller_runtime.foundation.tls_handshake import REPEAT_PERIOD_S, accepted_from, is_allowed, reason_of, reporting_refusals


@pytest.mark.parametrize(
    ("sans", "allowed", "holds"),
    [
        (["a.mindie"], ["a.mindie"], True),
        (["a.mindie"], ["*.mindie"], True),
        (["x", "b.mindie"], ["a.mindie", "b.*"], True),
        (["a.mindie"], ["a.mindi"], False),
        (["A.mindie"], ["a.mindie"], False),
        ([], ["*"], False),
        (["a"], [], False),
    ],
)
def test_a_peer_is_allowed_by_one_matching_name(sans: list[str], allowed: list[str], holds: bool) -> None:
    assert is_allowed(sans, allowed) is holds


def test_reasons_are_plain_words() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    incoming = ssl.MemoryBIO()
    incoming.write(b"this is not TLS at all")
    with pytest.raises(ssl.SSLError) as raised:
        context.wrap_bio(incoming, ssl.MemoryBIO(), server_hostname="x").do_handshake()

    assert reason_of(raised.value) == "wrong version number"
    assert reason_of(ssl.SSLCertVerificationError(1, "peer is X")) == "peer is x"


class FailingHandshakes:
    """A listener context of our class that meets peers which do not speak TLS."""

    def __init__(self) -> None:
        self.now = 0.0
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.sslobject_class = reporting_refusals("t", lambda: self.now)

    def fail(self, peer: str) -> None:
        accepted_from.set(peer)
        incoming = ssl.MemoryBIO()
        incoming.write(b"GET / HTTP/1.1\r\n\r\n")
        with pytest.raises(ssl.SSLError):
            self._context.wrap_bio(incoming, ssl.MemoryBIO(), server_side=True).do_handshake()


def test_a_peer_is_logged_once_per_period_and_reason() -> None:
    listener = FailingHandshakes()
    with structlog.testing.capture_logs() as logs:
        listener.fail("10.0.0.1")
        listener.fail("10.0.0.1")
        listener.fail("10.0.0.2")
        listener.now = REPEAT_PERIOD_S
        listener.fail("10.0.0.1")

    assert [line["peer"] for line in logs] == ["10.0.0.1", "10.0.0.2", "10.0.0.1"]
    assert {line["reason"] for line in logs} == {"http request"}
