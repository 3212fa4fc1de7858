# SPDX-License-Identifier: Apache-2.0
"""Statuses as pure functions: counts, the Ready condition, and what of a child's trouble its parents repeat.

The user looks at the object the user wrote. So a problem is told there: the reason and message of a child that cannot become
ready move up to its parents' condition, and the root of the tree gets one Event when they change.
Seed: operator RFC, 4.2 and 10.2; reasons and messages as the reference operator writes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from controller_runtime.api.infer_service import InferServiceStatus
from controller_runtime.api.infer_service_set import InferServiceSetStatus
from controller_runtime.api.instance_set import InstanceSetStatus, ScalingResourceStatus
from controller_runtime.api.labels import INSTANCE_SET_NAME, SERVICE_NAME
from controller_runtime.api.meta import Condition, Status
from controller_runtime.api.rollout import RolloutStatus
from controller_runtime.kube.errors import ForbiddenError, InvalidError
from controller_runtime.reconcilers.apply import NameTakenError
from controller_runtime.reconcilers.role_view import RoleView

READY = "Ready"
REPLICAS_NOT_READY = "ReplicasNotReady"
WAITING_FOR_PRIORITY = "WaitingForPriority"
"""Told where it holds and nowhere else: it ends by itself."""
ROLLING_OUT = "RollingOut"
"""All that must be ready is, but not all with the present template."""
VALIDATE_ERROR = "ValidateError"
SERVICE_CREATE_ERROR = "ServiceCreateError"
NAME_CONFLICT = "NameConflict"
FORBIDDEN = "Forbidden"
ROLLOUT_STUCK = "RolloutStuck"
BLOCKED = frozenset({VALIDATE_ERROR, SERVICE_CREATE_ERROR, NAME_CONFLICT, FORBIDDEN, ROLLOUT_STUCK})
"""Reasons that no waiting mends; each names the first cause."""
SCALING_ACTIVE = "ScalingActive"
"""A second condition, there only while a scaling policy is not carried out. The workloads run on, so Ready does not tell it."""
SCALING_RESOURCE_ERROR = "ScalingResourceReconcileError"
MESSAGE_MAX = 32768


@dataclass(frozen=True)
class Blocker:
    """Why something cannot be made as it is written."""

    reason: str
    message: str


@dataclass(frozen=True)
class Wording:
    """The words of one kind's condition."""

    ready_reason: str
    ready_message: str
    noun: str


SET_WORDING = Wording("AllInferServicesReady", "All InferService replicas are ready", "InferService")
SERVICE_WORDING = Wording("AllInstanceSetsReady", "All InstanceSet replicas are ready", "InstanceSet")
INSTANCE_SET_WORDING = Wording("AllWorkLoadReady", "All WorkLoad replicas are ready", "WorkLoad")


def set_status(
    before: InferServiceSetStatus,
    generation: int,
    replicas: int,
    ready: int,
    blockers: Sequence[Blocker],
    now: datetime,
    unscaled: Sequence[Blocker] = (),
    rollout: RolloutStatus | None = None,
) -> InferServiceSetStatus:
    """Status of an InferServiceSet of which `ready` of `replicas` services are Ready. `unscaled`: policies not carried out."""
    conditions = [
        _ready(before, SET_WORDING, ready, replicas, ready >= replicas, blockers, now),
        *_scaling(before, unscaled, now),
    ]
    return InferServiceSetStatus(
        observed_generation=generation,
        replicas=replicas,
        ready_replicas=ready,
        conditions=conditions,
        rollout=rollout,
    )


def service_status(
    before: InferServiceStatus,
    generation: int,
    roles: int,
    ready: int,
    blockers: Sequence[Blocker],
    now: datetime,
    unscaled: Sequence[Blocker] = (),
    rollout: RolloutStatus | None = None,
) -> InferServiceStatus:
    """Status of an InferService. Without roles it is never Ready. `unscaled`: policies not carried out."""
    conditions = [
        _ready(before, SERVICE_WORDING, ready, roles, ready >= roles > 0, blockers, now),
        *_scaling(before, unscaled, now),
    ]
    return InferServiceStatus(
        observed_generation=generation,
        replicas=roles,
        ready_replicas=ready,
        conditions=conditions,
        rollout=rollout,
    )


def instance_set_status(
    view: RoleView,
    before: InstanceSetStatus,
    ready: int,
    blockers: Sequence[Blocker],
    now: datetime,
    waiting: str | None = None,
    scaling: ScalingResourceStatus | None = None,
    rollout: RolloutStatus | None = None,
) -> InstanceSetStatus:
    """Status of an InstanceSet. With no instances asked for it is Ready. `waiting`: why some of them are not made yet.

    It is not Ready while instances of another template still have to be updated.
    """
    rolling = "" if rollout is None or rollout.is_complete else f"{rollout.step} of {rollout.steps} are updated: {rollout.message}"
    unscaled = [Blocker(SCALING_RESOURCE_ERROR, f"role {view.role}: {scaling.message}")] if scaling and not scaling.ready else []
    conditions = [
        _ready(before, INSTANCE_SET_WORDING, ready, view.replicas, ready >= view.replicas and not rolling, blockers, now, waiting, rolling),
        *_scaling(before, unscaled, now),
    ]
    return InstanceSetStatus(
        observed_generation=view.instance_set.metadata.generation,
        replicas=view.replicas,
        ready_replicas=ready,
        conditions=conditions,
        label_selector=f"{SERVICE_NAME}={view.service},{INSTANCE_SET_NAME}={view.role}",
        scaling_resource_status=scaling,
        rollout=rollout,
    )


