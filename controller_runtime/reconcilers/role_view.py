# SPDX-License-Identifier: Apache-2.0
"""An InstanceSet as its children see it: which service, which role, where in which set.

Children take their names and labels from here and never from the InstanceSet's own name. A hand-written InstanceSet may lack
the labels; then its owner, its spec and its name stand in for them.
Seed: operator RFC, 6.1.3 and 6.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from controller_runtime.api.instance_set import KIND, InstanceSet
from controller_runtime.api.labels import (
    APPLIED_HASH,
    FAULT_RECORD,
    GANG_SCHEDULE,
    INSTANCE_SET_NAME,
    ROLLOUT_WAITS_FOR,
    SCHEDULING_STRATEGY,
    SERVICE_NAME,
    index_labels,
)
from controller_runtime.api.meta import API_VERSION, JsonObject
from controller_runtime.api.names import ServicePlace, service_place

PARALLEL = "Parallel"
OWN_ANNOTATIONS = frozenset({APPLIED_HASH, FAULT_RECORD, ROLLOUT_WAITS_FOR})
"""What the operator notes on an InstanceSet for itself."""


@dataclass(frozen=True)
class RoleView:
    """One InstanceSet with its defaults filled in."""

    instance_set: InstanceSet
    service: str
    role: str
    place: ServicePlace

    @classmethod
    def of(cls, instance_set: InstanceSet, service_labels: Mapping[str, str]) -> RoleView:
        """`service_labels`: labels of the InferService that owns it, empty when none does."""
        metadata = instance_set.metadata
        owner = metadata.controller
        service = metadata.labels.get(SERVICE_NAME) or (owner.name if owner else metadata.name)
        role = metadata.labels.get(INSTANCE_SET_NAME) or instance_set.spec.name or metadata.name
        return cls(instance_set, service, role, service_place(service, service_labels))

    @property
    def replicas(self) -> int:
        """Instances asked for."""
        return self.instance_set.spec.replicas or 0

    @property
    def is_gang(self) -> bool:
        """Whether all pods of an instance start, or none. Exactly `true` asks for it."""
        return self.instance_set.metadata.labels.get(GANG_SCHEDULE) == "true"

    @property
    def labels(self) -> dict[str, str]:
        """Labels that children inherit."""
        inherited = {SCHEDULING_STRATEGY: PARALLEL, **self.instance_set.metadata.labels}
        return {**inherited, SERVICE_NAME: self.service, INSTANCE_SET_NAME: self.role}

    @property
    def annotations(self) -> dict[str, str]:
        """Annotations that children inherit."""
        return {key: value for key, value in self.instance_set.metadata.annotations.items() if key not in OWN_ANNOTATIONS}

    def index_labels(self, index: int | str) -> dict[str, str]:
        """Labels of one instance."""
        return index_labels(self.service, self.role, index)

    def child_metadata(self, name: str, labels: Mapping[str, str], annotations: Mapping[str, str]) -> JsonObject:
        """Metadata of an object that this InstanceSet controls."""
        metadata: JsonObject = {
            "name": name,
            "namespace": self.instance_set.metadata.namespace,
            "labels": dict(labels),
            "ownerReferences": [controller_reference(KIND, self.instance_set.metadata.name, self.instance_set.metadata.uid)],
        }
        if annotations:
            metadata["annotations"] = dict(annotations)
        return metadata


def controller_reference(kind: str, name: str, uid: str) -> JsonObject:
    """The reference that makes an object a child: deleted with its owner, and not before the owner may go."""
    return {
        "apiVersion": API_VERSION,
        "kind": kind,
        "name": name,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
