# SPDX-License-Identifier: Apache-2.0
"""The traffic that a stack allows, pair by pair."""

from __future__ import annotations

from controller_runtime.api.edges import stack_edges
from controller_runtime.api.network import NetworkPeer, PodsOf
from controller_runtime.api.stack import StackConfig
from tests.support.declared_stack import ENGINE, stack_file, trial_stack

WANTED = {
    ("etcd", "etcd"): {2379, 2380},
    ("etcd-auth", "etcd"): {2379},
    ("mindie-ms-controller", "etcd"): {2379},
    ("mindie-ms-coordinator", "etcd"): {2379},
    ("mindie-ms-controller", "mindie-ms-coordinator"): {1026, 1028},
    ("mindie-ms-controller", "mindie-server"): {1026, 1027, 1028},
    ("mindie-ms-controller", "clusterd"): {8899},
    ("mindie-ms-coordinator", "mindie-ms-controller"): {1027},
    ("mindie-server", "mindie-ms-controller"): {1027},
    ("mindie-ms-coordinator", "mindie-server"): {1025, 1026},
    ("mindie-server", "mindie-server"): {1030},
    ("pd-proof", "mindie-ms-coordinator"): {1025},
    ("infer-operator", "10.99.0.1/32"): {26043},
    ("clusterd", "10.99.0.1/32"): {26043},
    ("all of ascend-pd-etcd", "kube-dns"): {53},
    ("all of mindie", "kube-dns"): {53},
    ("all of mindx-dl", "kube-dns"): {53},
}


def pairs(config: StackConfig) -> dict[tuple[str, str], set[int]]:
    found: dict[tuple[str, str], set[int]] = {}
    for edge in stack_edges(config):
        found.setdefault((_name(edge.source), _name(edge.target)), set()).update(edge.ports)
    return found


def _name(end: PodsOf | NetworkPeer) -> str:
    if isinstance(end, PodsOf):
        return end.labels.get("app", f"all of {end.namespace}")
    return end.cidr or " ".join((end.pods or {}).values())


def test_these_pairs_talk_on_these_ports_and_no_others() -> None:
    assert pairs(trial_stack()) == WANTED


def test_monitoring_reads_every_kind_of_metrics_and_clients_the_inference_port_only() -> None:
    changes = {
        "network.monitoring": [{"pods": {"app": "prometheus"}, "namespace": "monitoring", "port": 9090}],
        "network.clients": [{"cidr": "10.1.0.0/16", "port": 1}],
    }

    added = {pair: ports for pair, ports in pairs(trial_stack(changes)).items() if pair not in WANTED}

    assert added == {
        ("prometheus", "mindie-ms-coordinator"): {1028},
        ("prometheus", "mindie-ms-controller"): {1029},
        ("prometheus", "mindie-server"): {1027},
        ("prometheus", "infer-operator"): {8443},
        ("prometheus", "etcd"): {8080},
        ("10.1.0.0/16", "mindie-ms-coordinator"): {1025},
    }


def test_a_sites_clusterd_is_reached_where_the_site_says_and_needs_no_api_server() -> None:
    config = trial_stack(ENGINE)

    assert set(pairs(config)) ^ set(WANTED) == {("clusterd", "10.99.0.1/32")}
    (target,) = [edge.target for edge in stack_edges(config) if 8899 in edge.ports]
    assert isinstance(target, NetworkPeer)


def test_the_port_of_a_sites_clusterd_is_the_one_behind_address_translation() -> None:
    config = trial_stack(ENGINE | {"clusterd.peer": {"pods": {"app": "clusterd"}, "port": 9000}})

    (edge,) = [edge for edge in stack_edges(config) if isinstance(edge.target, NetworkPeer) and edge.target.pods == {"app": "clusterd"}]
    assert edge.ports == (9000,)


def test_the_example_site_reaches_every_api_server() -> None:
    targets = {target for source, target in pairs(stack_file("example-prod")) if source == "infer-operator"}

    assert targets == {"10.20.0.11/32", "10.20.0.12/32", "10.20.0.13/32"}


def test_edges_follow_the_configured_ports() -> None:
    found = pairs(trial_stack({"workload.ports.management": 4026, "coordinator.ports.predict": 3025, "controller.ports.alarm": 2027}))

    assert found["mindie-ms-controller", "mindie-server"] == {4026, 1027, 1028}
    assert found["pd-proof", "mindie-ms-coordinator"] == {3025}
    assert found["mindie-server", "mindie-ms-controller"] == {2027}
