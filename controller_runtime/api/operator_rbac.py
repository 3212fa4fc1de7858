# SPDX-License-Identifier: Apache-2.0
"""What the Infer Operator may do, as data: the component and the raw manifest render the same rules.

Least privilege: no wildcard, no Secret; pods are watched and deleted, never changed. `create` stands beside `patch`
because a server-side apply that makes an object needs both; `finalizers` because owner references that block deletion need it
where the API server checks that. Leases for the election and the ConfigMap with the switches are granted by name in the
operator's own namespace only; leases of nodes may be read where nodes keep them.
Of the cluster's CRDs it reads the one it follows, by name.
Seed: operator RFC, 8.4 and 11.1.
"""

from __future__ import annotations

from typing import Any

from controller_runtime.api.meta import GROUP

LEASE_NAME = "infer-operator"
POD_GROUP_CRD = "podgroups.scheduling.volcano.sh"
CONFIG_NAME = "infer-operator-config"
NODE_LEASE_NAMESPACE = "kube-node-lease"

FOLLOW = ("list", "watch")
MANAGE = ("get", *FOLLOW, "create", "patch", "delete")


def cluster_rules() -> list[dict[str, Any]]:
    """Rules of the operator's ClusterRole. A fresh copy on each call."""
    return [
        _rule(GROUP, ("inferservicesets",), FOLLOW),
        _rule(GROUP, ("inferservices", "instancesets"), MANAGE),
        _rule(GROUP, ("inferservicesets/status", "inferservices/status", "instancesets/status"), ("patch",)),
        _rule(GROUP, ("inferservicesets/finalizers", "inferservices/finalizers", "instancesets/finalizers"), ("update",)),
        _rule("apps", ("deployments", "statefulsets"), MANAGE),
        _rule("", ("services",), MANAGE),
        _rule("", ("events",), ("create", "patch")),
        _rule("scheduling.volcano.sh", ("podgroups",), MANAGE),
        _rule("autoscaling", ("horizontalpodautoscalers",), MANAGE),
        {**_rule("apiextensions.k8s.io", ("customresourcedefinitions",), FOLLOW), "resourceNames": [POD_GROUP_CRD]},
        _rule("", ("pods",), (*FOLLOW, "delete")),
        _rule("", ("nodes",), (*FOLLOW, "get")),
        _rule("apps", ("replicasets",), ("get",)),
    ]


def operator_namespace_rules() -> list[dict[str, Any]]:
    """Rules of the Role in the operator's own namespace: leader election, settings."""
    return [
        _rule("coordination.k8s.io", ("leases",), ("create",)),
        {**_rule("coordination.k8s.io", ("leases",), ("get", "update")), "resourceNames": [LEASE_NAME]},
        {**_rule("", ("configmaps",), FOLLOW), "resourceNames": [CONFIG_NAME]},
    ]


def node_lease_rules() -> list[dict[str, Any]]:
    """Rules of the Role in the namespace of the nodes' leases: is a node really lost."""
    return [_rule("coordination.k8s.io", ("leases",), ("get",))]


def _rule(group: str, resources: tuple[str, ...], verbs: tuple[str, ...]) -> dict[str, Any]:
    return {"apiGroups": [group], "resources": list(resources), "verbs": list(verbs)}
