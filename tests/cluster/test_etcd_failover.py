# SPDX-License-Identifier: Apache-2.0
"""Three real members: the client goes on when one dies, freezes or comes back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from controller_runtime.etcd.client import EtcdClient
from controller_runtime.etcd.errors import EtcdUnavailableError
from controller_runtime.etcd.lock import LeaderLock
from controller_runtime.etcd.watch import WatchBatch
from tests.support.etcd_server import EtcdCluster
from tests.support.eventually import eventually

pytestmark = [pytest.mark.cluster, pytest.mark.chaos]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdCluster]:
    with EtcdCluster(Path(tmp_path_factory.mktemp("etcd")), members=3) as made:
        yield made


@pytest.fixture
async def client(cluster: EtcdCluster) -> AsyncIterator[EtcdClient]:
    async with EtcdClient(cluster.endpoints, cluster.identity("tester"), call_timeout_s=15) as made:
        yield made


async def leading(client: EtcdClient) -> int:
    """Return the index of the member that leads."""
    for index in range(3):
        status = await client.status(index)
        if status.leader == status.member_id:
            return index
    raise AssertionError("no member leads")


async def collect(client: EtcdClient, prefix: str, start: int, count: int) -> list[bytes | None]:
    """Watch until `count` events came."""
    values: list[bytes | None] = []
    changes = client.watch(prefix, start, idle_s=2)
    try:
        batch: WatchBatch
        async for batch in changes:
            values += [event.value for event in batch.events]
            if len(values) >= count:
                return values
    finally:
        await changes.aclose()
    return values


async def test_calls_and_a_watch_survive_the_death_of_the_leading_member(cluster: EtcdCluster, client: EtcdClient) -> None:
    victim = await leading(client)
    client.endpoints.current = victim
    start = await client.put("/death/0", b"0")
    watching = asyncio.create_task(collect(client, "/death/", start, 20))
    for number in range(1, 10):
        await client.put(f"/death/{number}", str(number).encode())

    cluster.kill(victim)
    try:
        for number in range(10, 20):
            await client.put(f"/death/{number}", str(number).encode())
        async with asyncio.timeout(30):
            seen = await watching
    finally:
        cluster.start(victim)
        cluster.wait_ready()

    assert seen == [str(number).encode() for number in range(20)]
    assert client.endpoints.failovers >= 1


async def test_a_watch_leaves_a_frozen_member(cluster: EtcdCluster, client: EtcdClient) -> None:
    frozen = (await leading(client) + 1) % 3
    client.endpoints.current = frozen
    start = await client.put("/frozen/0", b"0")
    watching = asyncio.create_task(collect(client, "/frozen/", start, 2))
    async with EtcdClient([cluster.endpoints[(frozen + 1) % 3]], cluster.identity("writer")) as writer:
        cluster.pause(frozen)
        try:
            await writer.put("/frozen/1", b"1")
            async with asyncio.timeout(30):
                assert await watching == [b"0", b"1"]
        finally:
            cluster.resume(frozen)
            cluster.wait_ready()


async def test_a_leader_keeps_its_lock_when_its_member_dies(cluster: EtcdCluster, client: EtcdClient) -> None:
    lock = LeaderLock(client, "/failover/lock", "10.0.0.1", ttl_s=9, renew_s=1)
    assert await lock.acquire_or_wait(asyncio.Event())
    token = lock.fencing_token
    victim = client.endpoints.current
    cluster.kill(victim)
    try:
        await lock.guarded_txn({"/failover/data": b"1"})
        await eventually(
            lambda: client.endpoints.current != victim and lock._good_until - lock._clock.monotonic() > 7.5, "a renewal elsewhere"
        )
        assert lock.is_leader
        assert lock.fencing_token == token
    finally:
        cluster.start(victim)
        cluster.wait_ready()
    await lock.release()


async def test_without_a_majority_calls_end_in_time_and_say_why(cluster: EtcdCluster, client: EtcdClient) -> None:
    down = [1, 2]
    for index in down:
        cluster.kill(index)
    try:
        begin = asyncio.get_running_loop().time()
        async with EtcdClient(cluster.endpoints, cluster.identity("tester"), call_timeout_s=2) as hasty:
            with pytest.raises(EtcdUnavailableError, match="Check that a majority of members runs"):
                await hasty.put("/minority", b"x")
        assert asyncio.get_running_loop().time() - begin < 4
    finally:
        for index in down:
            cluster.start(index)
        cluster.wait_ready()

    await client.put("/minority", b"back")
