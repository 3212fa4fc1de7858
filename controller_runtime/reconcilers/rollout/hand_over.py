# SPDX-License-Identifier: Apache-2.0
"""Which roles of a service get their changed template now: one after the other, in the order of the spec.

A role waits until the rollouts of all roles before it are complete. Meanwhile its InstanceSet keeps the template it has and
rests, even halfway through an earlier change; its number of instances follows at once. A new role does not wait, since it has
no old template. Invariant: instances of at most one role are taken out of service for an update at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from controller_runtime.api.instance_set import InstanceSetSpec, InstanceSetStatus
from controller_runtime.api.meta import JsonObject

KEPT = ("workload", "spec", "metadata", "services")
"""What a waiting role keeps of its old spec."""


@dataclass(frozen=True)
class RoleProgress:
    """One role of a service, as far as order is concerned."""

    name: str
    exists: bool
    """It has an InstanceSet."""
    differs: bool
    """The InstanceSet's template is not the one wanted."""
    is_complete: bool
    """The InstanceSet says of its present spec that all instances it reaches serve with the template it has."""
    is_rolling: bool = False
    """It said, maybe of an earlier spec, that they do not."""


def waits_for(roles: Iterable[RoleProgress]) -> dict[str, str]:
    """The roles that must wait, each with the first role it waits for."""
    waiting: dict[str, str] = {}
    first_unfinished: str | None = None
    for role in roles:
        if not role.exists:
            continue
        if first_unfinished is not None and (role.differs or role.is_rolling):
            waiting[role.name] = first_unfinished
        if first_unfinished is None and (role.differs or not role.is_complete):
            first_unfinished = role.name
    return waiting


def with_old_template(wanted: InstanceSetSpec, live: Mapping[str, Any]) -> InstanceSetSpec:
    """The role as its waiting InstanceSet gets it: the template of the live spec, everything else as wanted."""
    body: JsonObject = wanted.model_dump(by_alias=True, exclude_unset=True)
    kept = {key: live[key] for key in KEPT if key in live}
    return InstanceSetSpec.model_validate({**{key: value for key, value in body.items() if key not in KEPT}, **kept})


def progress_of(name: str, instance_set: Mapping[str, Any] | None, *, differs: bool) -> RoleProgress:
    """What the InstanceSet of a role says. One that has said nothing yet is new, and new instances hold up nobody."""
    if instance_set is None:
        return RoleProgress(name, exists=False, differs=False, is_complete=True)
    status = InstanceSetStatus.model_validate(instance_set.get("status") or {})
    is_rolling = status.rollout is not None and not status.rollout.is_complete
    is_told = status.observed_generation == 0 or status.observed_generation >= int(instance_set["metadata"].get("generation", 0))
    return RoleProgress(name, exists=True, differs=differs, is_complete=is_told and not is_rolling, is_rolling=is_rolling)
