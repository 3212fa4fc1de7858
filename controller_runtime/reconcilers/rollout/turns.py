# SPDX-License-Identifier: Apache-2.0
"""The roles of a service in their order: who has its template, who waits, and how far the service is as a whole."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass

from controller_runtime.api.infer_service import InferService, InferServiceStatus
from controller_runtime.api.infer_service_set import InferServiceSet
from controller_runtime.api.instance_set import InstanceSetSpec, InstanceSetStatus
from controller_runtime.api.labels import ROLLOUT_WAITS_FOR
from controller_runtime.api.meta import JsonObject
from controller_runtime.api.names import instance_set_name
from controller_runtime.api.rollout import RolloutStatus
from controller_runtime.kube.kind import Object, name_of
from controller_runtime.reconcilers.desired_instance_set import desired_instance_set
from controller_runtime.reconcilers.differences import equal
from controller_runtime.reconcilers.rollout.hand_over import progress_of, waits_for, with_old_template
from controller_runtime.reconcilers.rollout.progress import sum_of
from controller_runtime.reconcilers.rollout.revision import template_of, template_revision


@dataclass(frozen=True)
class Turns:
    """`waiting`: roles that must wait, each with the role it waits for. `outdated`: of these, those that keep an old template."""

    waiting: Mapping[str, str]
    outdated: Mapping[str, InstanceSetSpec]

    def role(self, wanted: InstanceSetSpec) -> InstanceSetSpec:
        """The role as its InstanceSet is to have it now."""
        return self.outdated.get(wanted.name, wanted)


def turns_of(parent: InferService, invalid: Container[str], children: Mapping[str, Object]) -> Turns:
    """Order the roles of a service. One that cannot run as it is written has no new template and keeps what it has."""
    progress = []
    differing: dict[str, InstanceSetSpec] = {}
    for role in parent.spec.roles:
        live = children.get(instance_set_name(parent.metadata.name, role.name))
        differs = live is not None and role.name not in invalid and _differs(desired_instance_set(parent, role), live)
        if live is not None and differs:
            differing[role.name] = with_old_template(role, live["spec"])
        progress.append(progress_of(role.name, live, differs=differs))
    waiting = waits_for(progress)
    return Turns(waiting, {name: role for name, role in differing.items() if name in waiting})


def handed_over(desired: JsonObject, waits_for: str | None) -> JsonObject:
    """An InstanceSet that rests while another role comes first."""
    if waits_for is None:
        return desired
    metadata = desired["metadata"]
    annotations = {**metadata.get("annotations", {}), ROLLOUT_WAITS_FOR: waits_for}
    return {**desired, "metadata": {**metadata, "annotations": annotations}}


def service_rollout(parent: InferService, children: Mapping[str, Object | None], turns: Turns) -> RolloutStatus:
    """The rollout of a service: the sum of its roles, one that waits with everything still to do."""
    templates = {role.name: template_in(desired_instance_set(parent, role)) for role in parent.spec.roles}
    parts = {role.name: _role_rollout(role, children.get(role.name), turns) for role in parent.spec.roles}
    return sum_of(template_revision(templates), parts.values(), _message(parts, turns))


def set_rollout(parent: InferServiceSet, children: Iterable[Object]) -> RolloutStatus:
    """The rollout of a set: the sum of its services, each of which goes by itself."""
    roles = parent.spec.template.roles
    templates = {role.name: template_of(role.model_dump(by_alias=True, exclude_unset=True), role.metadata.labels) for role in roles}
    fresh = sum_of("", [_all_new(role) for role in roles], "")
    parts = {name_of(child): InferServiceStatus.model_validate(child.get("status") or {}).rollout or fresh for child in children}
    rolling = (f"{name}: {part.message}" for name, part in parts.items() if not part.is_complete and part.message)
    return sum_of(template_revision(templates), parts.values(), next(rolling, ""))


def template_in(instance_set: Object) -> JsonObject:
    """What the instances of an InstanceSet are made from."""
    return template_of(instance_set["spec"], instance_set["metadata"].get("labels", {}))


def _role_rollout(role: InstanceSetSpec, child: Object | None, turns: Turns) -> RolloutStatus:
    told = InstanceSetStatus.model_validate((child or {}).get("status") or {}).rollout
    found = told or _all_new(role)
    if role.name not in turns.outdated:
        return found
    scope = max((role.replicas or 0) - role.rollout.partition, 0)
    update = {"new_instances": 0, "old_instances": found.new_instances + found.old_instances, "step": 0, "steps": scope}
    return found.model_copy(update=update)


def _all_new(role: InstanceSetSpec) -> RolloutStatus:
    """Before its InstanceSet says anything: all instances are made from the present template."""
    scope = max((role.replicas or 0) - role.rollout.partition, 0)
    return RolloutStatus(new_instances=role.replicas or 0, step=scope, steps=scope)


def _message(parts: Mapping[str, RolloutStatus], turns: Turns) -> str:
    under_way = {name: part for name, part in parts.items() if not part.is_complete and name not in turns.waiting}
    rolling = [f"role {name} {part.message}" for name, part in under_way.items() if part.message]
    return "; ".join([*rolling, *(f"role {name} waits for role {other}" for name, other in turns.waiting.items())])


def _differs(desired: JsonObject, live: Object) -> bool:
    return not equal(template_in(desired), template_in(live))
