# SPDX-License-Identifier: Apache-2.0
"""Leader election against the real API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from controller_runtime.kube.client import KubeClient
from controller_runtime.kube.config import load_config
from controller_runtime.kube.errors import LeaseLostError
from controller_runtime.kube.kind import LEASE
from controller_runtime.kube.lease import LeaseElector
from tests.support.control_plane import ControlPlane
from tests.support.eventually import eventually
from tests.support.tcp_gate import TcpGate

pytestmark = pytest.mark.cluster

DURATION_S = 3.0


class Candidate:
    """One replica: notes when its work starts and ends."""

    def __init__(self, client: KubeClient, namespace: str, identity: str, diary: list[str]) -> None:
        self.elector = LeaseElector(client, namespace, "operator", identity, duration_s=DURATION_S, renew_deadline_s=2.0, retry_s=0.1)
        self.stop = asyncio.Event()
        self._diary = diary

    async def run(self) -> None:
        await self.elector.run(self.stop, self._lead)

    async def _lead(self, stop: asyncio.Event) -> None:
        self._diary.append(f"{self.elector.identity} starts")
        try:
            await stop.wait()
        finally:
            self._diary.append(f"{self.elector.identity} ends")


@asynccontextmanager
async def running(*candidates: Candidate) -> AsyncIterator[list[asyncio.Task[None]]]:
    tasks = [asyncio.create_task(candidate.run()) for candidate in candidates]
    try:
        yield tasks
    finally:
        for candidate in candidates:
            candidate.stop.set()
        await asyncio.wait(tasks)


async def test_one_of_three_leads_and_a_stopped_leader_hands_over_before_the_lease_expires(client: KubeClient, namespace: str) -> None:
    diary: list[str] = []
    candidates = [Candidate(client, namespace, name, diary) for name in "abc"]
    async with running(*candidates):
        await eventually(lambda: len(diary) == 1, "a leader")
        first = next(candidate for candidate in candidates if candidate.elector.is_leader)
        assert sum(candidate.elector.is_leader for candidate in candidates) == 1

        first.stop.set()

        await eventually(lambda: len(diary) == 3, "a successor", timeout_s=DURATION_S * 0.8)
        assert diary[:2] == [f"{first.elector.identity} starts", f"{first.elector.identity} ends"]
        assert sum(candidate.elector.is_leader for candidate in candidates) == 1


async def test_a_cut_off_leader_ends_its_work_before_another_begins(
    client: KubeClient, control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    diary: list[str] = []
    async with TcpGate.before(control_plane.url) as gate:
        (tmp_path / "config").write_bytes(control_plane.kubeconfig_for("cut-off", organization="system:masters", server=gate.url))
        distant = KubeClient(load_config(str(tmp_path / "config")))
        old, new = Candidate(distant, namespace, "old", diary), Candidate(client, namespace, "new", diary)
        async with running(old) as (old_task,):
            await eventually(lambda: diary == ["old starts"], "the first leader")
            async with running(new):
                gate.stall()
                await gate.cut()

                with pytest.raises(LeaseLostError, match="operator"):
                    await old_task
                assert not old.elector.is_leader
                await eventually(lambda: len(diary) == 3, "the successor", timeout_s=DURATION_S * 3)
        await distant.close()
    assert diary[:3] == ["old starts", "old ends", "new starts"]


async def test_a_leader_whose_record_was_taken_stops_at_once(client: KubeClient, namespace: str) -> None:
    diary: list[str] = []
    candidate = Candidate(client, namespace, "robbed", diary)
    async with running(candidate) as (task,):
        await eventually(lambda: diary == ["robbed starts"], "the leader")
        await client.patch(LEASE, "operator", namespace, {"spec": {"holderIdentity": "thief"}})

        with pytest.raises(LeaseLostError):
            await task
    assert diary == ["robbed starts", "robbed ends"]
    lease = await client.get(LEASE, "operator", namespace)
    assert lease["spec"]["holderIdentity"] == "thief", "the release must not clear another's record"


async def test_the_record_follows_the_conventions_of_other_libraries(client: KubeClient, namespace: str) -> None:
    diary: list[str] = []
    first = Candidate(client, namespace, "first", diary)
    async with running(first):
        await eventually(lambda: diary == ["first starts"], "the leader")
        spec = (await client.get(LEASE, "operator", namespace))["spec"]
        assert (spec["holderIdentity"], spec["leaseDurationSeconds"], spec["leaseTransitions"]) == ("first", DURATION_S, 0)
        acquired, renewed = spec["acquireTime"], spec["renewTime"]

        async def is_renewed() -> bool:
            spec = (await client.get(LEASE, "operator", namespace))["spec"]
            return bool(spec["renewTime"] > renewed and spec["acquireTime"] == acquired)

        await eventually(is_renewed, "a renewal")
    released = (await client.get(LEASE, "operator", namespace))["spec"]
    assert (released["holderIdentity"], released["leaseDurationSeconds"]) == ("", 1)

    second = Candidate(client, namespace, "second", diary)
    async with running(second):
        await eventually(lambda: diary[-1] == "second starts", "the second leader")
        spec = (await client.get(LEASE, "operator", namespace))["spec"]
        assert (spec["holderIdentity"], spec["leaseDurationSeconds"], spec["leaseTransitions"]) == ("second", DURATION_S, 1)
