# SPDX-License-Identifier: Apache-2.0
"""Which instances a rollout touches, and in a simulated cluster: that it keeps the minimum and always ends."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from controller_runtime.api.rollout import RolloutStrategy
from controller_runtime.reconcilers.rollout.decision import Drain, Instance, Step, Wish, decide, is_settled

NEW, OLD = True, False


def instances(*ready_new: tuple[bool, bool]) -> list[Instance]:
    """`(is_ready, is_new)` from index 0."""
    return [Instance(index, is_new, is_ready) for index, (is_ready, is_new) in enumerate(ready_new)]


def wish(replicas: int, *, drains: bool = False, is_paused: bool = False, **strategy: int) -> Wish:
    return Wish(replicas, RolloutStrategy(**strategy), drains, is_paused)


def test_one_ready_instance_at_a_time_from_the_highest_index() -> None:
    step = decide(wish(3), instances((True, OLD), (True, OLD), (True, OLD)))

    assert (step.update, step.hold) == ({2}, {0, 1})


def test_deciding_again_before_anything_changed_asks_for_the_same() -> None:
    there = instances((True, OLD), (True, OLD), (True, OLD))

    assert decide(wish(3), there) == decide(wish(3), there)


def test_an_instance_on_its_way_uses_up_the_budget() -> None:
    assert decide(wish(3), instances((True, OLD), (True, OLD), (False, NEW))) == Step(hold=frozenset({0, 1}))


def test_what_does_not_serve_goes_first_and_costs_nothing() -> None:
    step = decide(wish(4), instances((False, OLD), (True, OLD), (True, OLD), (False, OLD)))

    assert (step.update, step.hold) == ({0, 3}, {1, 2})


def test_a_single_instance_is_updated_although_nothing_serves_meanwhile() -> None:
    assert decide(wish(1), instances((True, OLD))).update == {0}


def test_one_instance_stays_where_the_budget_would_take_all() -> None:
    assert decide(wish(2, max_unavailable=2), instances((True, OLD), (True, OLD))).update == {1}


def test_the_partition_keeps_lower_indices() -> None:
    there = instances((True, OLD), (False, OLD), (True, OLD), (True, NEW))

    step = decide(wish(4, partition=2), there)

    assert (step.update, step.hold) == (frozenset(), {0, 1, 2})
    assert decide(wish(4, partition=2), [replace(each, is_ready=True) for each in there]).update == {2}


def test_extra_instances_run_before_the_first_one_goes_and_go_at_the_end() -> None:
    extra = wish(2, max_unavailable=0, max_surge=1)
    olds = instances((True, OLD), (True, OLD))

    assert decide(extra, olds) == Step(create=frozenset({2}), hold=frozenset({0, 1}), surge=frozenset({2}))
    assert decide(extra, [*olds, Instance(2, NEW, is_ready=False)]).update == frozenset()
    assert decide(extra, [*olds, Instance(2, NEW, is_ready=True)]).update == {1}
    last = [Instance(0, NEW, is_ready=False), Instance(1, NEW, is_ready=True), Instance(2, NEW, is_ready=True)]
    assert decide(extra, last) == Step(surge=frozenset({2}))
    assert decide(extra, [replace(each, is_ready=True) for each in last]).delete == {2}


def test_a_paused_role_touches_nothing_but_makes_what_is_missing() -> None:
    step = decide(wish(4, is_paused=True), instances((True, OLD), (False, OLD), (True, NEW)))

    assert step == Step(create=frozenset({3}), hold=frozenset({0, 1}))


def test_what_is_too_many_is_deleted() -> None:
    step = decide(wish(1), instances((True, NEW), (True, NEW), (False, OLD)))

    assert step == Step(delete=frozenset({1, 2}))


def test_a_ready_instance_drains_before_it_goes_and_one_that_does_not_serve_has_nothing_to_finish() -> None:
    there = instances((True, OLD), (True, OLD), (True, NEW), (False, NEW))

    step = decide(wish(2, drains=True), there)

    assert (step.ask, step.delete, step.update) == ({1, 2}, {3}, frozenset())
    asked = [replace(each, drain=Drain.ASKED if each.index in step.ask else each.drain) for each in there]
    assert decide(wish(2, drains=True), asked).draining == {1, 2}
    over = [replace(each, drain=Drain.OVER if each.index in step.ask else each.drain) for each in there]
    again = decide(wish(2, drains=True), over)
    assert (again.update, again.delete) == ({1}, {2, 3})


def test_an_instance_that_stopped_serving_because_it_drains_is_waited_for() -> None:
    there = [Instance(0, OLD, is_ready=True), Instance(1, OLD, is_ready=False, drain=Drain.ASKED)]

    step = decide(wish(2, drains=True), there)

    assert (step.update, step.draining, step.hold) == (frozenset(), {1}, {0, 1})


def test_a_drain_that_is_no_longer_needed_holds_nothing_up() -> None:
    assert decide(wish(1, drains=True), [Instance(0, NEW, is_ready=True, drain=Drain.ASKED)]) == Step()


strategies = st.builds(
    RolloutStrategy,
    max_unavailable=st.integers(0, 4),
    max_surge=st.integers(0, 3),
    partition=st.integers(0, 4),
).filter(lambda each: each.can_move)


class Simulated:
    """A role on paper: revisions and readiness by index; what was asked for happens when `settle` is called."""

    def __init__(self, replicas: int, revision: int, strategy: RolloutStrategy, drains: bool) -> None:
        self.replicas, self.strategy, self.drains = replicas, strategy, drains
        self.wanted = revision
        self.there: dict[int, list[Any]] = {index: [revision, True, Drain.NOT_ASKED] for index in range(replicas)}

    def wish(self) -> Wish:
        return Wish(self.replicas, self.strategy, self.drains)

    def seen(self) -> list[Instance]:
        return [Instance(index, rev == self.wanted, ready, drain) for index, (rev, ready, drain) in sorted(self.there.items())]

    def serving(self) -> int:
        return sum(1 for rev, ready, drain in self.there.values() if ready and drain is Drain.NOT_ASKED)

    def carry_out(self) -> Step:
        step = decide(self.wish(), self.seen())
        for index in step.create | step.update:
            self.there[index] = [self.wanted, False, Drain.NOT_ASKED]
        for index in step.ask:
            self.there[index][2] = Drain.ASKED
        for index in step.delete:
            del self.there[index]
        for index in self.there.keys() - step.ask - step.draining:
            self.there[index][2] = Drain.NOT_ASKED
        return step


@settings(max_examples=300, deadline=None)
@given(st.data(), st.integers(0, 6), strategies, st.booleans())
def test_never_below_the_minimum_and_no_mixture_of_our_making(
    data: st.DataObject, replicas: int, strategy: RolloutStrategy, drains: bool
) -> None:
    """Any order of edits, failures and recoveries: what we do never takes the serving ones below the floor, and
    only the wanted revision is ever made."""
    role = Simulated(replicas, 0, strategy, drains)
    for _ in range(data.draw(st.integers(1, 25))):
        match data.draw(st.sampled_from(["step", "ready", "drained", "edit", "fail", "scale"])):
            case "ready":
                for each in role.there.values():
                    each[1] = each[1] or data.draw(st.booleans())
            case "drained":
                for each in role.there.values():
                    each[2] = Drain.OVER if each[2] is Drain.ASKED and data.draw(st.booleans()) else each[2]
            case "edit":
                role.wanted = data.draw(st.integers(0, 3))
            case "fail" if role.there:
                role.there[data.draw(st.sampled_from(sorted(role.there)))][1] = False
            case "scale":
                role.replicas = data.draw(st.integers(0, 6))
            case _:
                pass
        inside = set(range(role.replicas)) | decide(role.wish(), role.seen()).surge
        before = {index: list(each) for index, each in role.there.items()}
        count = sum(1 for index, (_, ready, drain) in before.items() if index in inside and ready and drain is Drain.NOT_ASKED)

        role.carry_out()

        after = sum(1 for i, (_, ready, drain) in role.there.items() if i in inside and ready and drain is Drain.NOT_ASKED)
        assert after >= min(count, role.wish().floor)
        assert all(each[0] in (role.wanted, before[i][0] if i in before else role.wanted) for i, each in role.there.items())


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 6), strategies, st.booleans(), st.lists(st.integers(1, 3), min_size=1, max_size=4), st.integers(0, 3))
def test_it_always_ends_at_the_last_edit(
    replicas: int, strategy: RolloutStrategy, drains: bool, edits: list[int], steps_between: int
) -> None:
    role = Simulated(replicas, 0, strategy, drains)
    for revision in edits:
        role.wanted = revision
        for _ in range(steps_between):
            role.carry_out()
    for _ in range(100):
        for each in role.there.values():
            each[1], each[2] = True, Drain.OVER if each[2] is Drain.ASKED else each[2]
        role.carry_out()

    assert decide(role.wish(), role.seen()) == Step(hold=frozenset(each.index for each in role.seen() if not each.is_new))
    assert set(role.there) == set(range(replicas))
    assert is_settled(role.wish(), role.seen())
    assert {each[0] for index, each in role.there.items() if index >= strategy.partition} <= {role.wanted}
