# SPDX-License-Identifier: Apache-2.0
"""A service account and exactly the rights its pod needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pulumi import ResourceOptions
from pulumi_kubernetes.core.v1 import ServiceAccount
from pulumi_kubernetes.rbac.v1 import ClusterRole, ClusterRoleBinding, Role, RoleBinding

Rules = Sequence[Mapping[str, Any]]

_RBAC = "rbac.authorization.k8s.io"


def service_account(prefix: str, name: str, namespace: str, opts: ResourceOptions) -> ServiceAccount:
    """Declare an account whose token no pod mounts unless it asks to."""
    metadata = {"name": name, "namespace": namespace}
    return ServiceAccount(f"{prefix}-{name}", metadata=metadata, automount_service_account_token=False, opts=opts)


def cluster_rights(prefix: str, name: str, account: tuple[str, str], rules: Rules, opts: ResourceOptions) -> ClusterRoleBinding:
    """Bind rules in every namespace to `account`, a (name, namespace) pair."""
    role = ClusterRole(f"{prefix}-{name}-role", metadata={"name": name}, rules=_mutable(rules), opts=opts)
    return ClusterRoleBinding(
        f"{prefix}-{name}-binding",
        metadata={"name": name},
        role_ref={"api_group": _RBAC, "kind": "ClusterRole", "name": name},
        subjects=[_subject(account)],
        opts=ResourceOptions.merge(opts, ResourceOptions(depends_on=[role])),
    )


def namespace_rights(prefix: str, name: str, namespace: str, account: tuple[str, str], rules: Rules, opts: ResourceOptions) -> RoleBinding:
    """Bind rules in one namespace to `account`."""
    metadata = {"name": name, "namespace": namespace}
    role = Role(f"{prefix}-{namespace}-{name}-role", metadata=metadata, rules=_mutable(rules), opts=opts)
    return RoleBinding(
        f"{prefix}-{namespace}-{name}-binding",
        metadata=metadata,
        role_ref={"api_group": _RBAC, "kind": "Role", "name": name},
        subjects=[_subject(account)],
        opts=ResourceOptions.merge(opts, ResourceOptions(depends_on=[role])),
    )


def _subject(account: tuple[str, str]) -> Any:
    return {"kind": "ServiceAccount", "name": account[0], "namespace": account[1]}


def _mutable(rules: Rules) -> list[Any]:
    return [dict(rule) for rule in rules]
