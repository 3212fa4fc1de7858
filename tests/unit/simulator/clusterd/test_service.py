# SPDX-License-Identifier: Apache-2.0
"""The gRPC services on a real socket with real mutual TLS."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from grpclib import GRPCError
from grpclib.client import Channel
from grpclib.const import Status as GrpcStatus

from controller_runtime.clusterd.proto.config_grpc import ConfigStub
from controller_runtime.clusterd.proto.config_pb2 import ClientInfo as ConfigClient
from controller_runtime.clusterd.proto.fault_grpc import FaultStub
from controller_runtime.clusterd.proto.fault_pb2 import ClientInfo as FaultClient
from controller_runtime.clusterd.proto.fault_pb2 import FaultMsgSignal
from controller_runtime.foundation.tls import TlsFiles, TlsIdentity
from simulator.clusterd.cli import GrpcListener
from simulator.clusterd.latest import Latest
from tests.support.control_plane import free_ports
from tests.support.eventually import eventually
from tests.support.pki import Authority, publish_crl, write_identity

CONTROLLER = "ms-controller-cluster"
ME = ConfigClient(jobId="job-1", role="mindie-ms-controller")


class Bench:
    """A running ClusterD front and clients of it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.authority = Authority("pd")
        self.port = free_ports(1)[0]
        self.tables: Latest[str] = Latest()
        self.faults: Latest[FaultMsgSignal] = Latest()
        self.tls = self.identity("clusterd")

    def identity(self, name: str) -> TlsIdentity:
        leaf = self.authority.issue(name, sans=[f"{name}.mindie"])
        return TlsIdentity(TlsFiles.in_directory(write_identity(self.directory / name, self.authority, leaf)))

    @asynccontextmanager
    async def channel(self, name: str = CONTROLLER) -> AsyncIterator[Channel]:
        context = self.identity(name).client_context(("h2",), expect_sans=["clusterd.*"])
        async with Channel("127.0.0.1", self.port, ssl=context) as channel:
            yield channel


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    bench = Bench(tmp_path)
    listener = GrpcListener("127.0.0.1", bench.port, bench.tls, "job-1", bench.tables, bench.faults)
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(listener.run(stop))
        await eventually(lambda: _is_open(bench.port), "ClusterD listens")
        yield bench
        stop.set()


async def _is_open(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True


async def test_a_subscriber_gets_the_present_table_and_every_later_one(bench: Bench) -> None:
    bench.tables.publish("first")
    async with bench.channel() as channel:
        assert (await ConfigStub(channel).Register(ME)).code == 0
        async with ConfigStub(channel).SubscribeRankTable.open() as stream:
            await stream.send_message(ME, end=True)
            first = await stream.recv_message()
            bench.tables.publish("second")
            second = await stream.recv_message()
            await stream.cancel()

    assert first is not None
    assert second is not None
    assert [(one.jobId, one.rankTable) for one in (first, second)] == [("job-1", "first"), ("job-1", "second")]


async def test_faults_are_pushed_to_every_subscriber(bench: Bench) -> None:
    me = FaultClient(jobId="job-1", role="mindie-ms-controller")
    async with (
        bench.channel() as channel,
        FaultStub(channel).SubscribeFaultMsgSignal.open() as one,
        FaultStub(channel).SubscribeFaultMsgSignal.open() as two,
    ):
        for stream in (one, two):
            await stream.send_message(me, end=True)
        bench.faults.publish(FaultMsgSignal(uuid="u", jobId="job-1", signalType="fault"))
        seen = [await stream.recv_message() for stream in (one, two)]
        for stream in (one, two):
            await stream.cancel()

    assert [message.signalType for message in seen if message is not None] == ["fault", "fault"]


async def test_another_identity_is_refused(bench: Bench) -> None:
    async with bench.channel("mindie-server") as channel:
        with pytest.raises(GRPCError) as refused:
            await ConfigStub(channel).Register(ME)

    assert refused.value.status is GrpcStatus.PERMISSION_DENIED


async def test_another_job_is_not_known(bench: Bench) -> None:
    async with bench.channel() as channel:
        with pytest.raises(GRPCError) as refused:
            await ConfigStub(channel).Register(ConfigClient(jobId="job-2"))

    assert refused.value.status is GrpcStatus.NOT_FOUND


async def test_changed_tls_files_end_the_streams_so_that_subscribers_are_checked_again(bench: Bench) -> None:
    bench.tables.publish("first")
    async with bench.channel() as channel, ConfigStub(channel).SubscribeRankTable.open() as stream:
        await stream.send_message(ME, end=True)
        assert await stream.recv_message() is not None

        publish_crl(bench.directory / "clusterd", bench.authority)
        assert bench.tls.reload_if_changed()

        assert await asyncio.wait_for(stream.recv_message(), 10) is None


async def test_a_slow_subscriber_gets_the_newest_table_only() -> None:
    tables: Latest[int] = Latest()
    tables.publish(1)
    changes = tables.changes()
    seen = [await anext(changes)]
    for value in (2, 3, 4):
        tables.publish(value)
    seen.append(await anext(changes))

    assert seen == [1, 4]
