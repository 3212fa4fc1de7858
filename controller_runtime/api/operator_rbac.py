# SPDX-License-Identifier: Apache-2.0
"""What the Infer Operator may do, as data: the component and the raw manifest render the same rules.

Least privilege: no wildcard, no Secret, no pod. `create` stands beside `patch` because a server-side apply
that makes an object needs both; `finalizers` because owner references that block deletion need it where the
API server checks that. Leases are granted in the operator's namespace only, by name once they exist.
Of the cluster's CRDs it reads the one it follows, by name.
Seed: operator RFC, 8.4 and 11.1.
"""

from __future__ import annotations

from typing import Any

from controller_runtime.api.meta import GROUP

LEASE_NAME = "infer-operator"
POD_GROUP_CRD = "podgroups.scheduling.volcano.sh"

READ = ("get", "list", "watch")
MANAGE = (*READ, "create", "patch", "delete")


def cluster_rules() -> list[dict[str, Any]]:
    """Rules of the operator's ClusterRole. A fresh copy on each call."""
    return [
        _rule(GROUP, ("inferservicesets",), READ),
        _rule(GROUP, ("inferservices", "instancesets"), MANAGE),
        _rule(GROUP, ("inferservicesets/status", "inferservices/status", "instancesets/status"), ("patch",)),
        _rule(GROUP, ("inferservicesets/finalizers", "inferservices/finalizers", "instancesets/finalizers"), ("update",)),
        _rule("apps", ("deployments", "statefulsets"), MANAGE),
        _rule("", ("services",), MANAGE),
        _rule("", ("events",), ("create", "patch")),
        _rule("scheduling.volcano.sh", ("podgroups",), MANAGE),
        _rule("autoscaling", ("horizontalpodautoscalers",), MANAGE),
        {**_rule("apiextensions.k8s.io", ("customresourcedefinitions",), READ), "resourceNames": [POD_GROUP_CRD]},
    ]


def operator_namespace_rules() -> list[dict[str, Any]]:
    """Rules of the Role in the operator's own namespace: leader election."""
    return [
        _rule("coordination.k8s.io", ("leases",), ("create",)),
        {**_rule("coordination.k8s.io", ("leases",), ("get", "update")), "resourceNames": [LEASE_NAME]},
    ]


def _rule(group: str, resources: tuple[str, ...], verbs: tuple[str, ...]) -> dict[str, Any]:
    return {"apiGroups": [group], "resources": list(resources), "verbs": list(verbs)}
