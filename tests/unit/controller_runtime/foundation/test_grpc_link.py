# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio

import pytest
from grpclib.exceptions import StreamTerminatedError

from controller_runtime.etcd.proto import etcd_pb2 as pb
from controller_runtime.etcd.proto.etcd_grpc import KVStub
from controller_runtime.foundation.grpc_link import hang_up, open_channel
from controller_runtime.foundation.tls import TlsIdentity
from tests.unit.controller_runtime.foundation.conftest import Site


async def test_hanging_up_ends_calls_and_closes_the_socket_though_the_peer_is_frozen(site: Site) -> None:
    """The peer reads and never says a word, not even the goodbye of TLS."""
    connected, ended = asyncio.Event(), asyncio.Event()

    async def frozen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected.set()
        try:
            while await reader.read(1000):
                pass
        except ConnectionError:
            pass
        ended.set()
        writer.close()

    tls: TlsIdentity = site.server()
    server = await asyncio.start_server(frozen, "127.0.0.1", 0, ssl=tls.server_context_for(["h2"]))
    async with server:
        channel = open_channel("127.0.0.1", server.sockets[0].getsockname()[1], site.client().client_context(["h2"]))
        call = asyncio.create_task(KVStub(channel).Range(pb.RangeRequest()))
        await connected.wait()

        hang_up(channel)
        async with asyncio.timeout(5):
            with pytest.raises(StreamTerminatedError):
                await call
            await ended.wait()
    assert channel._protocol is None


async def test_hanging_up_an_unused_channel_is_fine() -> None:
    hang_up(open_channel("127.0.0.1", 1, None))
