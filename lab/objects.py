# SPDX-License-Identifier: Apache-2.0
"""Objects a usable cluster has from the start: rights of DNS and packet filter, the DNS Service, the storage class."""

from __future__ import annotations

from lab.api_client import KubeObject
from lab.state import Lab

STORAGE_CLASS = "local"
PROVISIONER = "ascend-pd/lab-disk"
_RBAC = "rbac.authorization.k8s.io"


def base_objects(lab: Lab) -> list[KubeObject]:
    """All of them, in the order to apply. DNS gets its rights last: once it is ready, all others are there."""
    return [
        *_grant(
            "system:kube-router",
            _rule("", "namespaces", "pods", "services", "nodes", "endpoints"),
            _rule("networking.k8s.io", "networkpolicies"),
            _rule("discovery.k8s.io", "endpointslices"),
        ),
        *_dns_service(lab),
        _storage_class(),
        *_grant("system:coredns", _rule("", "endpoints", "services", "pods", "namespaces"), _rule("discovery.k8s.io", "endpointslices")),
    ]


def _rule(group: str, *resources: str) -> KubeObject:
    return {"apiGroups": [group], "resources": list(resources), "verbs": ["get", "list", "watch"]}


def _grant(user: str, *rules: KubeObject) -> list[KubeObject]:
    role = {"apiVersion": f"{_RBAC}/v1", "kind": "ClusterRole", "metadata": {"name": user}, "rules": list(rules)}
    binding = {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": user},
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": user},
        "subjects": [{"apiGroup": _RBAC, "kind": "User", "name": user}],
    }
    return [role, binding]


def _dns_service(lab: Lab) -> list[KubeObject]:
    """A Service without selector: DNS is a process of the control plane, not a pod."""
    at = lab.addresses
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "kube-dns", "namespace": "kube-system"},
        "spec": {
            "clusterIP": at.dns_service_ip,
            "ports": [{"name": "dns", "port": 53, "protocol": "UDP"}, {"name": "dns-tcp", "port": 53, "protocol": "TCP"}],
        },
    }
    endpoints = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": "kube-dns-1", "namespace": "kube-system", "labels": {"kubernetes.io/service-name": "kube-dns"}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [at.host_ip], "conditions": {"ready": True}}],
        "ports": [{"name": "dns", "port": at.dns_port, "protocol": "UDP"}, {"name": "dns-tcp", "port": at.dns_port, "protocol": "TCP"}],
    }
    return [service, endpoints]


def _storage_class() -> KubeObject:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": STORAGE_CLASS, "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": PROVISIONER,
        "volumeBindingMode": "WaitForFirstConsumer",
        "reclaimPolicy": "Delete",
    }