def is_ready(child: Mapping[str, Any]) -> bool:
    """Whether a child of one of our kinds is Ready as it is now, not as it was before its last change, and stays."""
    status, metadata = child.get("status", {}), child["metadata"]
    is_current = status.get("observedGeneration", 0) >= metadata.get("generation", 0) and not metadata.get("deletionTimestamp")
    return is_current and any(each["type"] == READY and each["status"] == "True" for each in status.get("conditions", ()))


def blocker_of(child: Mapping[str, Any]) -> Blocker | None:
    """The reason why a child cannot become ready by itself, as its status tells."""
    return next((told for told in _told_by(child, READY) if told.reason in BLOCKED), None)


def unscaled_of(children: Iterable[Mapping[str, Any]]) -> list[Blocker]:
    """Why scaling policies of children are not carried out, as their statuses tell."""
    return [told for child in children for told in _told_by(child, SCALING_ACTIVE)]


def must_report(condition: Condition) -> bool:
    """Whether a condition tells of something that the user can mend and no waiting does."""
    return condition.status == "False" and (condition.type == SCALING_ACTIVE or condition.reason in BLOCKED)


def blockers_of(failures: Iterable[tuple[Mapping[str, Any], Exception]]) -> list[Blocker]:
    """What the user must know of failed writes: `(desired child, error)`. A failure that passes by itself is none."""
    return [found for desired, err in failures if (found := _blocker(desired, err)) is not None]


def invalid(messages: Iterable[str]) -> list[Blocker]:
    """One blocker that lists all findings, none without findings."""
    text = " ".join(messages)
    return [Blocker(VALIDATE_ERROR, text)] if text else []


def _blocker(desired: Mapping[str, Any], err: Exception) -> Blocker | None:
    match err:
        case NameTakenError():
            return Blocker(NAME_CONFLICT, str(err))
        case ForbiddenError():
            return Blocker(FORBIDDEN, str(err))
        case InvalidError():
            return Blocker(SERVICE_CREATE_ERROR if desired["kind"] == "Service" else VALIDATE_ERROR, str(err))
        case _:
            return None


def _told_by(child: Mapping[str, Any], kind: str) -> list[Blocker]:
    conditions = child.get("status", {}).get("conditions", ())
    return [Blocker(each["reason"], each["message"]) for each in conditions if each["type"] == kind and each["status"] == "False"]


def _scaling(before: Status, unscaled: Sequence[Blocker], now: datetime) -> list[Condition]:
    if not unscaled:
        return []
    return [_condition(SCALING_ACTIVE, before, "False", *_told(before.condition(SCALING_ACTIVE), unscaled), now)]


def _ready(
    before: Status,
    words: Wording,
    ready: int,
    desired: int,
    is_true: bool,
    blockers: Sequence[Blocker],
    now: datetime,
    waiting: str | None = None,
    rolling: str = "",
) -> Condition:
    old = before.condition(READY)
    if blockers:
        status, (reason, message) = "False", _told(old, blockers)
    elif is_true:
        status, reason, message = "True", words.ready_reason, words.ready_message
    else:
        missing = ROLLING_OUT if rolling and ready >= desired else REPLICAS_NOT_READY
        status, reason = "False", WAITING_FOR_PRIORITY if waiting else missing
        message = "; ".join(part for part in (f"{ready} of {desired} {words.noun} replicas are ready", waiting, rolling) if part)
    return _condition(READY, before, status, reason, message, now)


def _condition(kind: str, before: Status, status: str, reason: str, message: str, now: datetime) -> Condition:
    old = before.condition(kind)
    changed_at = old.last_transition_time if old is not None and old.status == status else timestamp(now)
    return Condition.model_validate(
        {"type": kind, "status": status, "reason": reason, "message": message, "last_transition_time": changed_at}
    )


def _told(old: Condition | None, blockers: Sequence[Blocker]) -> tuple[str, str]:
    """The blocker to show: the one already shown while it lasts, so that several do not take turns and repeat their Event."""
    shown = [(each.reason, each.message[:MESSAGE_MAX]) for each in blockers]
    if old is not None and (old.reason, old.message) in shown:
        return old.reason, old.message
    return shown[0]


def timestamp(moment: datetime) -> str:
    """A metav1.Time: UTC, whole seconds."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
