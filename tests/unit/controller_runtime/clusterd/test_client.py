# SPDX-License-Identifier: Apache-2.0
"""The ClusterD client against the simulated ClusterD's service, over real mutual TLS."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from grpclib.server import Server
from structlog.testing import capture_logs

from controller_runtime.clusterd.client import ClusterdClient
from controller_runtime.foundation.metrics import REGISTRY
from controller_runtime.ms.clusterd_feed import TableFile
from controller_runtime.ms.links import CLUSTERD_SANS
from simulator.clusterd.latest import Latest
from simulator.clusterd.service import Admission, ConfigService
from tests.support.eventually import eventually
from tests.support.ms_peers import PeerPark, running

HOST = "127.0.0.1"


@pytest.fixture
async def peers(tmp_path: Path) -> AsyncIterator[PeerPark]:
    park = PeerPark(tmp_path / "peers")
    yield park
    await park.close()


@asynccontextmanager
async def clusterd(peers: PeerPark, tables: Latest[str], identity: str = "clusterd") -> AsyncIterator[int]:
    server = Server([ConfigService(Admission("job-1"), tables)])
    listener = socket.create_server((HOST, 0))
    await server.start(sock=listener, ssl=peers.identity(identity).server_context_for(("h2",)))
    try:
        yield int(listener.getsockname()[1])
    finally:
        server.close()
        await server.wait_closed()


def failures() -> float:
    return REGISTRY.get_sample_value("clusterd_failures_total") or 0.0


def follow(peers: PeerPark, port: int, received: list[str]) -> object:
    async def keep(table: str) -> None:
        received.append(table)

    return ClusterdClient(HOST, port, "job-1", peers.identity("ms-controller-cluster"), CLUSTERD_SANS).follow_rank_tables(keep)


def published(table: str) -> Latest[str]:
    tables: Latest[str] = Latest()
    tables.publish(table)
    return tables


async def test_every_table_arrives_and_a_lost_stream_is_made_again(peers: PeerPark) -> None:
    tables, received = published("one"), list[str]()

    async with clusterd(peers, tables) as port, running(follow(peers, port, received)):
        await eventually(lambda: received == ["one"], "the present table")
        tables.publish("two")
        await eventually(lambda: received == ["one", "two"], "the next table")
        tables.end_subscriptions()
        await eventually(lambda: received == ["one", "two", "two"], "the present table of a new stream")


async def test_a_peer_that_is_not_clusterd_is_told_nothing(peers: PeerPark) -> None:
    received: list[str] = []
    before = failures()
    async with clusterd(peers, published("one"), identity="mindie-server") as port, running(follow(peers, port, received)) as work:
        await eventually(lambda: failures() > before, "a try has failed")
        assert not work.done()

    assert received == []


async def test_a_change_of_our_identity_drops_the_stream_at_once(peers: PeerPark) -> None:
    identity, received = peers.identity("ms-controller-cluster"), list[str]()

    async def keep(table: str) -> None:
        received.append(table)

    async with (
        clusterd(peers, published("one")) as port,
        running(ClusterdClient(HOST, port, "job-1", identity, CLUSTERD_SANS).follow_rank_tables(keep)),
    ):
        await eventually(lambda: received == ["one"], "the present table")
        peers.renew("ms-controller-cluster")
        assert identity.reload_if_changed()
        await eventually(lambda: received == ["one", "one"], "the present table over a new connection")


async def test_the_newest_pushed_table_is_written_again_until_it_is_there(tmp_path: Path) -> None:
    path = tmp_path / "later" / "global_ranktable.json"
    file = TableFile(path, retry_s=0.02)

    async with running(file.run()):
        await file.offer('{"old": 1}')
        await file.offer('{"new": 1}')
        with capture_logs() as logs:
            await eventually(lambda: any("not written" in line["event"] for line in logs), "a failed write")
        path.parent.mkdir()
        await eventually(lambda: path.exists() and path.read_text() == '{"new": 1}', "the newest table")
