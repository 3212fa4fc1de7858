# SPDX-License-Identifier: Apache-2.0
"""The deadlines of an election in simulated time, with clocks that do not agree."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest

from controller_runtime.errors import TransportError
from controller_runtime.kube.errors import AlreadyExistsError, ConflictError, LeaseLostError, NotFoundError
from controller_runtime.kube.kind import Kind, Object
from controller_runtime.kube.lease import LeaseElector

pytestmark = pytest.mark.looptime


class OneLease:
    """What the API server promises about one object: versions, conflicts."""

    def __init__(self) -> None:
        self.lease: Object | None = None
        self._version = 0

    def write(self, obj: Object) -> Object:
        self._version += 1
        self.lease = copy.deepcopy(obj)
        self.lease["metadata"]["resourceVersion"] = str(self._version)
        return copy.deepcopy(self.lease)


class LeaseClient:
    """One replica's way to it: `is_cut` loses every call, `delay_s` slows it."""

    def __init__(self, server: OneLease) -> None:
        self.server = server
        self.is_cut = False
        self.delay_s = 0.01

    async def _travel(self) -> None:
        await asyncio.sleep(self.delay_s)
        if self.is_cut:
            raise TransportError("cut")

    async def get(self, kind: Kind, name: str, namespace: str) -> Object:
        await self._travel()
        if self.server.lease is None:
            raise NotFoundError("none", status=404)
        return copy.deepcopy(self.server.lease)

    async def create(self, obj: Object) -> Object:
        await self._travel()
        if self.server.lease is not None:
            raise AlreadyExistsError("taken", status=409)
        return self.server.write(obj)

    async def replace(self, obj: Object) -> Object:
        await self._travel()
        assert self.server.lease is not None
        if obj["metadata"]["resourceVersion"] != self.server.lease["metadata"]["resourceVersion"]:
            raise ConflictError("newer", status=409)
        return self.server.write(obj)


class SkewedClock:
    """Monotonic time of the loop; a wall clock that is wrong by `skew`."""

    def __init__(self, skew: timedelta) -> None:
        self._skew = skew

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.monotonic()) + self._skew


class Replica:
    def __init__(self, server: OneLease, identity: str, skew: timedelta = timedelta()) -> None:
        self.client = LeaseClient(server)
        self.elector = LeaseElector(self.client, "ns", "operator", identity, clock=SkewedClock(skew))  # type: ignore[arg-type]  # its part
        self.stop = asyncio.Event()
        self.began_at: float | None = None
        self.ended_at: float | None = None
        self.task = asyncio.create_task(self.elector.run(self.stop, self._lead))

    async def _lead(self, stop: asyncio.Event) -> None:
        loop = asyncio.get_running_loop()
        self.began_at = loop.time()
        try:
            await stop.wait()
        finally:
            self.ended_at = loop.time()


@asynccontextmanager
async def closing(*replicas: Replica) -> AsyncIterator[None]:
    try:
        yield
    finally:
        for replica in replicas:
            replica.stop.set()
        await asyncio.gather(*(replica.task for replica in replicas), return_exceptions=True)


@pytest.mark.parametrize("skew", [timedelta(), timedelta(hours=3), timedelta(hours=-3)])
async def test_a_lost_leader_stops_after_ten_seconds_and_its_successor_waits_fifteen(skew: timedelta) -> None:
    server, loop = OneLease(), asyncio.get_running_loop()
    old, new = Replica(server, "old"), Replica(server, "new", skew)
    async with closing(old, new):
        await asyncio.sleep(21)
        assert (old.elector.is_leader, new.elector.is_leader) == (True, False)
        cut_at = loop.time()
        old.client.is_cut = True
        with pytest.raises(LeaseLostError):
            await old.task
        await asyncio.sleep(30)

        assert old.ended_at is not None
        assert new.began_at is not None
        assert 7.5 < old.ended_at - cut_at <= 10.1
        assert 12.5 < new.began_at - cut_at <= 19.5
        assert new.elector.is_leader


async def test_a_leader_stops_believing_without_any_help_of_its_tasks() -> None:
    server = OneLease()
    leader = Replica(server, "a")
    async with closing(leader):
        await asyncio.sleep(5)
        leader.client.delay_s = 1000
        assert leader.elector.is_leader
        await asyncio.sleep(9.99)
        assert not leader.elector.is_leader or leader.ended_at is None
        await asyncio.sleep(0.2)
        assert not leader.elector.is_leader
        assert leader.ended_at is not None


async def test_a_short_interruption_costs_nothing() -> None:
    server = OneLease()
    leader, standby = Replica(server, "a"), Replica(server, "b")
    async with closing(leader, standby):
        await asyncio.sleep(5)
        leader.client.is_cut = True
        await asyncio.sleep(7)
        leader.client.is_cut = False
        await asyncio.sleep(60)
        assert leader.elector.is_leader
        assert leader.ended_at is None
        assert standby.began_at is None


async def test_a_leader_never_renews_over_another_holder_even_an_expired_one() -> None:
    server = OneLease()
    leader = Replica(server, "a")
    async with closing(leader):
        await asyncio.sleep(5)
        assert server.lease is not None
        server.write({**server.lease, "spec": {**server.lease["spec"], "holderIdentity": ""}})
        with pytest.raises(LeaseLostError):
            await leader.task


async def test_a_stopped_candidate_leaves_without_the_lease() -> None:
    server = OneLease()
    leader, standby = Replica(server, "a"), Replica(server, "b")
    async with closing(leader):
        await asyncio.sleep(5)
        standby.stop.set()
        await standby.task
        assert standby.began_at is None
        assert leader.elector.is_leader


async def test_a_leader_whose_work_fails_releases_the_lease_and_tells() -> None:
    server = OneLease()

    async def fail(stop: asyncio.Event) -> None:
        raise ZeroDivisionError

    elector = LeaseElector(LeaseClient(server), "ns", "operator", "a", clock=SkewedClock(timedelta()))  # type: ignore[arg-type]  # its part
    with pytest.raises(ZeroDivisionError):
        await elector.run(asyncio.Event(), fail)
    assert server.lease is not None
    assert server.lease["spec"]["holderIdentity"] == ""


async def test_only_a_leader_passes_the_check_before_a_write() -> None:
    server = OneLease()
    leader, standby = Replica(server, "a"), Replica(server, "b")
    async with closing(leader, standby):
        await asyncio.sleep(5)
        leader.elector.check()
        with pytest.raises(LeaseLostError):
            standby.elector.check()
        leader.client.delay_s = 1000
        await asyncio.sleep(11)
        with pytest.raises(LeaseLostError):
            leader.elector.check()


async def test_a_released_lease_is_taken_within_two_seconds() -> None:
    server = OneLease()
    leader, standby = Replica(server, "a"), Replica(server, "b")
    async with closing(leader, standby):
        await asyncio.sleep(6.1)
        leader.stop.set()
        await leader.task
        await asyncio.sleep(1.1)
        assert standby.elector.is_leader


async def test_deadlines_out_of_order_are_refused() -> None:
    with pytest.raises(ValueError, match="retry_s < renew_deadline_s < duration_s"):
        LeaseElector(LeaseClient(OneLease()), "ns", "n", "a", duration_s=10, renew_deadline_s=10)  # type: ignore[arg-type]  # its part
