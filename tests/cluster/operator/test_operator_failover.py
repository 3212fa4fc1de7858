# SPDX-License-Identifier: Apache-2.0
"""Two replicas, of which one stops, dies or is frozen for longer than its lease lasts. A proxy before each tells who wrote."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from controller_runtime.foundation.clock import SystemClock
from controller_runtime.kube.client import KubeClient
from controller_runtime.kube.config import load_config
from controller_runtime.kube.errors import LeaseLostError
from controller_runtime.kube.kind import INFER_SERVICE_SET, STATEFUL_SET
from controller_runtime.kube.lease import LeaseElector
from controller_runtime.reconcilers.operator import build_operator
from tests.support.api_proxy import ApiProxy, Refusal, api_proxy
from tests.support.control_plane import ControlPlane
from tests.support.eventually import eventually, steadily
from tests.support.infer import role, set_object
from tests.support.operator_process import OperatorProcess
from tests.support.operator_rights import GROUP, operator_namespace_rights
from tests.support.operator_run import Cluster
from tests.support.ready_pods import ReadyPods

pytestmark = pytest.mark.cluster

USER = "infer-operator"
HAND_OVER_S = 3 * 2.0
"""Three times what it should take, since the machine may be busy; far less than a lease that expires."""
LEASE_EXPIRES_S = 60
"""Generous: 15 s and a poll."""


ON_THE_WAY_S = 0.3
"""A request that left before takes so long at most to arrive."""


class JumpingClock(SystemClock):
    """Runs ahead by `jump_s`."""

    jump_s = 0.0

    def monotonic(self) -> float:
        """Seconds on a clock of its own."""
        return super().monotonic() + self.jump_s


@dataclass
class Replica:
    """One replica and the proxy it speaks through."""

    process: OperatorProcess
    proxy: ApiProxy

    @property
    def leads(self) -> bool:
        """Whether its controllers were started."""
        return self.process.log.exists() and "controllers started" in self.process.events()


@pytest.fixture
async def rights(cluster: Cluster) -> None:
    """The operator may use its lease."""
    for right in operator_namespace_rights({"apiGroup": GROUP, "kind": "User", "name": USER}, cluster.namespace):
        await cluster.client.create(right)


@pytest.fixture
async def replicas(workload_plane: ControlPlane, cluster: Cluster, rights: None, tmp_path: Path) -> AsyncIterator[tuple[Replica, Replica]]:
    """A leader and a warm standby."""
    async with contextlib.AsyncExitStack() as stack:
        made = []
        for name in ("one", "two"):
            proxy = await stack.enter_async_context(api_proxy(workload_plane, USER, tmp_path / f"{name}.kubeconfig"))
            made.append(Replica(OperatorProcess(proxy.kubeconfig, cluster.namespace, tmp_path / f"{name}.log"), proxy))
        one, two = made
        try:
            await one.process.start()
            await eventually(lambda: one.leads, "the first one leads", 30)
            await two.process.start()
            await eventually(two.process.ready, "the standby is ready", 30)
            yield one, two
        finally:
            for replica in made:
                if replica.process.runs:
                    replica.process.send(signal.SIGCONT)
                    await replica.process.end(signal.SIGKILL)


async def test_a_leader_frozen_for_longer_than_its_lease_writes_nothing_when_it_wakes(
    cluster: Cluster, replicas: tuple[Replica, Replica], pods: ReadyPods
) -> None:
    one, two = replicas
    await cluster.write(set_object("x", [role("a", 2, "StatefulSet"), role("b", 2)], 10))
    await eventually(lambda: len(one.proxy.writes) >= 30, "the leader is in the middle of its work", 30)

    one.process.send(signal.SIGSTOP)
    await eventually(lambda: two.leads, "the standby leads", LEASE_EXPIRES_S)
    await cluster.edit(INFER_SERVICE_SET, "x", ("replace", "/spec/replicas", 1))
    await cluster.until_ready(INFER_SERVICE_SET, "x")
    await cluster.until_names(STATEFUL_SET, "x-0-a-0", "x-0-a-1")
    before, woken = len(one.proxy.writes), time.monotonic()
    one.process.send(signal.SIGCONT)

    assert one.process.process is not None
    assert await asyncio.wait_for(one.process.process.wait(), 30) == 75
    assert one.proxy.writes[before:] == [], woken
    assert await cluster.names(STATEFUL_SET) == ["x-0-a-0", "x-0-a-1"]


async def test_no_write_leaves_once_the_lease_may_have_ended(
    workload_plane: ControlPlane, cluster: Cluster, rights: None, tmp_path: Path, pods: ReadyPods
) -> None:
    """The clock jumps, as it does for a process that wakes: nothing of it has noticed yet, and every task would go on."""
    await cluster.write(set_object("x", [role("a", 2, "StatefulSet"), role("b", 2)], 10))
    clock = JumpingClock()
    async with api_proxy(workload_plane, USER, tmp_path / "proxy.kubeconfig") as proxy:
        client = KubeClient(load_config(str(proxy.kubeconfig)), qps=10_000, burst=10_000)
        elector = LeaseElector(client, cluster.namespace, USER, "a", clock=clock)
        running = asyncio.create_task(build_operator(client, elector=elector).run(asyncio.Event()))
        await eventually(lambda: len(proxy.writes) >= 30, "the leader is in the middle of its work", 30)

        clock.jump_s = LEASE_EXPIRES_S
        jumped = time.monotonic()
        with pytest.raises(ExceptionGroup) as ended:
            await running
        await client.close()

    assert ended.group_contains(LeaseLostError)
    assert [each for each in proxy.writes if each.at_s > jumped + ON_THE_WAY_S] == []


async def test_a_leader_frozen_for_a_moment_goes_on(cluster: Cluster, replicas: tuple[Replica, Replica], pods: ReadyPods) -> None:
    one, two = replicas
    one.process.send(signal.SIGSTOP)
    await steadily(lambda: not two.leads, "the standby stands by", 3)
    await cluster.write(set_object("x", [role("a")]))
    one.process.send(signal.SIGCONT)

    await cluster.until_ready(INFER_SERVICE_SET, "x")
    assert one.process.runs
    assert not two.leads


async def test_a_leader_that_is_stopped_hands_over_long_before_the_lease_expires(
    cluster: Cluster, replicas: tuple[Replica, Replica], pods: ReadyPods
) -> None:
    one, two = replicas
    stopped = time.monotonic()
    ending = asyncio.create_task(one.process.end())
    await cluster.write(set_object("x", [role("a")]))
    await eventually(lambda: two.leads and len(two.proxy.writes) > 0, "the standby works", 30)

    assert await ending == 0
    assert two.proxy.writes[0].at_s - stopped < HAND_OVER_S
    await cluster.until_ready(INFER_SERVICE_SET, "x")


async def test_the_standby_completes_what_a_killed_leader_began(
    cluster: Cluster, replicas: tuple[Replica, Replica], pods: ReadyPods
) -> None:
    one, two = replicas
    await cluster.write(set_object("x", [role("a", 2, "StatefulSet"), role("b", 2)], 10))
    await eventually(lambda: len(one.proxy.writes) >= 30, "the leader is in the middle of its work", 30)
    await one.process.end(signal.SIGKILL)

    await eventually(lambda: two.leads, "the standby leads", LEASE_EXPIRES_S)
    await cluster.until_ready(INFER_SERVICE_SET, "x")
    assert len(await cluster.names(STATEFUL_SET)) == 20


async def test_a_leader_whose_requests_all_fail_starts_over_and_the_standby_works(
    cluster: Cluster, replicas: tuple[Replica, Replica], pods: ReadyPods
) -> None:
    one, two = replicas
    one.proxy.refuse = lambda _method, _path: Refusal(503)
    await cluster.write(set_object("x", [role("a")]))

    assert one.process.process is not None
    assert await asyncio.wait_for(one.process.process.wait(), 30) == 75
    await eventually(lambda: two.leads, "the standby leads", LEASE_EXPIRES_S)
    await cluster.until_ready(INFER_SERVICE_SET, "x")

    one.proxy.refuse = lambda _method, _path: None
    await one.process.start()
    await eventually(one.process.ready, "it stands by now", 30)
    assert await two.process.end() == 0
    await cluster.edit(INFER_SERVICE_SET, "x", ("replace", "/spec/replicas", 2))
    await cluster.until_ready(INFER_SERVICE_SET, "x")
