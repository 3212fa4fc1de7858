# SPDX-License-Identifier: Apache-2.0
"""Pods on lost nodes, and the switch that turns all of fault handling off and on."""

from __future__ import annotations

import uuid

import pytest

from controller_runtime.api.labels import NODE_CLEANER
from controller_runtime.foundation.metrics import REGISTRY
from controller_runtime.kube.kind import CONFIG_MAP, INFER_SERVICE_SET, POD, STATEFUL_SET, Object, uid_of
from controller_runtime.reconcilers.operator import OperatorSettings
from tests.support.eventually import eventually, steadily
from tests.support.fake_node import FakeNode
from tests.support.infer import pod_template, role, set_object
from tests.support.life_log import life_log
from tests.support.objects import config_map
from tests.support.operator_rights import GROUP, operator_namespace_rights
from tests.support.operator_run import Cluster, running_operator
from tests.support.ready_pods import ReadyPods
from tests.support.recording_client import RecordingClient

pytestmark = pytest.mark.cluster

AT_ONCE = OperatorSettings(node_cleaner_delay_s=0)
CONFIG = "infer-operator-config"


@pytest.fixture(autouse=True)
def no_kubelet(pods: ReadyPods, node: FakeNode) -> None:
    """Nobody ends the pods that are deleted."""
    pods.terminating_s = None


@pytest.fixture
async def operator_namespace(cluster: Cluster) -> str:
    """A namespace of the operator's own, with its rights there."""
    name = f"o-{uuid.uuid4().hex[:10]}"
    await cluster.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    for right in operator_namespace_rights({"apiGroup": GROUP, "kind": "User", "name": "infer-operator"}, name):
        await cluster.client.create(right)
    return name


async def uids(cluster: Cluster) -> set[str]:
    """Uids of the pods."""
    return {uid_of(each) for each in (await cluster.client.list(POD, cluster.namespace))[0]}


def cleanings(result: str = "success") -> float:
    """Reconciles of nodes so far."""
    labels = {"controller": "node-cleaner", "result": result}
    return REGISTRY.get_sample_value("controller_runtime_reconcile_total", labels) or 0.0


