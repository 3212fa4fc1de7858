# SPDX-License-Identifier: Apache-2.0
"""The namespaces of a stack: Pod Security labels, quota, and network policies that allow the named edges only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pulumi import ComponentResource, ResourceOptions
from pulumi_kubernetes.core.v1 import Namespace, ResourceQuota
from pulumi_kubernetes.networking.v1 import NetworkPolicy

from controller_runtime.api.network import Edge, policies
from controller_runtime.api.stack import QuotaSpec

_LEVELS = ("enforce", "audit", "warn")


@dataclass(frozen=True)
class NamespacesArgs:
    """`namespaces`: their names. `edges`: all traffic of the stack; everything else is denied."""

    namespaces: Sequence[str]
    edges: Sequence[Edge]
    quota: QuotaSpec


class Namespaces(ComponentResource):
    """Namespaces that enforce the restricted profile and deny all traffic but `edges`."""

    TOKEN = "ascend-pd:index:Namespaces"

    by_name: dict[str, Namespace]

    def __init__(self, name: str, args: NamespacesArgs, opts: ResourceOptions | None = None) -> None:
        """Declare namespaces, then quotas and policies inside them."""
        super().__init__(self.TOKEN, name, {"namespaces": list(args.namespaces)}, opts)
        self.by_name = {namespace: self._namespace(name, namespace) for namespace in args.namespaces}
        for namespace, made in self.by_name.items():
            self._quota(name, namespace, args.quota, made)
        for manifest in policies(args.edges, args.namespaces):
            namespace = manifest["metadata"]["namespace"]
            NetworkPolicy(
                f"{name}-{namespace}-{manifest['metadata']['name']}",
                metadata=manifest["metadata"],
                spec=manifest["spec"],
                opts=ResourceOptions(parent=self, depends_on=[self.by_name[namespace]]),
            )
        self.register_outputs({})

    def _namespace(self, name: str, namespace: str) -> Namespace:
        metadata = {"name": namespace, "labels": restricted_labels()}
        return Namespace(f"{name}-{namespace}", metadata=metadata, opts=ResourceOptions(parent=self))

    def _quota(self, name: str, namespace: str, quota: QuotaSpec, made: Namespace) -> None:
        hard = {"pods": str(quota.pods), "requests.cpu": quota.requests_cpu, "requests.memory": quota.requests_memory}
        ResourceQuota(
            f"{name}-{namespace}-quota",
            metadata={"name": "ascend-pd", "namespace": namespace},
            spec={"hard": hard},
            opts=ResourceOptions(parent=self, depends_on=[made]),
        )


def restricted_labels() -> dict[str, str]:
    """Labels that make the API server refuse pods outside the restricted profile."""
    return {f"pod-security.kubernetes.io/{level}": "restricted" for level in _LEVELS}
