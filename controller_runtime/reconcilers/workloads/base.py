# SPDX-License-Identifier: Apache-2.0
"""What every workload kind has in common: the protocol of a handler and the building of one instance.

The user's spec is kept; added are what names the instance (labels on workload and pods, environment in every container) and
what the seed's examples leave out (pods per instance, selector).
Seed: operator RFC, 5.3, 7.2 and 9; environment as the reference operator's consumers read it.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Protocol

from controller_runtime.api.labels import FAULT_SCHEDULING, INFER_SERVICE_ID
from controller_runtime.api.meta import JsonObject
from controller_runtime.api.names import pod_group_name, workload_name
from controller_runtime.kube.kind import Kind
from controller_runtime.reconcilers.pod_groups import join_group
from controller_runtime.reconcilers.role_view import RoleView


class WorkloadHandler(Protocol):
    """Builds, compares and judges one kind of workload. Pure: the InstanceSet reconciler does the I/O."""

    @property
    def kind(self) -> Kind:
        """The kind it handles."""

    def desired(self, view: RoleView, index: int) -> JsonObject:
        """The workload of one instance."""

    def has_instance_service(self, view: RoleView) -> bool:
        """Whether each instance gets a Service of its own."""

    @property
    def is_service_headless(self) -> bool:
        """Whether that Service has no cluster IP."""

    def is_ready(self, workload: Mapping[str, Any]) -> bool:
        """Whether every pod of the instance is ready and of the newest template."""

    def waits_for_present_pods(self, live: Mapping[str, Any]) -> bool:
        """Whether an update in place never gets past a pod of the old template that does not become ready."""

    def must_recreate(self, desired: Mapping[str, Any], live: Mapping[str, Any]) -> bool:
        """Whether a field differs that the API server never changes."""


def build(kind: Kind, view: RoleView, index: int) -> JsonObject:
    """The workload of one instance: identity, defaults and environment on top of the user's spec."""
    role = view.instance_set.spec
    identity = view.index_labels(index)
    spec = copy.deepcopy(role.spec or {})
    if spec.get("replicas") is None:
        spec["replicas"] = 1
    if not spec.get("selector"):
        spec["selector"] = {"matchLabels": identity}
    template = spec.setdefault("template", {})
    fault_scheduling = _labels(template).get(FAULT_SCHEDULING)
    _name_pods(template, view, identity)
    for container in (template.get("spec") or {}).get("containers") or ():
        container["env"] = _environment(container.get("env") or [], view, index)
    if view.is_gang:
        join_group(kind, spec, pod_group_name(view.service, view.role, index))
    labels = {**view.labels, **role.metadata.labels, **identity}
    if fault_scheduling is not None:
        labels[FAULT_SCHEDULING] = fault_scheduling
    annotations = {**view.annotations, **role.metadata.annotations}
    metadata = view.child_metadata(workload_name(view.service, view.role, index), labels, annotations)
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": spec}


def is_current(workload: Mapping[str, Any]) -> bool:
    """Whether the status speaks about the spec as it is now.

    A later generation was not observed here: the workload controller wrote down what it knew of the predecessor of that name.
    """
    return bool(workload.get("status", {}).get("observedGeneration", 0) == workload["metadata"].get("generation", 0))


def pods_of(workload: Mapping[str, Any]) -> int:
    """Pods per instance; absent means 1."""
    replicas = workload["spec"].get("replicas")
    return 1 if replicas is None else int(replicas)


def _name_pods(template: JsonObject, view: RoleView, identity: Mapping[str, str]) -> None:
    service_id = view.instance_set.metadata.labels.get(INFER_SERVICE_ID)
    grouping = {INFER_SERVICE_ID: service_id} if service_id else {}
    metadata = template["metadata"] = dict(template.get("metadata") or {})
    metadata["labels"] = {**grouping, **_labels(template), **identity}


def _environment(given: list[JsonObject], view: RoleView, index: int) -> list[JsonObject]:
    """The user's variables, then ours. One entry per name, the last wins: server-side apply refuses duplicates."""
    added = {"INSTANCE_INDEX": str(index), "INSTANCE_ROLE": view.role}
    if view.place.index is not None:
        added |= {"INFER_SERVICE_INDEX": str(view.place.index), "INFER_SERVICE_NAME": str(view.place.set_name)}
    last = {variable.get("name"): variable for variable in given}
    kept = [variable for variable in given if last[variable.get("name")] is variable and variable.get("name") not in added]
    return [*kept, *({"name": name, "value": value} for name, value in added.items())]


def _labels(template: Mapping[str, Any]) -> dict[str, str]:
    return dict((template.get("metadata") or {}).get("labels") or {})
