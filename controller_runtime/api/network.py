# SPDX-License-Identifier: Apache-2.0
"""Who may talk to whom: the network edges of a stack and the policies that allow nothing else.

An edge is written once and allowed on both ends: egress at its source, ingress at its target.
Source: deployment manual, hardening; operator RFC, 11.3.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from ipaddress import ip_network
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from controller_runtime.api.base import Model

Protocol = Literal["TCP", "UDP"]


def _is_cidr(text: str) -> str:
    try:
        network = ip_network(text)
    except ValueError as err:
        raise ValueError(f"{text!r} is no address range: {err}. Write for example 10.0.0.0/24 or 10.0.0.7/32") from err
    if network.prefixlen == 0:
        raise ValueError(f"{text!r} allows every address. Name the ranges that need it")
    return text


Cidr = Annotated[str, AfterValidator(_is_cidr)]


class NetworkPeer(Model):
    """One end outside the stack: pods by label in a namespace, or an address range. Exactly one of both."""

    pods: dict[str, str] | None = None
    """Labels of the pods; an empty mapping means every pod of the namespace."""
    namespace: str | None = None
    """Value of the label `kubernetes.io/metadata.name`."""
    cidr: Cidr | None = None
    port: Annotated[int, Field(ge=1, le=65535)]
    """Port after address translation: the port of the pod or host, not of a ClusterIP."""

    @model_validator(mode="after")
    def _one_form(self) -> NetworkPeer:
        if (self.cidr is None) == (self.pods is None):
            raise ValueError("gives both or neither of cidr and pods. Give exactly one")
        return self

    def peer(self) -> dict[str, Any]:
        """Render as a NetworkPolicyPeer."""
        if self.cidr is not None:
            return {"ipBlock": {"cidr": self.cidr}}
        peer: dict[str, Any] = {"podSelector": {"matchLabels": dict(self.pods or {})} if self.pods else {}}
        if self.namespace:
            peer["namespaceSelector"] = {"matchLabels": {"kubernetes.io/metadata.name": self.namespace}}
        return peer


class NetworkSpec(Model):
    """What the stack's pods reach outside the stack, and who reaches the stack."""

    dns: tuple[NetworkPeer, ...] = (NetworkPeer(pods={"k8s-app": "kube-dns"}, namespace="kube-system", port=53),)
    api_server: tuple[NetworkPeer, ...]
    """Addresses of the API server. No default: it is outside the pod network and differs per site."""
    clients: tuple[NetworkPeer, ...] = ()
    """Who may send requests, besides the stack's own proof. `port` is ignored: it is the inference port."""
    monitoring: tuple[NetworkPeer, ...] = ()
    """Who may read metrics. `port` is ignored."""


class PodsOf(Model):
    """One end inside the stack: pods with these labels in this namespace; no labels = all of them."""

    namespace: str
    labels: Mapping[str, str] = Field(default_factory=dict)


class Edge(Model):
    """Traffic from `source` to `target` on `ports`."""

    source: PodsOf | NetworkPeer
    target: PodsOf | NetworkPeer
    ports: tuple[int, ...]
    protocols: tuple[Protocol, ...] = ("TCP",)


def policies(edges: Iterable[Edge], namespaces: Iterable[str]) -> list[dict[str, Any]]:
    """Render the edges and one default-deny per namespace as NetworkPolicy manifests.

    One policy per group of pods, named `allow-<app or all>`; order is stable.
    """
    found: dict[tuple[str, tuple[tuple[str, str], ...]], dict[str, list[dict[str, Any]]]] = defaultdict(
        lambda: {"ingress": [], "egress": []}
    )
    for edge in edges:
        ports = [{"port": port, "protocol": protocol} for port in edge.ports for protocol in edge.protocols]
        if isinstance(edge.source, PodsOf):
            found[_key(edge.source)]["egress"].append({"to": [_peer(edge.target)], "ports": ports})
        if isinstance(edge.target, PodsOf):
            found[_key(edge.target)]["ingress"].append({"from": [_peer(edge.source)], "ports": ports})
    deny = [_policy("default-deny", namespace, {}, {"ingress": [], "egress": []}) for namespace in dict.fromkeys(namespaces)]
    allow = [_policy(f"allow-{_label_name(labels)}", namespace, dict(labels), rules) for (namespace, labels), rules in found.items()]
    return deny + allow


def _key(pods: PodsOf) -> tuple[str, tuple[tuple[str, str], ...]]:
    return pods.namespace, tuple(sorted(pods.labels.items()))


def _label_name(labels: tuple[tuple[str, str], ...]) -> str:
    return "-".join(value for _, value in labels) or "all"


def _peer(end: PodsOf | NetworkPeer) -> dict[str, Any]:
    if isinstance(end, NetworkPeer):
        return end.peer()
    return {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": end.namespace}},
        "podSelector": {"matchLabels": dict(end.labels)} if end.labels else {},
    }


def _policy(name: str, namespace: str, labels: dict[str, str], rules: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    default_deny = not rules["ingress"] and not rules["egress"]
    types = [title for title, key in (("Ingress", "ingress"), ("Egress", "egress")) if default_deny or rules[key]]
    spec: dict[str, Any] = {"podSelector": {"matchLabels": labels} if labels else {}, "policyTypes": types}
    spec |= {key: value for key, value in rules.items() if value}
    return {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": name, "namespace": namespace}, "spec": spec}
