# SPDX-License-Identifier: Apache-2.0
"""Pods of instances, reduced to what fault handling reads: who owns them, what they say, whether they go.

Pods are the most numerous objects of a cluster and the noisiest, so the cache keeps none of their specs and statuses.
Source: labels and annotations as the reference operator and the Ascend scheduler plugin write them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from controller_runtime.api.labels import (
    CONTROLLER_REVISION,
    FAULT_RETRY_TIMES,
    FAULT_SCHEDULING,
    INSTANCE_INDEX,
    INSTANCE_SET_NAME,
    NODE_CLEANER,
    OPERATOR,
    OPERATOR_VALUE,
    POD_STATUS,
    SERVICE_NAME,
)
from controller_runtime.api.names import decimal
from controller_runtime.kube.kind import Object, controller_owner_of
from controller_runtime.kube.store import IndexFunction
from controller_runtime.reconcilers.ownership import OWNER_INDEX, owner_uids

ROLE_INDEX, NODE_INDEX = "role", "node"
LABELS = (
    OPERATOR,
    SERVICE_NAME,
    INSTANCE_SET_NAME,
    INSTANCE_INDEX,
    FAULT_SCHEDULING,
    FAULT_RETRY_TIMES,
    CONTROLLER_REVISION,
    NODE_CLEANER,
)
METADATA = (
    "namespace",
    "name",
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "ownerReferences",
)
OVER = ("Succeeded", "Failed")
GRACE_DEFAULT_S = 30


@dataclass(frozen=True)
class Owner:
    """The object that controls a pod: the workload itself or something it made."""

    kind: str
    name: str
    uid: str


@dataclass(frozen=True)
class PodView:
    """One pod of an instance. `index`: of the instance; `says`: its `huawei.com/pod-status`."""

    namespace: str
    name: str
    uid: str
    service: str
    role: str
    index: int
    owner: Owner
    created: datetime
    says: str = ""
    retry_times: str | None = None
    fault_scheduling: str = ""
    revision: str = ""
    grace_s: int = GRACE_DEFAULT_S
    gone_by: datetime | None = None
    """When a deletion that was asked for must be over; None while nobody asked."""
    is_over: bool = False

    @classmethod
    def of(cls, pod: Mapping[str, Any]) -> PodView | None:
        """Read a pod; None when it is not one of an instance."""
        metadata = pod["metadata"]
        labels = metadata.get("labels", {})
        index, owner = decimal(labels.get(INSTANCE_INDEX)), controller_owner_of(dict(pod))
        service, role = labels.get(SERVICE_NAME), labels.get(INSTANCE_SET_NAME)
        if labels.get(OPERATOR) != OPERATOR_VALUE or not service or not role or index is None or owner is None:
            return None
        deletion = metadata.get("deletionTimestamp")
        grace_s = pod.get("spec", {}).get("terminationGracePeriodSeconds")
        return cls(
            namespace=metadata["namespace"],
            name=metadata["name"],
            uid=metadata["uid"],
            service=service,
            role=role,
            index=index,
            owner=Owner(str(owner["kind"]), str(owner["name"]), str(owner["uid"])),
            created=moment(metadata["creationTimestamp"]),
            says=metadata.get("annotations", {}).get(POD_STATUS, ""),
            retry_times=labels.get(FAULT_RETRY_TIMES),
            fault_scheduling=labels.get(FAULT_SCHEDULING, ""),
            revision=labels.get(CONTROLLER_REVISION, ""),
            grace_s=GRACE_DEFAULT_S if grace_s is None else int(grace_s),
            gone_by=moment(deletion) if deletion else None,
            is_over=pod.get("status", {}).get("phase") in OVER,
        )


def project_pod(pod: Object) -> Object:
    """What the cache keeps of a pod."""
    metadata, spec = pod["metadata"], pod.get("spec", {})
    labels, annotations = metadata.get("labels", {}), metadata.get("annotations", {})
    kept: Object = {key: metadata[key] for key in METADATA if key in metadata}
    kept["labels"] = {key: labels[key] for key in LABELS if key in labels}
    if POD_STATUS in annotations:
        kept["annotations"] = {POD_STATUS: annotations[POD_STATUS]}
    return {
        "apiVersion": pod["apiVersion"],
        "kind": pod["kind"],
        "metadata": kept,
        "spec": {key: spec[key] for key in ("nodeName", "terminationGracePeriodSeconds") if key in spec},
        "status": {"phase": pod.get("status", {}).get("phase")},
    }


def role_key(namespace: str, service: str, role: str) -> str:
    """Key of the index of pods by role."""
    return f"{namespace}/{service}/{role}"


def asked_to_go_at(metadata: Mapping[str, Any]) -> datetime | None:
    """When the deletion of a pod was asked for, from the moment by which it must be over."""
    deletion = metadata.get("deletionTimestamp")
    return moment(deletion) - timedelta(seconds=metadata.get("deletionGracePeriodSeconds") or 0) if deletion else None


def moment(text: str) -> datetime:
    """A metav1.Time."""
    return datetime.fromisoformat(text)


def _roles(pod: Object) -> Iterable[str]:
    metadata = pod["metadata"]
    labels = metadata["labels"]
    if SERVICE_NAME in labels and INSTANCE_SET_NAME in labels:
        yield role_key(metadata["namespace"], labels[SERVICE_NAME], labels[INSTANCE_SET_NAME])


def _nodes(pod: Object) -> Iterable[str]:
    node = pod["spec"].get("nodeName")
    return (node,) if node else ()


POD_INDEXES: Mapping[str, IndexFunction] = {OWNER_INDEX: owner_uids, ROLE_INDEX: _roles, NODE_INDEX: _nodes}
