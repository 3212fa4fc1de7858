# SPDX-License-Identifier: Apache-2.0
"""Which changes of pods wake the InstanceSet they belong to: a fault that appears, the end of a gang's pod, and the end of one
that the operator may have to remove itself.

Everything else a pod does, its workload's status tells.
"""

from __future__ import annotations

from collections.abc import Iterable

from controller_runtime.api.labels import GANG_SCHEDULE, POD_STATUS
from controller_runtime.api.names import instance_set_name, workload_name
from controller_runtime.kube.controller import MapFunction
from controller_runtime.kube.kind import INSTANCE_SET, Object, controller_owner_of
from controller_runtime.kube.workqueue import Request
from controller_runtime.reconcilers.faults.decision import UNHEALTHY
from controller_runtime.reconcilers.faults.look import FaultCaches
from controller_runtime.reconcilers.faults.lost_pods import begins_to_go
from controller_runtime.reconcilers.faults.pods import PodView
from controller_runtime.reconcilers.faults.removal import is_removed_by_us


def is_fault_news(old: Object | None, new: Object | None) -> bool:
    """Whether a pod says something new, or begins to go."""
    return begins_to_go(old, new) or (new is not None and _says(new).startswith(UNHEALTHY) and _says(new) != _says(old))


def instance_set_of(caches: FaultCaches) -> MapFunction:
    """Map function: the InstanceSet of a pod. The end of a pod that is healthy and removed by others concerns only a gang."""

    def map_to_instance_set(obj: Object) -> Iterable[Request]:
        pod = PodView.of(obj)
        if pod is None:
            return ()
        request = Request(pod.namespace, _name(caches, pod))
        instance_set = caches.instance_sets.get(*request)
        is_gang = instance_set is None or instance_set["metadata"].get("labels", {}).get(GANG_SCHEDULE) == "true"
        return (request,) if is_gang or pod.says.startswith(UNHEALTHY) or is_removed_by_us(pod) else ()

    return map_to_instance_set


def _name(caches: FaultCaches, pod: PodView) -> str:
    """A hand-written InstanceSet may have any name; its workloads tell it."""
    for store in caches.workloads.values():
        workload = store.get(pod.namespace, workload_name(pod.service, pod.role, pod.index))
        owner = controller_owner_of(workload) if workload is not None else None
        if owner is not None and owner["kind"] == INSTANCE_SET.kind:
            return str(owner["name"])
    return instance_set_name(pod.service, pod.role)


def _says(pod: Object | None) -> str:
    return str(pod["metadata"].get("annotations", {}).get(POD_STATUS, "")) if pod is not None else ""
