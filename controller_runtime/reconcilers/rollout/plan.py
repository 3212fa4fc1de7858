# SPDX-License-Identifier: Apache-2.0
"""A rollout on paper: every step of it with the instances of every role, before anything is applied.

The steps come from the functions that the operator follows (`decision` within a role, `hand_over` between roles), applied to a
cluster in which whatever was asked for becomes ready before the next step. Drains only take time and change no step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import Field

from controller_runtime.api.infer_service import InferService
from controller_runtime.api.meta import SchemaModel
from controller_runtime.api.rollout import RolloutStrategy
from controller_runtime.reconcilers.desired_instance_set import desired_instance_set
from controller_runtime.reconcilers.differences import equal
from controller_runtime.reconcilers.rollout.decision import Instance, Step, Wish, decide, is_settled
from controller_runtime.reconcilers.rollout.hand_over import RoleProgress, waits_for
from controller_runtime.reconcilers.rollout.turns import template_in

PAIR = ("prefill", "decode")
"""Roles that cannot answer without each other."""


class RoleCounts(SchemaModel):
    """Instances of one role while a step is carried out."""

    old: int
    new: int
    serving: int


class PlanStep(SchemaModel):
    """One step. `step` and `steps` count updated instances, as the status does."""

    step: int
    steps: int
    changes: list[str]
    """What is done, per role."""
    roles: dict[str, RoleCounts]


class RolloutPlan(SchemaModel):
    """The steps of a rollout in order, and the least that serves on the way."""

    steps: list[PlanStep]
    minimum_serving: dict[str, int]
    """Per role, the state before the rollout included."""
    problems: list[str] = Field(default_factory=list)
    """Why the plan must not be applied as it is, each with its remedy."""


@dataclass
class _Role:
    """One role on paper."""

    name: str
    replicas: int
    strategy: RolloutStrategy
    existed: bool
    is_handed_over: bool
    is_removed: bool = False
    there: dict[int, tuple[bool, bool]] = field(default_factory=dict)
    """Per index: made from the new template, ready."""

    def wish(self, waiting: Mapping[str, str]) -> Wish:
        return Wish(self.replicas, self.strategy, is_paused=self.name in waiting)

    def seen(self) -> list[Instance]:
        """As the InstanceSet sees them: current is what it has been handed."""
        return [Instance(index, is_new is self.is_handed_over, ready) for index, (is_new, ready) in sorted(self.there.items())]

    def updated(self) -> int:
        """Instances the rollout has reached."""
        reach = range(self.strategy.partition, self.replicas)
        return sum(1 for index in reach if self.there.get(index, (False, False)) == (True, True))

    def counts(self) -> RoleCounts:
        new = sum(1 for is_new, _ in self.there.values() if is_new)
        return RoleCounts(old=len(self.there) - new, new=new, serving=sum(ready for _, ready in self.there.values()))


def plan_rollout(old: InferService | None, new: InferService) -> RolloutPlan:
    """The steps from a service whose instances all serve (None: there is none) to `new`."""
    roles = _roles(old, new)
    before = {role.name: role.counts() for role in roles}
    rows = _steps(roles)
    minimum = {name: min([counts.serving, *(row.roles[name].serving for row in rows)]) for name, counts in before.items()}
    return RolloutPlan(steps=rows, minimum_serving=minimum, problems=_problems(roles, before, rows))


def _steps(roles: list[_Role]) -> list[PlanStep]:
    rows: list[PlanStep] = []
    while True:
        waiting = waits_for(_progress(role) for role in roles if not role.is_removed)
        turns = [role for role in roles if not role.is_handed_over and role.name not in waiting]
        for role in turns:
            role.is_handed_over = True
        changes = [change for role in roles for change in _carry_out(role, waiting)]
        if not changes and not turns:
            return rows
        if not changes:
            continue
        reached = sum(role.updated() for role in roles)
        total = sum(role.wish({}).scope for role in roles if not role.is_removed)
        rows.append(PlanStep(step=reached, steps=total, changes=changes, roles={role.name: role.counts() for role in roles}))
        for role in roles:
            role.there = {index: (is_new, True) for index, (is_new, _) in role.there.items()}


def _progress(role: _Role) -> RoleProgress:
    is_complete = is_settled(role.wish({}), role.seen())
    return RoleProgress(role.name, role.existed, not role.is_handed_over, is_complete, is_rolling=not is_complete)


def _carry_out(role: _Role, waiting: Mapping[str, str]) -> list[str]:
    """Do one step of a role; returns what was done."""
    step = Step(delete=frozenset(role.there)) if role.is_removed else decide(role.wish(waiting), role.seen())
    for index in step.create | step.update:
        role.there[index] = (role.is_handed_over, False)
    for index in step.delete:
        del role.there[index]
    verbs = (("create", step.create), ("update", step.update), ("delete", step.delete))
    return [f"{role.name}: {verb} {', '.join(map(str, sorted(indices)))}" for verb, indices in verbs if indices]


def _roles(old: InferService | None, new: InferService) -> list[_Role]:
    """Roles of `new` in its order, then those that go."""
    olds = {role.name: role for role in old.spec.roles} if old else {}
    roles: list[_Role] = []
    for role in new.spec.roles:
        former = olds.pop(role.name, None)
        same = (
            old is not None
            and former is not None
            and equal(template_in(desired_instance_set(old, former)), template_in(desired_instance_set(new, role)))
        )
        there = dict.fromkeys(range((former.replicas if former else None) or 0), (same, True))
        is_handed_over = former is None or same
        roles.append(_Role(role.name, role.replicas or 0, role.rollout, former is not None, is_handed_over, there=there))
    for name, former in olds.items():
        there = dict.fromkeys(range(former.replicas or 0), (False, True))
        roles.append(_Role(name, 0, former.rollout, True, False, is_removed=True, there=there))
    return roles


def _problems(roles: Sequence[_Role], before: Mapping[str, RoleCounts], rows: Sequence[PlanStep]) -> list[str]:
    return [_problem(role, rows) for role in roles if role.name in PAIR and before[role.name].serving > 0 and _falls(role, rows)]


def _falls(role: _Role, rows: Sequence[PlanStep]) -> bool:
    return any(row.roles[role.name].serving < 1 for row in rows)


def _problem(role: _Role, rows: Sequence[PlanStep]) -> str:
    number = next(place for place, row in enumerate(rows, 1) if row.roles[role.name].serving < 1)
    where = f"role {role.name}: no instance serves from line {number} of the plan"
    if role.is_removed or role.replicas == 0:
        return f"{where}, because none is asked for. Keep at least 1."
    return (
        f"{where}. Set rolloutStrategy.maxSurge of the role to 1, which needs room for one more instance, "
        "or scale it to 2 before this change."
    )
