# SPDX-License-Identifier: Apache-2.0
"""The operator's rights as objects: exactly the rules of `api/operator_rbac.py`, bound to whom a test wants."""

from __future__ import annotations

from controller_runtime.api.operator_rbac import NODE_LEASE_NAMESPACE, cluster_rules, node_lease_rules, operator_namespace_rules
from controller_runtime.kube.kind import Object

GROUP = "rbac.authorization.k8s.io"


def operator_rights(subject: Object, name: str = "infer-operator") -> list[Object]:
    """Rights outside the operator's own namespace: cluster role, role for the leases of nodes, and their bindings."""
    return [
        {**_object("ClusterRole", name), "rules": cluster_rules()},
        {**_object("ClusterRoleBinding", name), "roleRef": _reference("ClusterRole", name), "subjects": [subject]},
        *_role(name, NODE_LEASE_NAMESPACE, node_lease_rules(), subject),
    ]


def operator_namespace_rights(subject: Object, namespace: str, name: str = "infer-operator") -> list[Object]:
    """Rights in the operator's own namespace."""
    return _role(name, namespace, operator_namespace_rules(), subject)


def _role(name: str, namespace: str, rules: list[Object], subject: Object) -> list[Object]:
    return [
        {**_object("Role", name, namespace), "rules": rules},
        {**_object("RoleBinding", name, namespace), "roleRef": _reference("Role", name), "subjects": [subject]},
    ]


def _object(kind: str, name: str, namespace: str = "") -> Object:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": metadata}


def _reference(kind: str, name: str) -> Object:
    return {"apiGroup": GROUP, "kind": kind, "name": name}
