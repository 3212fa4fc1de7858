# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from tests.support.client_pods import TLS_ROOT, run_in
from tests.support.deployed_stack import NAMESPACES, DeployedStack
from tests.support.real_lab import until

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900), pytest.mark.xdist_group("lab")]

WORKLOAD, ETCD = NAMESPACES["workload"], NAMESPACES["etcd"]
MEMBERS = [f"https://etcd-{number}.etcd.{ETCD}.svc.cluster.local:2379" for number in range(3)]
PREFIX = f"/{WORKLOAD}/controller/test-faults/"
ONE_OF_EACH = ("infer-operator", "clusterd", "mindie-ms-controller", "mindie-ms-coordinator", "mindie-server", "etcd")
BY_DEPLOYMENTS = ("infer-operator", "clusterd", "mindie-ms-controller", "mindie-ms-coordinator")


def test_a_deleted_pod_of_each_kind_comes_back_without_help(stack: DeployedStack) -> None:
    assert stack.all_ready()
    before = stack.states()
    victims = [stack.pod_of(app) for app in ONE_OF_EACH]

    for victim in victims:
        stack.lab.kubectl("-n", victim.namespace, "delete", "pod", victim.name, "--wait=false")

    uids = {before[victim.name].uid for victim in victims}
    until("all victims are gone", lambda: not uids & {state.uid for state in stack.states().values()}, timeout_s=90)
    until("all pods are Ready", stack.all_ready, timeout_s=150)
    untouched = before.keys() - {victim.name for victim in victims}
    after = stack.states()
    assert {name: after.get(name) for name in untouched} == {name: before[name] for name in untouched}
    verdict = stack.smoke(wait_s=60)
    assert verdict.passed, verdict.reason


def test_a_lost_infra_node_costs_no_data_and_requests_go_on_elsewhere(stack: DeployedStack, etcd_client: str) -> None:
    lost = stack.pod_of("mindie-ms-coordinator").node
    assert lost in {"node1", "node2", "node3"}
    _etcd(stack, etcd_client, "put", f"{PREFIX}before")

    stack.lab.run("kill-node", lost)
    try:
        _etcd(stack, etcd_client, "put", f"{PREFIX}meanwhile")
        until("requests are answered again", lambda: stack.smoke().passed, timeout_s=180)
        until("what ran there runs elsewhere", lambda: _moved_away_from(stack, lost), timeout_s=60)
        _etcd(stack, etcd_client, "put", f"{PREFIX}after")
    finally:
        stack.lab.run("start-node", lost)

    until("all pods are Ready", stack.all_ready, timeout_s=180)
    assert sorted(_etcd(stack, etcd_client, "get", PREFIX)) == [f"{PREFIX}{when}" for when in ("after", "before", "meanwhile")]
    verdict = stack.smoke(wait_s=60)
    assert verdict.passed, verdict.reason


def _etcd(stack: DeployedStack, pod: str, action: str, key: str) -> dict[str, str]:
    answer: dict[str, str] = run_in(stack.lab, WORKLOAD, pod, "etcd_ask", f"{TLS_ROOT}/etcd-controller-tls", action, key, *MEMBERS)
    return answer


def _moved_away_from(stack: DeployedStack, node: str) -> bool:
    """Each Deployment has a Ready pod on another node. Pods of the lost one stay listed until it is back."""
    ready = {pod.app for pod in stack.pods().values() if pod.ready and pod.node != node}
    return ready.issuperset(BY_DEPLOYMENTS)