def stranger(cluster: Cluster, node: FakeNode) -> Object:
    """A pod of somebody else on the node."""
    spec = {"nodeName": node.name, "containers": [{"name": "main", "image": "example/none:1"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "stranger"}, "spec": spec}


@pytest.mark.parametrize("says", ["False", "Unknown"])
async def test_v55_pods_of_a_node_that_went_not_ready_are_removed_others_stay(
    cluster: Cluster, operator_client: RecordingClient, node: FakeNode, says: str
) -> None:
    """Vector 55."""
    await cluster.write(set_object("x", [role("a", 2, "StatefulSet"), role("b", 2)]))
    other = await cluster.write(stranger(cluster, node))
    async with running_operator(operator_client, AT_ONCE):
        await cluster.until_ready(INFER_SERVICE_SET, "x")
        ours = await uids(cluster) - {uid_of(other)}
        async with life_log(cluster.client, cluster.namespace, POD) as log:
            node.renews = False
            await node.renew(age_s=120)
            await node.report(says)

            await eventually(lambda: log.removed.keys() >= ours, "the pods are removed", 30)
            assert uid_of(other) in await uids(cluster)
            assert uid_of(other) not in log.removed


async def test_v55_a_node_that_stays_not_ready_is_cleaned_once(
    cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods, node: FakeNode
) -> None:
    """Vector 55: what it gets later stays; only the change counts."""
    await cluster.write(set_object("x", [role("a", 1, "StatefulSet")]))
    async with running_operator(operator_client, AT_ONCE):
        await cluster.until_ready(INFER_SERVICE_SET, "x")
        old = await uids(cluster)
        before = cleanings()
        await node.report("False")
        await eventually(lambda: _are_replaced(cluster, old), "the pod is replaced", 30)
        await cluster.until_ready(INFER_SERVICE_SET, "x")
        replaced = await uids(cluster)

        for age_s in (0, 3):
            await node.report("False", age_s)
        await steadily(lambda: _are(cluster, replaced), "the new pod stays", 3)
        assert cleanings() == before + 1


async def _are_replaced(cluster: Cluster, old: set[str]) -> bool:
    return bool(now := await uids(cluster)) and now.isdisjoint(old)


async def _are(cluster: Cluster, expected: set[str]) -> bool:
    return await uids(cluster) == expected


async def test_a_node_that_comes_back_in_time_loses_nothing(cluster: Cluster, operator_client: RecordingClient, node: FakeNode) -> None:
    await cluster.write(set_object("x", [role("a", 2, "StatefulSet")]))
    async with running_operator(operator_client, OperatorSettings(node_cleaner_delay_s=4)):
        await cluster.until_ready(INFER_SERVICE_SET, "x")
        old = await uids(cluster)
        before = cleanings("requeue_after"), cleanings()
        await node.report("False")
        await eventually(lambda: cleanings("requeue_after") > before[0], "the node is noticed", 30)
        await node.report("True")

        await steadily(lambda: _are(cluster, old), "its pods stay", 6)
        assert cleanings() > before[1]


async def test_an_unknown_node_whose_lease_is_renewed_is_not_lost(
    cluster: Cluster, operator_client: RecordingClient, node: FakeNode
) -> None:
    """The kubelet is back, and about to say so."""
    await cluster.write(set_object("x", [role("a", 2, "StatefulSet")]))
    async with running_operator(operator_client, AT_ONCE):
        await cluster.until_ready(INFER_SERVICE_SET, "x")
        old = await uids(cluster)
        before = cleanings("requeue_after")
        await node.renew()
        await node.report("Unknown")

        await eventually(lambda: cleanings("requeue_after") > before, "the node is noticed", 30)
        await steadily(lambda: _are(cluster, old), "its pods stay", 2)


async def test_the_delay_counts_from_the_change_even_for_an_operator_that_starts_later(
    cluster: Cluster, operator_client: RecordingClient, node: FakeNode
) -> None:
    await cluster.write(set_object("x", [role("a", 1, "StatefulSet")]))
    async with running_operator(operator_client):
        await cluster.until_ready(INFER_SERVICE_SET, "x")
    old = await uids(cluster)
    await node.report("False", age_s=300)

    async with running_operator(operator_client, OperatorSettings(node_cleaner_delay_s=200)):
        await eventually(lambda: _are_replaced(cluster, old), "the pod is replaced", 30)


@pytest.mark.parametrize("who", ["pod", "set"])
async def test_whoever_opts_out_keeps_its_pods(cluster: Cluster, operator_client: RecordingClient, node: FakeNode, who: str) -> None:
    off = {NODE_CLEANER: "off"}
    spec = {"replicas": 1, "template": pod_template(off if who == "pod" else None)}
    kept = set_object("kept", [role("a", 1, "StatefulSet", spec=spec)])
    if who == "set":
        kept["metadata"]["labels"] = off
    await cluster.write(kept)
    async with running_operator(operator_client, AT_ONCE):
        await cluster.until_ready(INFER_SERVICE_SET, "kept")
        old = await uids(cluster)
        await cluster.write(set_object("x", [role("a", 1, "StatefulSet")]))
        await cluster.until_ready(INFER_SERVICE_SET, "x")
        lost = await uids(cluster) - old
        async with life_log(cluster.client, cluster.namespace, POD) as log:
            await node.report("False")

            await eventually(lambda: log.removed.keys() >= lost, "the other pod is removed", 30)
            await steadily(lambda: log.removed.keys() == lost, "the pod stays", 2)


async def test_without_node_cleaner_nothing_is_removed(cluster: Cluster, operator_client: RecordingClient, node: FakeNode) -> None:
    await cluster.write(set_object("x", [role("a", 1, "StatefulSet")]))
    async with running_operator(operator_client, OperatorSettings(node_cleaner_delay_s=None)):
        await cluster.until_ready(INFER_SERVICE_SET, "x")
        old = await uids(cluster)
        await node.report("False")
        await steadily(lambda: _are(cluster, old), "the pod stays", 3)


async def test_fault_handling_is_switched_at_run_time(
    cluster: Cluster, operator_client: RecordingClient, node: FakeNode, pods: ReadyPods, operator_namespace: str
) -> None:
    """Off: neither rebuild nor removal. Nonsense: as before, and an Event. On again, or no ConfigMap: what was missed is done."""
    pods.terminating_s = 0.0
    await cluster.write(set_object("x", [role("a", 1, "StatefulSet"), role("b", 1, "StatefulSet")]))
    settings = config_map(operator_namespace, CONFIG, fault_handling="false")
    await cluster.client.create(settings)
    async with running_operator(operator_client, OperatorSettings(namespace=operator_namespace, node_cleaner_delay_s=0)):
        await cluster.until_ready(INFER_SERVICE_SET, "x")
        before, old = await cluster.uids(STATEFUL_SET), await uids(cluster)
        await cluster.client.patch(
            POD, "x-0-a-0-0", cluster.namespace, {"metadata": {"annotations": {"huawei.com/pod-status": "Unhealthy"}}}
        )
        await node.report("False")
        await steadily(lambda: _are(cluster, old), "nothing is done about faults", 2)

        await cluster.client.patch(CONFIG_MAP, CONFIG, operator_namespace, {"data": {"fault_handling": "maybe"}})
        own = Cluster(cluster.client, operator_namespace)
        await eventually(lambda: _is_told(own), "the value is told", 30)
        await steadily(lambda: _are(cluster, old), "the value before stays", 2)
        assert await own.events("InvalidSetting") == [(f"ConfigMap/{CONFIG}", 1)]

        await cluster.client.delete(CONFIG_MAP, CONFIG, operator_namespace)
        await eventually(lambda: _are_replaced(cluster, old), "pods of the node and of the faulty instance are replaced", 30)

        async def is_rebuilt() -> bool:
            now = await cluster.uids(STATEFUL_SET)
            return [name for name, uid in before.items() if now.get(name, uid) != uid] == ["StatefulSet/x-0-a-0"]

        await eventually(is_rebuilt, "the faulty instance is made again", 30)
        await cluster.until_ready(INFER_SERVICE_SET, "x")


async def _is_told(own: Cluster) -> bool:
    return await own.events("InvalidSetting") != []
