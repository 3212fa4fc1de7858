# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

from lab.volumes import released_volumes, volume_for, waiting_claims

SELECTED = "volume.kubernetes.io/selected-node"


def _claim(uid: str = "u1", storage_class: str = "local", phase: str = "Pending", node: str | None = "node3") -> dict[str, Any]:
    return {
        "metadata": {"name": "data", "namespace": "ns", "uid": uid, "annotations": {SELECTED: node} if node else {}},
        "spec": {"storageClassName": storage_class, "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "5Gi"}}},
        "status": {"phase": phase},
    }


def _volume(phase: str = "Released", storage_class: str = "local", policy: str = "Delete") -> dict[str, Any]:
    return {"spec": {"storageClassName": storage_class, "persistentVolumeReclaimPolicy": policy}, "status": {"phase": phase}}


def test_only_pending_claims_of_our_class_with_a_node_and_no_volume_are_served() -> None:
    served = _claim()
    others = [_claim("u2", storage_class="other"), _claim("u3", phase="Bound"), _claim("u4", node=None), _claim("u5")]

    assert waiting_claims([served, *others], {"local"}, {"pvc-u5"}) == [served]


def test_a_volume_is_bound_to_its_claim_and_its_node() -> None:
    volume = volume_for(_claim())

    assert volume["metadata"]["name"] == "pvc-u1"
    assert volume["spec"]["claimRef"] == {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": "ns",
        "name": "data",
        "uid": "u1",
    }
    (term,) = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert term["matchExpressions"] == [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["node3"]}]
    assert volume["spec"]["local"] == {"path": "/var/lib/lab-volumes/pvc-u1"}
    assert volume["spec"]["capacity"] == {"storage": "5Gi"}


def test_only_released_volumes_of_our_class_with_policy_delete_are_deleted() -> None:
    released = _volume()
    others = [_volume(phase="Bound"), _volume(storage_class="other"), _volume(policy="Retain")]

    assert released_volumes([released, *others], {"local"}) == [released]
