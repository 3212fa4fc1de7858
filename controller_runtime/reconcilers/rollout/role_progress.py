# SPDX-License-Identifier: Apache-2.0
"""What the InstanceSet's status says about its rollout, and the one thing the user may have to mend."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from controller_runtime.api.labels import ROLLOUT_WAITS_FOR
from controller_runtime.api.names import workload_name
from controller_runtime.api.rollout import RolloutStatus
from controller_runtime.reconcilers.rollout.decision import Step
from controller_runtime.reconcilers.rollout.instances import RoleRollout
from controller_runtime.reconcilers.rollout.progress import blocking_index, progress_of, stuck_message
from controller_runtime.reconcilers.status import ROLLOUT_STUCK, Blocker


@dataclass(frozen=True)
class RoleProgress:
    """Where a role's rollout stands. `look_again_s`: when its deadline passes."""

    status: RolloutStatus | None
    look_again_s: float | None = None
    stuck: Blocker | None = None

    @property
    def blockers(self) -> list[Blocker]:
        """None while it gets on."""
        return [self.stuck] if self.stuck else []


def rollout_progress(after: RoleRollout, step: Step, before: RolloutStatus | None, now: datetime) -> RoleProgress:
    """Judge the role as it is `after` the `step` was carried out."""
    view, wish = after.view, after.wish
    waits_for = view.instance_set.metadata.annotations.get(ROLLOUT_WAITS_FOR)
    found = progress_of(wish, after.instances, step, after.revision, before, now, waits_for)
    if found.stuck is None:
        return RoleProgress(found.status, found.look_again_s)
    index = blocking_index(after.instances, step, wish)
    where = "an instance" if index is None else f"instance {workload_name(view.service, view.role, index)}"
    message = stuck_message(view.role, where, found.stuck, after.revision, wish.strategy.progress_deadline_seconds)
    return RoleProgress(found.status, found.look_again_s, Blocker(ROLLOUT_STUCK, message))


def soonest(*delays_s: float | None) -> float | None:
    """The shortest of some delays, None when there is none."""
    return min((each for each in delays_s if each is not None), default=None)
