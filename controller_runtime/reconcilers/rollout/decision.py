# SPDX-License-Identifier: Apache-2.0
"""What to do now with the instances of one role: make, update, ask to drain, delete, leave alone.

Pure, and always decided anew from what is there: a later edit changes the wish, and the next step follows it. So nothing
stacks up, reverting goes back, and an instance that never becomes ready uses up the budget and thereby stops the rollout.

Invariants: of the instances that serve, never fewer than the floor stay when it was us who took one; the floor is
`replicas - maxUnavailable`, and one where another instance can carry on. Instances that do not serve cost nothing and go
first. Which ready instance goes next depends on indices only, so that deciding twice on an old picture asks for the same.
Seed: operator RFC, 7.1 ("update"); budget, surge and partition as LeaderWorkerSet counts them.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from enum import Enum

from controller_runtime.api.rollout import RolloutStrategy


class Drain(Enum):
    """How far an instance is with finishing its requests."""

    NOT_ASKED = "not asked"
    ASKED = "asked"
    OVER = "over"
    """It said so, or its time is up."""


@dataclass(frozen=True)
class Instance:
    """One instance that exists, desired or not."""

    index: int
    is_new: bool
    """Of the wanted revision."""
    is_ready: bool
    drain: Drain = Drain.NOT_ASKED
    is_going: bool = False
    """Its deletion is under way."""

    @property
    def is_serving(self) -> bool:
        """Ready, and not about to go."""
        return self.is_ready and not self.is_going and self.drain is Drain.NOT_ASKED


@dataclass(frozen=True)
class Wish:
    """What a role asks for."""

    replicas: int
    strategy: RolloutStrategy = field(default_factory=RolloutStrategy)
    drains: bool = False
    """Instances are asked to finish their requests before they go."""
    is_paused: bool = False
    """Another role's rollout comes first."""

    @property
    def scope(self) -> int:
        """How many instances a rollout reaches."""
        return max(self.replicas - self.strategy.partition, 0)

    @property
    def surge(self) -> int:
        """How many extra instances a rollout runs."""
        return min(self.strategy.max_surge, self.scope)

    @property
    def floor(self) -> int:
        """How many instances we leave in service."""
        can_carry_on = 1 if self.replicas > 1 or self.surge > 0 else 0
        return max(self.replicas - self.strategy.max_unavailable, min(can_carry_on, self.replicas))


@dataclass(frozen=True)
class Step:
    """What to do now, by index. An index in none of these is current, or on its way."""

    create: frozenset[int] = frozenset()
    """Missing: made with the wanted revision."""
    update: frozenset[int] = frozenset()
    """Outdated: brought to the wanted revision."""
    ask: frozenset[int] = frozenset()
    """Asked to drain, now."""
    draining: frozenset[int] = frozenset()
    """Asked before; their time runs."""
    hold: frozenset[int] = frozenset()
    """Outdated: stay as they are until their turn."""
    delete: frozenset[int] = frozenset()
    """Too many."""
    surge: frozenset[int] = frozenset()
    """Beyond `replicas`, wanted for the time of the rollout."""


def decide(wish: Wish, instances: Collection[Instance]) -> Step:
    """Choose the next step. Deciding again before anything changed gives the same step."""
    there = {each.index: each for each in instances}
    surge = _surge(wish, there)
    inside = frozenset(range(wish.replicas)) | surge
    outdated = [there[index] for index in sorted(inside, reverse=True) if index in there and _is_outdated(there[index])]
    in_scope = [] if wish.is_paused else [each for each in outdated if each.index >= wish.strategy.partition]
    idle = {each.index for each in in_scope if not each.is_ready and each.drain is Drain.NOT_ASKED}
    victims = {each.index for each in in_scope if each.drain is not Drain.NOT_ASKED} | _ready_victims(wish, there, inside, surge, in_scope)
    extra = {each.index for each in instances if each.index not in inside and not each.is_going}
    leaving = {index: there[index] for index in sorted(victims | extra)}
    done = {index for index, each in leaving.items() if _may_go(each, wish)}
    update = frozenset(idle | (victims & done))
    ask = frozenset(index for index, each in leaving.items() if index not in done and each.drain is Drain.NOT_ASKED)
    return Step(
        create=inside - there.keys(),
        update=update,
        ask=ask,
        draining=frozenset(leaving) - done - ask,
        hold=frozenset(each.index for each in outdated) - update,
        delete=frozenset(extra & done),
        surge=surge,
    )


def is_settled(wish: Wish, instances: Collection[Instance]) -> bool:
    """Whether every instance that a rollout reaches is ready with the wanted revision."""
    good = {each.index for each in instances if each.is_new and each.is_ready and not each.is_going}
    return good >= set(range(wish.strategy.partition, wish.replicas))


def _surge(wish: Wish, there: dict[int, Instance]) -> frozenset[int]:
    """Extra instances: from the first ready instance that must be updated until all that must be are ready again."""
    room = range(wish.replicas, wish.replicas + wish.surge)
    reached = [there[index] for index in range(wish.strategy.partition, wish.replicas) if index in there]
    if any(_is_outdated(each) and (each.is_ready or each.drain is not Drain.NOT_ASKED) for each in reached):
        return frozenset(index for index in room if index in there) if wish.is_paused else frozenset(room)
    present = frozenset(index for index in room if index in there and there[index].is_new)
    return frozenset() if is_settled(wish, there.values()) else present


def _ready_victims(
    wish: Wish, there: dict[int, Instance], inside: frozenset[int], surge: frozenset[int], in_scope: list[Instance]
) -> set[int]:
    """Ready instances that the budget lets go now, highest index first. Extra instances come before those they stand in for."""
    serving = sum(there[index].is_serving for index in inside if index in there)
    candidates = [each for each in in_scope if each.is_serving]
    if not all(index in there and there[index].is_new and there[index].is_serving for index in surge):
        candidates = [each for each in candidates if each.index in surge]
    return {each.index for each in candidates[: max(serving - wish.floor, 0)]}


def _is_outdated(each: Instance) -> bool:
    return not each.is_new and not each.is_going


def _may_go(each: Instance, wish: Wish) -> bool:
    """Whether nothing is left to drain. What does not serve and was not asked has nothing to finish."""
    return not wish.drains or each.drain is Drain.OVER or (each.drain is Drain.NOT_ASKED and not each.is_ready)
