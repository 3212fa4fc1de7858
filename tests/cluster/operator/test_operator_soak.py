# SPDX-License-Identifier: Apache-2.0
"""Random operations while the operator is killed again and again end in the desired state, with nothing left over.

Two replicas run as processes with the rights of their manifest. The sequence of operations follows from a seed, which is
printed; `make soak-operator MINUTES=30 SEED=1` runs one for longer, or again. See `tests/support/soak`.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from controller_runtime.api.crds import all_crds
from controller_runtime.kube.client import KubeClient
from controller_runtime.kube.config import load_config
from tests.support import volcano
from tests.support.control_plane import ControlPlane
from tests.support.eventually import steadily
from tests.support.fake_node import running_node
from tests.support.operator_process import OperatorProcess
from tests.support.operator_rights import GROUP, operator_namespace_rights, operator_rights
from tests.support.operator_run import Cluster
from tests.support.ready_pods import ReadyPods
from tests.support.soak.chaos import Chaos
from tests.support.soak.runner import Runner, writes_of

USER = "infer-operator"
SUBJECT = {"apiGroup": GROUP, "kind": "User", "name": USER}
SOAK_S = float(os.environ.get("OPERATOR_SOAK_S", "180"))
KILL_EVERY_S = float(os.environ.get("OPERATOR_SOAK_KILL_S", "15"))
SEED = int(os.environ.get("OPERATOR_SOAK_SEED") or random.SystemRandom().randrange(1_000_000))
SETTLE_S = 240.0
"""The garbage collector may need a minute, a rebuilt gang and a role that drains some seconds each."""
ROUNDS = max(1, round(SOAK_S / 60))
"""After each of them everything is compared: what leaks goes unseen once its owner is deleted."""
QUIET_S = 10.0
START_S = 60.0
TERMINATING_S = 0.3

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(2 * SOAK_S + SETTLE_S + 5 * START_S)]


@pytest.fixture(scope="module")
def soaked_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane of its own: the operator works for all namespaces, and every request is noted."""
    plane = ControlPlane(Path(tmp_path_factory.mktemp("soaked-plane")), controller_manager=True, audit=True)
    try:
        plane.start()
        everything = {"apiVersion": "v1", "kind": "List", "items": [volcano.POD_GROUP_CRD, *all_crds(), *operator_rights(SUBJECT)]}
        plane.kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(everything))
        names = [f"crd/{crd['metadata']['name']}" for crd in (volcano.POD_GROUP_CRD, *all_crds())]
        plane.kubectl("wait", "--for=condition=Established", "--timeout=60s", *names)
        (plane.directory / "operator.kubeconfig").write_bytes(plane.kubeconfig_for(USER))
        yield plane
    finally:
        plane.stop()


@pytest.fixture
async def cluster(soaked_plane: ControlPlane) -> AsyncIterator[Cluster]:
    """A namespace for the users and one for the operator, whose name differs by a suffix."""
    client = KubeClient(load_config(str(soaked_plane.kubeconfig)), qps=10_000, burst=10_000)
    for name in ("soak", "operator"):
        await client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    for right in operator_namespace_rights(SUBJECT, "operator"):
        await client.create(right)
    yield Cluster(client, "soak")
    await client.close()


@pytest.fixture
async def pods(cluster: Cluster) -> AsyncIterator[ReadyPods]:
    """Pods start on one node and take a moment to terminate."""
    stop = asyncio.Event()
    pods = ReadyPods(cluster.client, cluster.namespace)
    pods.terminating_s = TERMINATING_S
    async with running_node(cluster.client, "soak") as node:
        pods.node = node.name
        task = asyncio.create_task(pods.run(stop))
        yield pods
        stop.set()
        await task


@pytest.fixture
def say() -> Callable[[str], None]:
    """Tells the story: pytest shows it on failure, `make soak-operator` as it goes."""
    start = time.monotonic()

    def write(line: str) -> None:
        print(f"{time.monotonic() - start:7.1f} {line}", flush=True)

    return write


async def test_random_operations_under_kills_end_in_the_desired_state(
    soaked_plane: ControlPlane, cluster: Cluster, pods: ReadyPods, tmp_path: Path, say: Callable[[str], None]
) -> None:
    say(f"seed {SEED}, logs in {tmp_path}")
    operator = Cluster(cluster.client, "operator")
    kubeconfig = soaked_plane.directory / "operator.kubeconfig"
    replicas = [OperatorProcess(kubeconfig, operator.namespace, tmp_path / f"{name}.log") for name in ("one", "two")]
    chaos = Chaos(replicas, operator, random.Random(SEED + 2), KILL_EVERY_S, say)
    runner = Runner(cluster, pods, SEED, say)
    alive = [asyncio.create_task(chaos.keep_alive(replica)) for replica in replicas]
    try:
        await chaos.until_led()
        for _ in range(ROUNDS):
            async with chaos.striking():
                await runner.operate(SOAK_S / ROUNDS)
            await runner.finish()
            say("operations end")
            await runner.until_as_wished(SETTLE_S)
            say(f"as wished after {runner.done} operations; {dict(chaos.counts)}; {len(writes_of(soaked_plane.audit_log, USER))} writes")

        since = soaked_plane.audit_log.stat().st_size
        await steadily(lambda: not writes_of(soaked_plane.audit_log, USER, since), "the operator writes nothing", QUIET_S)
        assert await runner.differences() == []
        assert chaos.defects() == []
    finally:
        say(f"seed was {SEED}")
        for task in alive:
            task.cancel()
        await asyncio.wait(alive)
        for replica in replicas:
            if replica.runs:
                await replica.end()
