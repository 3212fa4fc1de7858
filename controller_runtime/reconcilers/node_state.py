# SPDX-License-Identifier: Apache-2.0
"""Is a node lost, and since when? Pure.

Ready absent, False or Unknown all count as not ready, from the time the condition last changed. Of an unknown node the
lease is asked too: it is renewed by a kubelet that is back, before the condition says so. A condition that is False was
written by a living kubelet, whose lease says nothing.
Source: as the reference operator cleans nodes; grace, lease and opt-out are ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from controller_runtime.api.labels import NODE_CLEANER, NODE_CLEANER_OFF
from controller_runtime.kube.kind import Object

LEASE_DURATION_DEFAULT_S = 40


def project_node(node: Object) -> Object:
    """What the cache keeps of a node: that it is there and its Ready condition."""
    metadata = {key: node["metadata"][key] for key in ("name", "uid", "resourceVersion", "creationTimestamp") if key in node["metadata"]}
    conditions = [each for each in node.get("status", {}).get("conditions", ()) if each["type"] == "Ready"]
    return {"apiVersion": node["apiVersion"], "kind": node["kind"], "metadata": metadata, "status": {"conditions": conditions}}


def is_node_ready(node: Mapping[str, Any]) -> bool:
    """Whether the node says so."""
    return _ready(node).get("status") == "True"


def went_not_ready(old: Object | None, new: Object | None) -> bool:
    """Whether a change is the one from ready to not ready. A node seen for the first time counts."""
    return new is not None and not is_node_ready(new) and (old is None or is_node_ready(old))


def due_in_s(node: Mapping[str, Any], delay_s: float, now: datetime) -> float:
    """Seconds until a node that is not ready counts as lost; 0 or less: it does."""
    since = _ready(node).get("lastTransitionTime") or node["metadata"]["creationTimestamp"]
    return delay_s - (now - datetime.fromisoformat(since)).total_seconds()


def needs_lease(node: Mapping[str, Any]) -> bool:
    """Whether nobody knows about the node, so that its lease must tell."""
    return _ready(node).get("status") != "False"


def lease_left_s(lease: Mapping[str, Any] | None, now: datetime) -> float:
    """For how many seconds a node's lease still holds; 0 when it expired or is not there."""
    spec = (lease or {}).get("spec", {})
    if not spec.get("renewTime"):
        return 0.0
    duration_s = spec.get("leaseDurationSeconds") or LEASE_DURATION_DEFAULT_S
    return max(0.0, duration_s - (now - datetime.fromisoformat(spec["renewTime"])).total_seconds())


def is_opted_out(*objects: Mapping[str, Any] | None) -> bool:
    """Whether a pod, its InferService or its InferServiceSet wants to be left alone."""
    return any(each is not None and each["metadata"].get("labels", {}).get(NODE_CLEANER) == NODE_CLEANER_OFF for each in objects)


def _ready(node: Mapping[str, Any]) -> Mapping[str, Any]:
    return next((each for each in node.get("status", {}).get("conditions", ()) if each["type"] == "Ready"), {})
