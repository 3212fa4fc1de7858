# SPDX-License-Identifier: Apache-2.0
"""Label and annotation keys. Selectors of running clusters depend on them, so a key never changes.

Seed: operator RFC, 6.2. Keys without a line there are those of the reference operator.
"""

from __future__ import annotations

PREFIX = "infer.huawei.com/"

OPERATOR = f"{PREFIX}ascend-infer-operator"
"""`true` on every object below an InstanceSet and on pods; `infer-cm` on the operator's own ConfigMap."""
OPERATOR_VALUE = "true"
SET_NAME = f"{PREFIX}inferserviceset-name"
"""On an InferService: the set that owns it. Not handed further down."""
SERVICE_INDEX = f"{PREFIX}inferservice-index"
"""On an InferService: its place in its set, from 0."""
SERVICE_NAME = f"{PREFIX}inferservice-name"
INSTANCE_SET_NAME = f"{PREFIX}instanceset-name"
"""The role, not the InstanceSet's metadata.name: selectors, HPA and pods depend on it."""
INSTANCE_INDEX = f"{PREFIX}instanceset-index"
"""Place of an instance in its role, from 0; empty on a role's own Services, which belong to no instance."""
GANG_SCHEDULE = f"{PREFIX}gang-schedule"
"""On an InstanceSet: exactly `true` asks for all pods of an instance or none."""
SCHEDULING_STRATEGY = f"{PREFIX}priority-scheduling-strategy"
SCALING_OWNED_BY = f"{PREFIX}scaling-owned-by"
"""On a HorizontalPodAutoscaler: name of the InstanceSet it scales."""
ROLE_NAME = f"{PREFIX}role-name"
"""In the selector of an external metric: the role it is about."""
APPLIED_HASH = f"{PREFIX}applied-hash"
"""Annotation: digest of what the operator last applied; a different digest means the template changed."""
REVISION = f"{PREFIX}revision"
"""Annotation on a workload: the revision of the template it was last brought to."""
ROLLOUT_WAITS_FOR = f"{PREFIX}rollout-waits-for"
"""Annotation on an InstanceSet: the role whose rollout comes first; until then its instances stay as they are."""
DRAIN_REQUESTED = f"{PREFIX}drain-requested"
"""Annotation on a workload: since when (RFC 3339) it is asked to finish its requests, because it is about to go."""
DRAINED = f"{PREFIX}drained"
"""Annotation on a workload, written by whoever drains it: `true` when it may go."""

INFER_SERVICE_ID = "inferserviceid"
"""No prefix: the Ascend scheduler plugin reads it. Groups pods of one InferService on one super node."""
SCHEDULE_POLICY = "huawei.com/schedule_policy"
SUPER_NODE_SUFFIX = "-sp"
POD_GROUP_NAME = "scheduling.k8s.io/group-name"
"""Annotation of pods: Volcano schedules the pods of one PodGroup together."""
FAULT_SCHEDULING = "fault-scheduling"
"""On pods: `external-force` or `external-grace` leaves the removal of a rebuilt instance's pods to this operator."""
FAULT_RETRY_TIMES = "fault-retry-times"
"""On pods: how many times the failure of the business inside rebuilds the instance; absent means never."""
POD_STATUS = "huawei.com/pod-status"
"""Annotation on pods, written by the Ascend scheduler plugin: `Unhealthy-<fault>`."""
FAULT_RECORD = f"{PREFIX}fault-record"
"""Annotation on an InstanceSet: what the operator must not forget of its rebuilds."""
NODE_CLEANER = f"{PREFIX}node-cleaner"
"""On a pod, InferService or InferServiceSet: `off` keeps the pods when their node is not ready."""
NODE_CLEANER_OFF = "off"
CONTROLLER_REVISION = "controller-revision-hash"
"""On pods of a StatefulSet: the revision of the template they were made from."""


def index_labels(service: str, role: str, index: int | str) -> dict[str, str]:
    """The four labels that name one instance; they are its selector and overwrite a user's value."""
    return {
        SERVICE_NAME: service,
        INSTANCE_SET_NAME: role,
        INSTANCE_INDEX: str(index),
        OPERATOR: OPERATOR_VALUE,
    }


def role_selector(service: str, role: str) -> dict[str, str]:
    """Labels that select every pod of a role."""
    return {SERVICE_NAME: service, INSTANCE_SET_NAME: role, OPERATOR: OPERATOR_VALUE}
