# SPDX-License-Identifier: Apache-2.0
"""Gang scheduling: one PodGroup per instance, and what makes the pods of an instance join it.

Volcano starts all pods of an instance or none. The PodGroup comes before its workload and goes with it. A user who asks for
gang scheduling wants Volcano, and pods that do not wait for each other; so where the template names neither scheduler nor pod
management, these are filled in: a StatefulSet that starts its pods one by one never completes a gang.
Seed: operator RFC, 6.2 and 7.2; names, labels and resources as the reference operator writes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controller_runtime.api.instance_set import InstanceSetSpec
from controller_runtime.api.labels import INFER_SERVICE_ID, POD_GROUP_NAME
from controller_runtime.api.meta import JsonObject
from controller_runtime.api.names import pod_group_name
from controller_runtime.api.quantities import total
from controller_runtime.kube.kind import POD_GROUP, STATEFUL_SET, Kind
from controller_runtime.reconcilers.role_view import RoleView

SCHEDULER = "volcano"
AT_ONCE = "Parallel"


def desired_pod_group(view: RoleView, index: int) -> JsonObject:
    """The PodGroup of one instance."""
    role = view.instance_set.spec
    pods = pods_per_instance(role)
    spec: JsonObject = {"minMember": pods}
    if pods > 0 and (resources := min_resources(role, pods)):
        spec["minResources"] = resources
    inherited = {key: value for key, value in view.labels.items() if key != INFER_SERVICE_ID}
    name = pod_group_name(view.service, view.role, index)
    metadata = view.child_metadata(name, {**inherited, **view.index_labels(index)}, view.annotations)
    return {"apiVersion": POD_GROUP.api_version, "kind": POD_GROUP.kind, "metadata": metadata, "spec": spec}


def min_resources(role: InstanceSetSpec, pods: int) -> dict[str, str]:
    """What `pods` pods ask for: of each container the request, or the limit where there is no request."""
    terms: dict[str, list[object]] = {}
    pod = ((role.spec or {}).get("template") or {}).get("spec") or {}
    for container in pod.get("containers") or ():
        resources = container.get("resources") or {}
        for resource, amount in {**(resources.get("limits") or {}), **(resources.get("requests") or {})}.items():
            terms.setdefault(resource, []).append(amount)
    sums = {resource: total(amounts, pods) for resource, amounts in sorted(terms.items())}
    return {resource: amount for resource, amount in sums.items() if amount is not None}


def pods_per_instance(role: InstanceSetSpec) -> int:
    """Pods of one instance; absent means 1."""
    replicas = (role.spec or {}).get("replicas")
    return 1 if replicas is None else int(replicas)


def join_group(kind: Kind, spec: JsonObject, group: str) -> None:
    """Make the pods of a workload's `spec` (changed in place) members of `group`."""
    template = spec["template"]
    metadata = template.setdefault("metadata", {})
    metadata["annotations"] = {**(metadata.get("annotations") or {}), POD_GROUP_NAME: group}
    pod = template["spec"] = dict(template.get("spec") or {})
    pod["schedulerName"] = pod.get("schedulerName") or SCHEDULER
    if kind == STATEFUL_SET:
        spec["podManagementPolicy"] = spec.get("podManagementPolicy") or AT_ONCE


def group_of(workload: Mapping[str, Any]) -> str | None:
    """The PodGroup that a workload's pods belong to."""
    metadata = (workload["spec"].get("template") or {}).get("metadata") or {}
    name = (metadata.get("annotations") or {}).get(POD_GROUP_NAME)
    return None if name is None else str(name)


def must_gather(desired: Mapping[str, Any], live: Mapping[str, Any]) -> bool:
    """Whether a workload must be made again to form a gang.

    Replaced pod by pod it never would: the first new pod waits for the whole gang, the next old one for the first.
    """
    return group_of(desired) is not None and group_of(live) is None
