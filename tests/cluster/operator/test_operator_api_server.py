# SPDX-License-Identifier: Apache-2.0
"""An operator whose API server restarts, forgets, sheds load and fails: it catches up, and never hammers.

The control plane is one of its own, because its API server is restarted. The operator leads by a lease meanwhile, as in a
cluster, and goes on with the same process.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from controller_runtime.api.crds import all_crds
from controller_runtime.kube.client import KubeClient
from controller_runtime.kube.config import load_config
from controller_runtime.kube.kind import DEPLOYMENT, INFER_SERVICE, INFER_SERVICE_SET, INSTANCE_SET, SERVICE, STATEFUL_SET
from controller_runtime.kube.lease import LeaseElector
from tests.support.api_proxy import ApiProxy, Refusal, api_proxy
from tests.support.control_plane import ControlPlane
from tests.support.eventually import steadily
from tests.support.infer import role, set_object
from tests.support.operator_rights import GROUP, operator_namespace_rights, operator_rights
from tests.support.operator_run import Cluster, running_operator
from tests.support.ready_pods import ReadyPods
from tests.support.tcp_gate import TcpGate

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

USER = "infer-operator"
SUBJECT = {"apiGroup": GROUP, "kind": "User", "name": USER}
OURS = (INFER_SERVICE, INSTANCE_SET, STATEFUL_SET, DEPLOYMENT, SERVICE)
ROLES = [role("a", 2, "StatefulSet"), role("b", 1)]
CHILDREN_OF_ONE = 1 + 2 + 3 + 3


@pytest.fixture(scope="module")
def fragile_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane whose API server may be restarted."""
    plane = ControlPlane(Path(tmp_path_factory.mktemp("fragile-plane")), controller_manager=True)
    try:
        plane.start()
        everything = {"apiVersion": "v1", "kind": "List", "items": [*all_crds(), *operator_rights(SUBJECT)]}
        plane.kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(everything))
        plane.kubectl("wait", "--for=condition=Established", "--timeout=60s", *(f"crd/{crd['metadata']['name']}" for crd in all_crds()))
        yield plane
    finally:
        plane.stop()


@pytest.fixture
async def cluster(fragile_plane: ControlPlane) -> AsyncIterator[Cluster]:
    """A namespace of this test, whose objects are gone when it ends."""
    client = KubeClient(load_config(str(fragile_plane.kubeconfig)), qps=10_000, burst=10_000)
    name = f"t-{time.monotonic_ns()}"
    await client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    for right in operator_namespace_rights(SUBJECT, name):
        await client.create(right)
    yield Cluster(client, name)
    await asyncio.to_thread(fragile_plane.kubectl, "delete", "iss,is,ist", "--all", "--namespace", name, "--wait=false")
    await client.close()


@contextlib.asynccontextmanager
async def operating(kubeconfig: Path, cluster: Cluster) -> AsyncIterator[asyncio.Task[None]]:
    """An operator that leads by a lease; it must still run at the end."""
    client = KubeClient(load_config(str(kubeconfig)), qps=10_000, burst=10_000)
    elector = LeaseElector(client, cluster.namespace, USER, "a")
    try:
        async with running_operator(client, elector=elector) as running:
            yield running
            assert not running.done()
    finally:
        await client.close()


@contextlib.asynccontextmanager
async def behind_gate(plane: ControlPlane, cluster: Cluster, directory: Path) -> AsyncIterator[TcpGate]:
    """An operator whose connections can be cut."""
    async with TcpGate.before(plane.url) as gate:
        kubeconfig = directory / "gate.kubeconfig"
        await asyncio.to_thread(kubeconfig.write_bytes, plane.kubeconfig_for(USER, server=gate.url))
        async with operating(kubeconfig, cluster):
            yield gate


@contextlib.asynccontextmanager
async def behind_proxy(plane: ControlPlane, cluster: Cluster, directory: Path) -> AsyncIterator[ApiProxy]:
    """An operator whose requests can be refused."""
    async with api_proxy(plane, USER, directory / "proxy.kubeconfig") as proxy, operating(proxy.kubeconfig, cluster):
        yield proxy


async def test_an_api_server_that_restarts_between_changes_is_outlived(
    fragile_plane: ControlPlane, cluster: Cluster, pods: ReadyPods, tmp_path: Path
) -> None:
    await cluster.write(set_object("x", ROLES))
    async with behind_gate(fragile_plane, cluster, tmp_path):
        await cluster.until_ready(INFER_SERVICE_SET, "x")
        await cluster.edit(INFER_SERVICE_SET, "x", ("replace", "/spec/template/roles/0/replicas", 3))
        fragile_plane.restart_api_server()
        patch = json.dumps([{"op": "replace", "path": "/spec/template/roles/1/replicas", "value": 2}])
        fragile_plane.kubectl("patch", "iss", "x", "--type=json", f"--patch={patch}", f"--namespace={cluster.namespace}")

        await cluster.until_ready(INFER_SERVICE_SET, "x")
        await cluster.until_names(STATEFUL_SET, "x-0-a-0", "x-0-a-1", "x-0-a-2")
        await cluster.until_names(DEPLOYMENT, "x-0-b-0", "x-0-b-1")


