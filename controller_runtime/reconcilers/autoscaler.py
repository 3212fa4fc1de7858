# SPDX-License-Identifier: Apache-2.0
"""The HorizontalPodAutoscaler of a role, and who decides the number of instances while there is one.

The user's autoscaler spec is kept; added are its target, the InstanceSet, and on external metrics the labels that tell one
role's figures from another's. While the policy holds, the number of instances is the autoscaler's: what the InferService
declares counts again when the policy goes.
Seed: as the reference operator scales; the RFC does not name it.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from controller_runtime.api.instance_set import HPA, KIND, ScalingPolicy, ScalingResourceStatus
from controller_runtime.api.labels import OPERATOR, OPERATOR_VALUE, ROLE_NAME, SCALING_OWNED_BY, SERVICE_NAME, SET_NAME
from controller_runtime.api.meta import API_VERSION, JsonObject
from controller_runtime.api.names import autoscaler_name
from controller_runtime.kube.kind import HORIZONTAL_POD_AUTOSCALER, Object, resource_version_of
from controller_runtime.reconcilers.role_view import RoleView

UNSUPPORTED = "unsupported scaling policy type"
NOT_SERVED = "autoscaling/v2 is not served by the API server"
CREATED, UPDATED = "HPA created successfully", "HPA updated successfully"


def desired_autoscaler(view: RoleView) -> JsonObject:
    """The autoscaler of a role whose policy asks for one."""
    target = view.instance_set.metadata.name
    policy = view.instance_set.spec.scaling_policy
    spec = copy.deepcopy(policy.spec) if policy else {}
    spec["scaleTargetRef"] = {"apiVersion": API_VERSION, "kind": KIND, "name": target}
    metrics = spec.get("metrics")
    for metric in metrics if isinstance(metrics, list) else ():
        _name_role(metric, view)
    labels = {**view.labels, SCALING_OWNED_BY: target, OPERATOR: OPERATOR_VALUE}
    return {
        "apiVersion": HORIZONTAL_POD_AUTOSCALER.api_version,
        "kind": HORIZONTAL_POD_AUTOSCALER.kind,
        "metadata": view.child_metadata(autoscaler_name(target), labels, view.annotations),
        "spec": spec,
    }


def policy_problem(view: RoleView, *, is_served: bool) -> ScalingResourceStatus | None:
    """Why the policy of a role makes no autoscaler, None when it does or there is no policy."""
    policy = view.instance_set.spec.scaling_policy
    if policy is None or policy == ScalingPolicy():
        return None
    if not view.instance_set.spec.is_autoscaled:
        return ScalingResourceStatus(type=policy.type, message=f"{UNSUPPORTED}: {policy.type}")
    return None if is_served else ScalingResourceStatus(type=HPA, message=NOT_SERVED)


def scaled_by(made: Object, live: Object | None, before: ScalingResourceStatus | None) -> ScalingResourceStatus:
    """What to report of an autoscaler that is as the policy says. `live`: as it was before this reconcile."""
    message = CREATED if live is None else UPDATED
    if live is not None and resource_version_of(live) == resource_version_of(made) and before is not None and before.ready:
        message = before.message
    return ScalingResourceStatus(type=HPA, name=str(made["metadata"]["name"]), ready=True, message=message)


def keep_scale(wanted: JsonObject, live: Object) -> JsonObject:
    """An InstanceSet as its InferService wants it, with the number of instances an autoscaler gave it."""
    if not (_is_autoscaled(wanted) and _is_autoscaled(live)):
        return wanted
    return {**wanted, "spec": {**wanted["spec"], "replicas": live["spec"].get("replicas")}}


def _is_autoscaled(instance_set: Mapping[str, Any]) -> bool:
    return bool((instance_set["spec"].get("scalingPolicy") or {}).get("type") == HPA)


def _name_role(metric: object, view: RoleView) -> None:
    """Add to an external metric's selector what it does not say itself."""
    external = metric.get("external") if isinstance(metric, dict) and metric.get("type") == "External" else None
    named = external.get("metric") if isinstance(external, dict) else None
    if not isinstance(named, dict):
        return
    selector = named["selector"] = dict(named.get("selector") or {})
    added = {SERVICE_NAME: view.service, ROLE_NAME: view.role}
    if view.place.set_name is not None:
        added[SET_NAME] = view.place.set_name
    selector["matchLabels"] = {**added, **(selector.get("matchLabels") or {})}
