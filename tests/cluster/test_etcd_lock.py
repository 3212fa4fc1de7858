# SPDX-License-Identifier: Apache-2.0
"""The leader lock against a real member: election, renewal, loss, fencing."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
import structlog

from controller_runtime.errors import LostLeadershipError
from controller_runtime.etcd.client import EtcdClient, KeyValue
from controller_runtime.etcd.errors import EtcdUnavailableError, LeaseLostError
from controller_runtime.etcd.lock import RENEWED_LEASE, LeaderLock, default_renew_s
from tests.support.etcd_server import EtcdCluster
from tests.support.eventually import eventually

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdCluster]:
    with EtcdCluster(Path(tmp_path_factory.mktemp("etcd"))) as cluster:
        yield cluster


@pytest.fixture
async def client(etcd: EtcdCluster) -> AsyncIterator[EtcdClient]:
    async with EtcdClient(etcd.endpoints, etcd.identity("tester")) as made:
        yield made


@pytest.fixture
def key(request: pytest.FixtureRequest) -> str:
    return f"/{request.node.name}/leader-lock"


@pytest.fixture
async def candidate(client: EtcdClient, key: str) -> AsyncIterator[Callable[..., LeaderLock]]:
    made: list[LeaderLock] = []

    def make(value: str, ttl_s: int = 3, renew_s: float = 0.2) -> LeaderLock:
        made.append(LeaderLock(client, key, value, ttl_s, renew_s))
        return made[-1]

    yield make
    for lock in made:
        await lock.release()


Candidate = Callable[..., LeaderLock]


async def elected(lock: LeaderLock) -> None:
    async with asyncio.timeout(30):
        assert await lock.acquire_or_wait(asyncio.Event())


async def test_the_first_candidate_leads_and_its_value_shows_at_the_key(client: EtcdClient, key: str, candidate: Candidate) -> None:
    lock = candidate("10.0.0.1")
    assert not lock.is_leader

    await elected(lock)

    pair = await client.get(key)
    assert pair is not None
    assert (pair.value, pair.create_revision) == (b"10.0.0.1", lock.fencing_token)
    assert lock.is_leader
    assert lock.holder == "10.0.0.1"


async def test_each_renewal_logs_the_phrase_operators_look_for(candidate: Candidate) -> None:
    lock = candidate("10.0.0.1", renew_s=0.05)
    with structlog.testing.capture_logs() as logs:
        await elected(lock)
        await eventually(lambda: sum(line["event"] == RENEWED_LEASE for line in logs) >= 2, "two renewals")

    assert RENEWED_LEASE == "[TryRenewLease]Renewed lease"
    assert {line["log_level"] for line in logs if line["event"] == RENEWED_LEASE} == {"info"}


async def test_a_leader_stays_leader_beyond_its_ttl(candidate: Candidate) -> None:
    lock = candidate("10.0.0.1", ttl_s=2)
    with structlog.testing.capture_logs() as logs:
        await elected(lock)
        token = lock.fencing_token
        await eventually(lambda: sum(line["event"] == RENEWED_LEASE for line in logs) >= 15, "renewals over 3 s")

    assert lock.is_leader
    assert lock.fencing_token == token


async def test_a_standby_takes_over_at_once_after_a_clean_stop(candidate: Candidate) -> None:
    first, second = candidate("10.0.0.1", ttl_s=20), candidate("10.0.0.2", ttl_s=20)
    await elected(first)
    waiting = asyncio.create_task(elected(second))
    await eventually(lambda: second.holder == "10.0.0.1", "the standby sees the leader")

    await first.release()
    async with asyncio.timeout(5):
        await waiting

    assert not first.is_leader
    assert second.is_leader
    assert second.fencing_token > first.fencing_token


async def test_among_many_candidates_one_leads(candidate: Candidate) -> None:
    locks = [candidate(f"10.0.0.{n}") for n in range(5)]
    tasks = [asyncio.create_task(elected(lock)) for lock in locks]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    await eventually(lambda: all(lock.holder for lock in locks), "all know a leader")

    assert sum(lock.is_leader for lock in locks) == 1
    assert len({lock.holder for lock in locks}) == 1
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_stopped_standby_leaves_no_lease_and_does_not_lead(candidate: Candidate) -> None:
    first, second = candidate("10.0.0.1"), candidate("10.0.0.2")
    await elected(first)
    stop = asyncio.Event()
    waiting = asyncio.create_task(second.acquire_or_wait(stop))
    await eventually(lambda: second.holder is not None, "the standby waits")

    stop.set()

    assert await waiting is False
    assert second._lease == 0


async def test_a_candidate_whose_answer_was_lost_takes_the_lock_it_already_has(
    client: EtcdClient, candidate: Candidate, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = candidate("10.0.0.1", ttl_s=60)
    create = client.create
    leases: list[int] = []

    async def lose_the_first_answer(key: str, value: bytes, lease: int) -> tuple[bool, KeyValue]:
        leases.append(lease)
        answer = await create(key, value, lease)
        if len(leases) == 1:
            raise EtcdUnavailableError("answer lost")
        return answer

    monkeypatch.setattr(client, "create", lose_the_first_answer)
    await elected(lock)

    assert lock.is_leader
    assert len(leases) == 2
    assert leases[0] == leases[1]


async def test_a_candidate_stopped_in_the_middle_gives_its_lease_back(
    client: EtcdClient, key: str, candidate: Candidate, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = candidate("10.0.0.1", ttl_s=60)
    create = client.create
    leases: list[int] = []

    async def lose_every_answer(key: str, value: bytes, lease: int) -> tuple[bool, KeyValue]:
        leases.append(lease)
        await create(key, value, lease)
        raise EtcdUnavailableError("answer lost")

    monkeypatch.setattr(client, "create", lose_every_answer)
    stop = asyncio.Event()
    waiting = asyncio.create_task(lock.acquire_or_wait(stop))
    await eventually(lambda: bool(leases), "a try")
    stop.set()

    assert await waiting is False
    with pytest.raises(LeaseLostError):
        await client.lease_keep_alive(leases[0])
    assert await client.get(key) is None


async def test_the_leaders_write_carries_all_changes_or_none(client: EtcdClient, key: str, candidate: Candidate) -> None:
    lock = candidate("10.0.0.1")
    await elected(lock)
    await client.put(key + "-old", b"x")

    await lock.guarded_txn({key + "-a": b"1", key + "-b": b"2"}, deletes=[key + "-old"])

    assert [(item.key.removeprefix(key), item.value) for item in (await client.get_prefix(key + "-")).items] == [("-a", b"1"), ("-b", b"2")]


async def test_a_candidate_that_is_not_leader_cannot_write(client: EtcdClient, key: str, candidate: Candidate) -> None:
    with pytest.raises(LostLeadershipError):
        await candidate("10.0.0.1").guarded_txn({key + "-a": b"1"})

    assert await client.get(key + "-a") is None


async def test_a_deleted_key_ends_leadership_at_the_next_renewal_and_every_write_before(
    client: EtcdClient, key: str, candidate: Candidate
) -> None:
    lock = candidate("10.0.0.1", ttl_s=20, renew_s=0.2)
    await elected(lock)

    await client.delete(key)
    with pytest.raises(LostLeadershipError):
        await lock.guarded_txn({key + "-a": b"1"})
    assert lock.lost.is_set()

    await elected(lock)
    await client.delete(key)
    await eventually(lock.lost.is_set, "the renewal notices")
    assert await client.get(key + "-a") is None


async def test_a_lease_revoked_by_somebody_else_ends_leadership(client: EtcdClient, candidate: Candidate) -> None:
    lock = candidate("10.0.0.1", ttl_s=20, renew_s=0.1)
    await elected(lock)

    await client.lease_revoke(lock._lease)
    await eventually(lock.lost.is_set, "the renewal notices")

    await elected(lock)
    assert lock.is_leader


async def test_without_etcd_the_leader_steps_down_before_its_lease_can_end(etcd: EtcdCluster, key: str) -> None:
    """The member is frozen: sockets stay open, nothing answers, and the lease cannot be renewed."""
    async with EtcdClient(etcd.endpoints, etcd.identity("tester"), call_timeout_s=1) as client:
        lock = LeaderLock(client, key, "10.0.0.1", ttl_s=3, renew_s=0.2)
        with structlog.testing.capture_logs() as logs:
            await elected(lock)
            await eventually(lambda: any(line["event"] == RENEWED_LEASE for line in logs), "a renewal")
        begin = asyncio.get_running_loop().time()
        etcd.pause(0)
        try:
            with structlog.testing.capture_logs() as logs:
                await eventually(lock.lost.is_set, "the leader steps down")
            took_s = asyncio.get_running_loop().time() - begin
            assert not lock.is_leader
        finally:
            etcd.resume(0)
        await lock.release()

    assert took_s < 3
    assert [line["reason"] for line in logs if line["event"] == "leadership lost"] == ["no renewal in time"]


async def test_a_paused_leader_cannot_write_after_its_successor(etcd: EtcdCluster, client: EtcdClient, key: str) -> None:
    """Real SIGSTOP of a real process that does not look before it writes: the fence is what stops it."""
    data = key + "-data"
    command = [sys.executable, "-m", "tests.support.lock_holder", ",".join(etcd.endpoints), str(etcd.identity_directory("tester"))]
    process = await asyncio.create_subprocess_exec(*command, key, data, "old", "2", stdout=asyncio.subprocess.PIPE, cwd=ROOT)
    assert process.stdout is not None
    try:
        async with asyncio.timeout(60):
            said = [await process.stdout.readline()]
            while said[-1] != b"wrote 1\n":
                said.append(await process.stdout.readline())
                assert said[-1], said
        process.send_signal(signal.SIGSTOP)

        successor = LeaderLock(client, key, "new", ttl_s=5, renew_s=0.5)
        await elected(successor)
        await successor.guarded_txn({data: b"fresh"})
        process.send_signal(signal.SIGCONT)

        async with asyncio.timeout(30):
            rest = (await process.stdout.read()).decode()
        assert "lost LostLeadershipError" in rest
        pair = await client.get(data)
        assert pair is not None
        assert pair.value == b"fresh"
        await successor.release()
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@pytest.mark.parametrize(("ttl_s", "renew_s"), [(1, 1.0), (9, 4.5), (20, 10.0), (60, 10.0)])
def test_the_renewal_interval_is_half_the_ttl_within_1_and_10(ttl_s: float, renew_s: float) -> None:
    assert default_renew_s(ttl_s) == renew_s


async def test_a_ttl_below_the_margin_is_refused(client: EtcdClient, key: str) -> None:
    with pytest.raises(ValueError, match="above the margin"):
        LeaderLock(client, key, "v", ttl_s=1)
