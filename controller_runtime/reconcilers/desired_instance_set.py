# SPDX-License-Identifier: Apache-2.0
"""The InstanceSet of one role, as its InferService wants it. Seed: operator RFC, 7.1.2."""

from __future__ import annotations

from controller_runtime.api.infer_service import KIND, InferService
from controller_runtime.api.instance_set import KIND as INSTANCE_SET_KIND
from controller_runtime.api.instance_set import InstanceSetSpec
from controller_runtime.api.labels import (
    INFER_SERVICE_ID,
    INSTANCE_SET_NAME,
    SCHEDULE_POLICY,
    SCHEDULING_STRATEGY,
    SERVICE_NAME,
    SUPER_NODE_SUFFIX,
)
from controller_runtime.api.meta import API_VERSION, JsonObject, Metadata
from controller_runtime.api.names import instance_set_name
from controller_runtime.reconcilers.role_view import controller_reference


def desired_instance_set(parent: InferService, role: InstanceSetSpec) -> JsonObject:
    """The InstanceSet of one role."""
    service = parent.metadata.name
    inherited = role_metadata(parent, role)
    metadata: JsonObject = {
        "name": instance_set_name(service, role.name),
        "namespace": parent.metadata.namespace,
        "labels": {
            **inherited.labels,
            SERVICE_NAME: service,
            INSTANCE_SET_NAME: role.name,
            SCHEDULING_STRATEGY: parent.spec.scheduling_strategy.effective,
        },
        "ownerReferences": [controller_reference(KIND, service, parent.metadata.uid)],
    }
    if inherited.annotations:
        metadata["annotations"] = inherited.annotations
    return {
        "apiVersion": API_VERSION,
        "kind": INSTANCE_SET_KIND,
        "metadata": metadata,
        "spec": role.model_dump(by_alias=True, exclude_unset=True),
    }


def role_metadata(parent: InferService, role: InstanceSetSpec) -> Metadata:
    """The role's labels and annotations, with the scheduling policy of its pods and the id that groups them on a super node."""
    labels, annotations = dict(role.metadata.labels), dict(role.metadata.annotations)
    pods = Metadata.model_validate(((role.spec or {}).get("template") or {}).get("metadata") or {})
    if SCHEDULE_POLICY not in annotations and SCHEDULE_POLICY in pods.annotations:
        annotations[SCHEDULE_POLICY] = pods.annotations[SCHEDULE_POLICY]
    policy = annotations.get(SCHEDULE_POLICY, "")
    is_grouped = policy.endswith(SUPER_NODE_SUFFIX) and policy != SUPER_NODE_SUFFIX
    if is_grouped and INFER_SERVICE_ID not in {*labels, *pods.labels}:
        labels[INFER_SERVICE_ID] = parent.metadata.uid
    return Metadata(labels=labels, annotations=annotations)
