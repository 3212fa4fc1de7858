# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
import contextlib

import pytest
from grpclib.exceptions import StreamTerminatedError

from controller_runtime.etcd.proto import etcd_pb2 as pb
from controller_runtime.etcd.proto.etcd_grpc import KVStub
from controller_runtime.foundation.grpc_link import hang_up, open_channel
from tests.unit.controller_runtime.foundation.conftest import Site


async def test_hanging_up_ends_calls_and_closes_the_socket_without_waiting_for_the_peer(site: Site) -> None:
    connected = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected.set()
        with contextlib.suppress(ConnectionError):
            while await reader.read(1000):
                pass
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0, ssl=site.server().server_context_for(["h2"]))
    async with server:
        channel = open_channel("127.0.0.1", server.sockets[0].getsockname()[1], site.client().client_context(["h2"]))
        call = asyncio.create_task(KVStub(channel).Range(pb.RangeRequest()))
        await connected.wait()
        assert channel._protocol is not None
        socket = channel._protocol.connection._transport.get_extra_info("socket")

        hang_up(channel)
        await asyncio.sleep(0)

        assert socket.fileno() == -1
        with pytest.raises(StreamTerminatedError):
            await call


async def test_hanging_up_an_unused_channel_is_fine() -> None:
    hang_up(open_channel("127.0.0.1", 1, None))
