# SPDX-License-Identifier: Apache-2.0
"""How far a rollout has come, as the status tells it, and when it is stuck.

It is under way while an instance in reach is outdated, and after the last update until that instance serves. The status
before tells the second case, because an instance that starts for the first time looks the same. Stuck: no further step for
the deadline; a drain has its own bound and does not count.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from controller_runtime.api.rollout import RolloutStatus
from controller_runtime.reconcilers.rollout.decision import Instance, Step, Wish, is_settled
from controller_runtime.reconcilers.rollout.revision import is_of_this_format


@dataclass(frozen=True)
class Progress:
    """The status of a rollout and what follows from it."""

    status: RolloutStatus
    stuck: str | None = None
    """What keeps it from getting further and what to do, once the deadline has passed."""
    look_again_s: float | None = None
    """When the deadline passes."""


def progress_of(
    wish: Wish,
    instances: Collection[Instance],
    step: Step,
    revision: str,
    before: RolloutStatus | None,
    now: datetime,
    waits_for: str | None = None,
) -> Progress:
    """Judge the instances as they are after `step` was carried out. `waits_for`: the role that comes first."""
    desired = [each for each in instances if each.index < wish.replicas]
    new = sum(each.is_new for each in desired)
    served = sum(each.is_new and each.is_ready and not each.is_going and each.index >= wish.strategy.partition for each in desired)
    is_under_way = _has_outdated(wish, desired) or (_was_under_way(before, revision) and not is_settled(wish, instances))
    status = RolloutStatus(
        revision=revision,
        new_instances=new,
        old_instances=len(desired) - new,
        step=min(served, wish.scope) if is_under_way else wish.scope,
        steps=wish.scope,
        message="",
    )
    if not is_under_way:
        return Progress(status)
    if wish.is_paused:
        return Progress(status.model_copy(update={"message": f"waits for role {waits_for}"}))
    since = _since(status, before, now)
    status = status.model_copy(update={"message": _message(step, instances), "last_progress_time": since.strftime("%Y-%m-%dT%H:%M:%SZ")})
    if step.draining or step.ask:
        return Progress(status)
    left_s = wish.strategy.progress_deadline_seconds - (now - since).total_seconds()
    return Progress(status, look_again_s=left_s) if left_s > 0 else Progress(status, stuck=_obstacle(instances, step, wish))


def stuck_message(role: str, name: str, obstacle: str, revision: str, deadline_s: int) -> str:
    """What the user is told: which instance, and what to do. The same as long as it is true."""
    remedy = "Apply a template that starts, or the previous one; the other instances stay as they are until then."
    return f"role {role}: {name} {obstacle} at revision {revision} for {deadline_s} s. {remedy}"


def sum_of(revision: str, parts: Iterable[RolloutStatus], message: str) -> RolloutStatus:
    """The rollouts of several roles or services as one."""
    parts = list(parts)
    times = [each.last_progress_time for each in parts if each.last_progress_time is not None]
    return RolloutStatus(
        revision=revision,
        new_instances=sum(each.new_instances for each in parts),
        old_instances=sum(each.old_instances for each in parts),
        step=sum(each.step for each in parts),
        steps=sum(each.steps for each in parts),
        message=message,
        last_progress_time=max(times, default=None),
    )


def blocking_index(instances: Collection[Instance], step: Step, wish: Wish) -> int | None:
    """The instance to look at first: a new one that does not serve, else any that does not."""
    inside = [each for each in instances if each.index < wish.replicas or each.index in step.surge]
    idle = sorted((each for each in inside if not each.is_ready or each.is_going), key=lambda each: (not each.is_new, -each.index))
    return idle[0].index if idle else min(step.create, default=None)


def _obstacle(instances: Collection[Instance], step: Step, wish: Wish) -> str:
    return "is not ready" if blocking_index(instances, step, wish) is not None else "is not updated"


def _has_outdated(wish: Wish, desired: Sequence[Instance]) -> bool:
    return any(not each.is_new and each.index >= wish.strategy.partition for each in desired)


def _was_under_way(before: RolloutStatus | None, revision: str) -> bool:
    if before is None or not is_of_this_format(before.revision):
        return False
    return before.revision != revision or not before.is_complete


def _since(status: RolloutStatus, before: RolloutStatus | None, now: datetime) -> datetime:
    """When it last got further: now, if it stands elsewhere than before."""
    is_where_it_was = before is not None and (before.revision, before.step, before.new_instances, before.steps) == (
        status.revision,
        status.step,
        status.new_instances,
        status.steps,
    )
    told = before.last_progress_time if before is not None else None
    return datetime.fromisoformat(told) if is_where_it_was and told else now


def _message(step: Step, instances: Collection[Instance]) -> str:
    if step.ask or step.draining:
        return f"drains {_listed(step.ask | step.draining)}"
    starting = step.update | {each.index for each in instances if each.is_new and not each.is_ready} | step.create
    return f"waits for {_listed(starting)} to be ready" if starting else "waits for instances to be ready"


def _listed(indices: Iterable[int]) -> str:
    return ", ".join(f"instance {index}" for index in sorted(indices))