@pytest.mark.parametrize("history", ["is there", "is compacted away"])
async def test_what_happens_while_the_watches_are_down_is_caught_up_with(
    fragile_plane: ControlPlane, cluster: Cluster, pods: ReadyPods, tmp_path: Path, history: str
) -> None:
    """Deletes in the gap reach the operator as tombstones, a set made again under its name as a delete and an add."""
    for name in ("edited", "damaged", "deleted", "reborn"):
        await cluster.write(set_object(name, ROLES))
    async with behind_gate(fragile_plane, cluster, tmp_path) as gate:
        for name in ("edited", "damaged", "deleted", "reborn"):
            await cluster.until_ready(INFER_SERVICE_SET, name)
        before = await cluster.uids(*OURS)

        await gate.cut()
        await cluster.edit(INFER_SERVICE_SET, "edited", ("replace", "/spec/template/roles/0/replicas", 1))
        await cluster.delete(STATEFUL_SET, "damaged-0-a-1")
        await cluster.delete(SERVICE, "service-damaged-0-a-0")
        await cluster.delete(INSTANCE_SET, "damaged-0-b")
        await cluster.delete(INFER_SERVICE_SET, "deleted")
        await cluster.delete(INFER_SERVICE_SET, "reborn")
        await cluster.write(set_object("reborn", [role("a", 1, "StatefulSet")]))
        if history == "is compacted away":
            fragile_plane.compact()
            fragile_plane.restart_api_server()
        await gate.restore()

        for name in ("edited", "damaged", "reborn"):
            await cluster.until_ready(INFER_SERVICE_SET, name)
        await cluster.until_names(STATEFUL_SET, "edited-0-a-0", "damaged-0-a-0", "damaged-0-a-1", "reborn-0-a-0")
        await cluster.until_names(DEPLOYMENT, "edited-0-b-0", "damaged-0-b-0")
        await cluster.until_names(INFER_SERVICE, "edited-0", "damaged-0", "reborn-0")
        after = await cluster.uids(*OURS)
    same = ("StatefulSet/edited-0-a-0", "StatefulSet/damaged-0-a-0", "Deployment/edited-0-b-0")
    anew = ("StatefulSet/damaged-0-a-1", "Service/service-damaged-0-a-0", "InstanceSet/damaged-0-b", "InferService/reborn-0")
    assert [before[key] == after[key] for key in same] == [True] * len(same)
    assert [before[key] == after[key] for key in anew] == [False] * len(anew)


async def test_an_api_server_that_sheds_load_is_left_alone_for_as_long_as_it_says(
    fragile_plane: ControlPlane, cluster: Cluster, pods: ReadyPods, tmp_path: Path
) -> None:
    """429 with Retry-After, as priority and fairness answers: no request comes back earlier, and none is lost."""

    def refuse(_method: str, path: str) -> Refusal | None:
        times = [each for each in proxy.seen if each.path == path]
        return Refusal(429, retry_after_s=2) if "/instancesets/" in path and len(times) < 2 else None

    async with behind_proxy(fragile_plane, cluster, tmp_path) as proxy:
        proxy.refuse = refuse
        await cluster.write(set_object("x", ROLES))
        await cluster.until_ready(INFER_SERVICE_SET, "x")
    paths = {each.path for each in proxy.seen if each.status == 429}
    assert len(paths) == 2 + 2
    for path in paths:
        times = [each.at_s for each in proxy.seen if each.path == path]
        assert [later - earlier >= 2.0 for earlier, later in pairwise(times[:3])] == [True, True], times


@pytest.mark.parametrize("status", [409, 500, 503])
@pytest.mark.parametrize("passed_on", [False, True], ids=["not-done", "done-but-not-told"])
async def test_refusals_in_bursts_cost_time_and_nothing_else(
    fragile_plane: ControlPlane, cluster: Cluster, pods: ReadyPods, tmp_path: Path, status: int, passed_on: bool
) -> None:
    """Each path is refused three times, reads and leases too; also where the write was done and only the answer was lost."""
    left: Counter[str] = Counter()

    def refuse(method: str, path: str) -> Refusal | None:
        if method == "GET" and "/leases" not in path:
            return None
        left[path] += 1
        return Refusal(status, passed_on=passed_on) if left[path] <= 3 else None

    async with behind_proxy(fragile_plane, cluster, tmp_path) as proxy:
        await cluster.write(set_object("other", [role("c")]))
        await cluster.until_ready(INFER_SERVICE_SET, "other")
        proxy.refuse = refuse
        await cluster.write(set_object("x", ROLES))
        await cluster.until_ready(INFER_SERVICE_SET, "x")
        made = await cluster.uids(*OURS)
        count = len(proxy.writes)
        await steadily(lambda: len(proxy.writes) == count, "it is quiet", 2)
        complaints = [await cluster.events(reason) for reason in ("ValidateError", "ServiceCreateError", "NameConflict")]
    assert complaints == [[], [], []]
    assert len([key for key in made if "x-0" in key]) == CHILDREN_OF_ONE
    assert max(Counter(each.path for each in proxy.writes if each.status >= 400).values()) <= 3


async def test_an_api_server_that_fails_for_a_while_is_asked_ever_more_slowly(
    fragile_plane: ControlPlane, cluster: Cluster, pods: ReadyPods, tmp_path: Path
) -> None:
    async with behind_proxy(fragile_plane, cluster, tmp_path) as proxy:
        await cluster.write(set_object("other", [role("c")]))
        await cluster.until_ready(INFER_SERVICE_SET, "other")
        proxy.refuse = lambda method, path: Refusal(503) if method != "GET" and "/leases" not in path else None
        start = len(proxy.writes)
        await cluster.write(set_object("x", ROLES))
        await steadily(lambda: True, "time passes", 5)
        assert len(proxy.writes) - start <= 2 * 12
        proxy.refuse = lambda _method, _path: None
        await cluster.until_ready(INFER_SERVICE_SET, "x")
