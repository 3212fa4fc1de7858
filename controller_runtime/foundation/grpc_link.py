# SPDX-License-Identifier: Apache-2.0
"""gRPC connections that notice a dead peer and can be dropped at once.

grpclib has both only behind underscores; this is the one module that uses them (grpclib is pinned to 0.4).
"""

from __future__ import annotations

import ssl

from grpclib.client import Channel
from grpclib.config import Configuration

PING_PERIOD_S, PING_TIMEOUT_S = 10.0, 5.0
"""Below 5 s between pings an etcd member closes the connection (measured: GOAWAY 11)."""


def open_channel(host: str, port: int, context: ssl.SSLContext | None) -> Channel:
    """Return a channel that connects at the first call and pings while it is open, also between calls."""
    config = Configuration(
        _keepalive_time=PING_PERIOD_S,
        _keepalive_timeout=PING_TIMEOUT_S,
        _keepalive_permit_without_calls=True,
        _http2_max_pings_without_data=0,
        _http2_min_sent_ping_interval_without_data=PING_PERIOD_S,
    )
    return Channel(host, port, ssl=context, config=config)


def hang_up(channel: Channel) -> None:
    """Close a channel without waiting for the peer: its calls and streams fail, its socket closes in the next loop turn.

    `Channel.close` waits for the peer's goodbye in the TLS layer, up to 30 s when the peer is frozen.
    """
    protocol = channel._protocol
    transport = None if protocol is None else getattr(protocol.connection, "_transport", None)
    channel.close()
    if transport is not None:
        transport.abort()
