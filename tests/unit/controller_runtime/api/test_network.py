# SPDX-License-Identifier: Apache-2.0
"""Network policies rendered from edges: both ends of each edge, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from controller_runtime.api.network import Edge, NetworkPeer, PodsOf, policies

A = PodsOf(namespace="one", labels={"app": "a"})
B = PodsOf(namespace="two", labels={"app": "b"})
TCP = [{"port": 80, "protocol": "TCP"}]


def by_name(*edges: Edge) -> dict[tuple[str, str], dict[str, Any]]:
    found = policies(edges, ["one", "two"])
    return {(each["metadata"]["namespace"], each["metadata"]["name"]): each["spec"] for each in found}


def pods(namespace: str, app: str) -> dict[str, Any]:
    return {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "podSelector": {"matchLabels": {"app": app}},
    }


def test_a_namespace_without_edges_denies_everything_in_both_directions() -> None:
    assert by_name() == {
        ("one", "default-deny"): {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]},
        ("two", "default-deny"): {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]},
    }


def test_an_edge_is_allowed_where_it_leaves_and_where_it_arrives() -> None:
    found = by_name(Edge(source=A, target=B, ports=(80,)))

    assert found["one", "allow-a"] == {
        "podSelector": {"matchLabels": {"app": "a"}},
        "policyTypes": ["Egress"],
        "egress": [{"to": [pods("two", "b")], "ports": TCP}],
    }
    assert found["two", "allow-b"] == {
        "podSelector": {"matchLabels": {"app": "b"}},
        "policyTypes": ["Ingress"],
        "ingress": [{"from": [pods("one", "a")], "ports": TCP}],
    }


def test_an_end_outside_the_stack_needs_a_policy_on_the_other_end_only() -> None:
    outside = NetworkPeer(cidr="10.0.0.0/24", port=6443)

    found = by_name(Edge(source=A, target=outside, ports=(6443,)), Edge(source=outside, target=B, ports=(80,)))

    assert found["one", "allow-a"]["egress"][0]["to"] == [{"ipBlock": {"cidr": "10.0.0.0/24"}}]
    assert found["two", "allow-b"]["ingress"][0]["from"] == [{"ipBlock": {"cidr": "10.0.0.0/24"}}]
    assert len(found) == 4


def test_all_pods_of_a_namespace_are_one_group_named_all() -> None:
    dns = NetworkPeer(pods={"k8s-app": "dns"}, namespace="kube-system", port=53)

    found = by_name(Edge(source=PodsOf(namespace="one"), target=dns, ports=(53,), protocols=("UDP", "TCP")))

    assert found["one", "allow-all"] == {
        "podSelector": {},
        "policyTypes": ["Egress"],
        "egress": [
            {
                "to": [
                    {
                        "podSelector": {"matchLabels": {"k8s-app": "dns"}},
                        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}},
                    }
                ],
                "ports": [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}],
            }
        ],
    }


def test_edges_of_one_group_of_pods_share_a_policy_in_their_order() -> None:
    found = by_name(Edge(source=A, target=B, ports=(80,)), Edge(source=A, target=A, ports=(81, 82)))

    assert [rule["ports"][0]["port"] for rule in found["one", "allow-a"]["egress"]] == [80, 81]
    assert found["one", "allow-a"]["policyTypes"] == ["Ingress", "Egress"]


@pytest.mark.parametrize("cidr", ["0.0.0.0/0", "::/0", "10.0.0.1/24", "somewhere"])
def test_a_range_is_a_real_one_and_not_everything(cidr: str) -> None:
    with pytest.raises(ValidationError):
        NetworkPeer(cidr=cidr, port=1)
