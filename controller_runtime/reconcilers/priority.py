# SPDX-License-Identifier: Apache-2.0
"""Strategy Priority: which roles of an InferService start first.

Only the making of missing instances waits, so that roles further ahead get the devices; what exists is always kept current,
healed and scaled down. A role waits while one with a lower number is not ready; roles of one number start together, a role
without a number starts at once. Ready means all instances that are asked for now, by a status about the present spec.
Seed: as the reference operator orders roles; its upper limit of 32 is part of the API here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controller_runtime.api.infer_service import InferService
from controller_runtime.api.instance_set import InstanceSetSpec
from controller_runtime.api.names import instance_set_name
from controller_runtime.kube.kind import Object
from controller_runtime.reconcilers.status import is_ready

PRIORITY = "Priority"


def reason_to_wait(parent: InferService, role: str, instance_sets: Mapping[str, Object]) -> str | None:
    """Why `role` must not get new instances now, None when it may. `instance_sets`: those `parent` owns, by name."""
    if parent.spec.scheduling_strategy.effective != PRIORITY:
        return None
    own = next((each for each in parent.spec.roles if each.name == role), None)
    if own is None:
        return f"InferService {parent.metadata.name} has no role {role}"
    if own.priority is None:
        return None
    ahead = [
        each.name
        for each in sorted(parent.spec.roles, key=lambda each: each.priority or 0)
        if each.priority is not None
        and each.priority < own.priority
        and not is_complete(each, instance_sets.get(instance_set_name(parent.metadata.name, each.name)))
    ]
    if not ahead:
        return None
    return f"waiting for {'role' if len(ahead) == 1 else 'roles'} {', '.join(ahead)}"


def is_complete(role: InstanceSetSpec, instance_set: Mapping[str, Any] | None) -> bool:
    """Whether every instance that `role` declares (or its autoscaler asks for) is ready."""
    if instance_set is None or not is_ready(instance_set):
        return False
    wanted, status = instance_set["spec"].get("replicas"), instance_set["status"]
    is_declared = role.is_autoscaled or wanted == role.replicas
    return bool(is_declared and status.get("replicas", 0) == wanted and status.get("readyReplicas", 0) >= wanted)


def hands_on(old: Object | None, new: Object | None) -> bool:
    """Whether an InstanceSet's change may let its siblings start: it is ready and was not, or it is gone."""
    if new is None:
        return True
    was_ready = old is not None and is_ready(old) and old["metadata"].get("generation") == new["metadata"].get("generation")
    return is_ready(new) and not was_ready


def changes_order(old: Object | None, new: Object | None) -> bool:
    """Whether an InferService's change may let roles start that its own InstanceSets do not show."""
    if old is None or new is None or old["metadata"].get("generation") == new["metadata"].get("generation"):
        return False
    return any((each["spec"].get("schedulingStrategy") or {}).get("type") == PRIORITY for each in (old, new))
