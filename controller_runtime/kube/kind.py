# SPDX-License-Identifier: Apache-2.0
"""Kinds of the API we speak, their URLs, and the few facts every object has.

Objects stay plain dictionaries inside this package: decoding whole objects into models costs more than the reconcile that
reads two of their fields. Callers parse what is theirs into a model.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import quote

from controller_runtime.errors import TerminalError

Object: TypeAlias = dict[str, Any]
"""An object as JSON. Objects that come out of a store are shared: read them, never change them."""

KubeObject: TypeAlias = Mapping[str, object]
"""The read-only view of the same, for signatures outside this package."""


class Kind(NamedTuple):
    """One resource type: `Kind("apps", "v1", "Deployment", "deployments")`. The core group is `""`."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """`apps/v1`, or `v1` in the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """URL path of a collection (no `name`), an object, or a subresource of it.

        A namespaced kind without `namespace` means the collection of all namespaces.
        """
        parts = ["apis", self.group, self.version] if self.group else ["api", self.version]
        if self.namespaced and namespace:
            parts += ["namespaces", namespace]
        parts += [self.plural, *(part for part in (name, subresource) if part)]
        return "/" + "/".join(quote(part, safe=":") for part in parts)


POD = Kind("", "v1", "Pod", "pods")
SERVICE = Kind("", "v1", "Service", "services")
CONFIG_MAP = Kind("", "v1", "ConfigMap", "configmaps")
SECRET = Kind("", "v1", "Secret", "secrets")
SERVICE_ACCOUNT = Kind("", "v1", "ServiceAccount", "serviceaccounts")
PERSISTENT_VOLUME_CLAIM = Kind("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims")
EVENT = Kind("", "v1", "Event", "events")
NODE = Kind("", "v1", "Node", "nodes", namespaced=False)
NAMESPACE = Kind("", "v1", "Namespace", "namespaces", namespaced=False)
DEPLOYMENT = Kind("apps", "v1", "Deployment", "deployments")
STATEFUL_SET = Kind("apps", "v1", "StatefulSet", "statefulsets")
REPLICA_SET = Kind("apps", "v1", "ReplicaSet", "replicasets")
JOB = Kind("batch", "v1", "Job", "jobs")
LEASE = Kind("coordination.k8s.io", "v1", "Lease", "leases")
HORIZONTAL_POD_AUTOSCALER = Kind("autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers")
POD_DISRUPTION_BUDGET = Kind("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets")
NETWORK_POLICY = Kind("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies")
PRIORITY_CLASS = Kind("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", namespaced=False)
ROLE = Kind("rbac.authorization.k8s.io", "v1", "Role", "roles")
ROLE_BINDING = Kind("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings")
CLUSTER_ROLE = Kind("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", namespaced=False)
CLUSTER_ROLE_BINDING = Kind("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings", namespaced=False)
CRD = Kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False)
POD_GROUP = Kind("scheduling.volcano.sh", "v1beta1", "PodGroup", "podgroups")
INFER_SERVICE_SET = Kind("mindcluster.huawei.com", "v1", "InferServiceSet", "inferservicesets")
INFER_SERVICE = Kind("mindcluster.huawei.com", "v1", "InferService", "inferservices")
INSTANCE_SET = Kind("mindcluster.huawei.com", "v1", "InstanceSet", "instancesets")

_KNOWN: dict[tuple[str, str], Kind] = {
    (value.api_version, value.kind): value for value in list(globals().values()) if isinstance(value, Kind)
}


def kind_of(obj: KubeObject) -> Kind:
    """The kind an object says it has.

    Raises:
        TerminalError: not one of the constants above; pass the kind explicitly then.
    """
    key = (str(obj.get("apiVersion")), str(obj.get("kind")))
    try:
        return _KNOWN[key]
    except KeyError:
        raise TerminalError(f"object of {key[0]}, kind {key[1]}: no such kind is known here. Pass its Kind to the call.") from None


def metadata_of(obj: KubeObject) -> Mapping[str, Any]:
    """`metadata` of any object.

    Raises:
        TerminalError: it has none.
    """
    metadata = obj.get("metadata")
    if not isinstance(metadata, Mapping):
        raise TerminalError(f"object of kind {obj.get('kind')}: no metadata. Give it at least a name.")
    return metadata


def name_of(obj: Object) -> str:
    """`metadata.name`, `""` when the server is to choose one."""
    return str(obj["metadata"].get("name", ""))


def namespace_of(obj: Object) -> str:
    """`metadata.namespace`, `""` for cluster-wide kinds."""
    return str(obj["metadata"].get("namespace", ""))


def uid_of(obj: Object) -> str:
    """`metadata.uid`, `""` before creation."""
    return str(obj["metadata"].get("uid", ""))


def resource_version_of(obj: Object) -> str:
    """`metadata.resourceVersion`: equal means unchanged."""
    return str(obj["metadata"].get("resourceVersion", ""))


def is_deleting(obj: Object) -> bool:
    """Whether deletion was asked for and finalizers or a grace period are pending."""
    return bool(obj["metadata"].get("deletionTimestamp"))


def controller_owner_of(obj: Object) -> Object | None:
    """The one owner reference with `controller: true`."""
    for reference in obj["metadata"].get("ownerReferences", ()):
        if reference.get("controller"):
            return dict(reference)
    return None
