# SPDX-License-Identifier: Apache-2.0
"""How far a rollout is, and when it is stuck."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from controller_runtime.api.rollout import RolloutStatus, RolloutStrategy
from controller_runtime.reconcilers.rollout.decision import Drain, Instance, Wish, decide
from controller_runtime.reconcilers.rollout.progress import Progress, progress_of, sum_of

NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
DEADLINE_S = 60
DONE = RolloutStatus(revision="v1-old", new_instances=2, step=2, steps=2)


def judge(
    *instances: Instance, before: RolloutStatus | None = DONE, later_s: float = 0, replicas: int = 2, paused: bool = False
) -> Progress:
    wish = Wish(replicas, RolloutStrategy(progress_deadline_seconds=DEADLINE_S), drains=True, is_paused=paused)
    step = decide(wish, instances)
    return progress_of(wish, instances, step, "v1-new", before, NOW + timedelta(seconds=later_s), "prefill" if paused else None)


def new(index: int, *, ready: bool = True) -> Instance:
    return Instance(index, is_new=True, is_ready=ready)


def old(index: int, drain: Drain = Drain.NOT_ASKED) -> Instance:
    return Instance(index, is_new=False, is_ready=True, drain=drain)


def test_instances_that_start_for_the_first_time_are_no_rollout() -> None:
    found = judge(new(0, ready=False), new(1, ready=False), before=None, later_s=10 * DEADLINE_S)

    assert (found.status.is_complete, found.stuck, found.look_again_s) == (True, None, None)


def test_the_deadline_runs_from_the_last_step() -> None:
    first = judge(old(0), new(1, ready=False))
    assert (first.status.step, first.status.steps, first.status.old_instances, first.look_again_s) == (0, 2, 1, DEADLINE_S)

    again = judge(old(0), new(1, ready=False), before=first.status, later_s=20)
    assert (again.status, again.look_again_s, again.stuck) == (first.status, 40, None)
    assert judge(old(0), new(1, ready=False), before=first.status, later_s=60).stuck == "is not ready"
    moved = judge(new(0, ready=False), new(1), before=first.status, later_s=60)
    assert (moved.status.step, moved.look_again_s, moved.stuck) == (1, DEADLINE_S, None)


def test_the_last_instance_counts_although_none_is_outdated_any_more() -> None:
    before = judge(old(0), new(1)).status

    last = judge(new(0, ready=False), new(1), before=before)

    assert not last.status.is_complete
    assert judge(new(0, ready=False), new(1), before=last.status, later_s=DEADLINE_S).stuck
    assert judge(new(0), new(1), before=last.status).status.is_complete


def test_an_instance_that_fails_after_the_rollout_is_no_rollout() -> None:
    done = judge(new(0), new(1)).status

    assert judge(new(0), new(1, ready=False), before=done, later_s=10 * DEADLINE_S).status == done


def test_a_status_of_another_hash_format_starts_no_rollout() -> None:
    assert judge(new(0, ready=False), new(1), before=RolloutStatus(revision="v0-x", step=2, steps=2)).status.is_complete


def test_a_drain_is_never_stuck_and_a_role_that_waits_is_neither() -> None:
    draining = judge(old(0), old(1, Drain.ASKED))
    assert "drains instance 1" in draining.status.message
    assert judge(old(0), old(1, Drain.ASKED), before=draining.status, later_s=10 * DEADLINE_S).stuck is None

    waiting = judge(old(0), old(1), paused=True, later_s=10 * DEADLINE_S)
    assert (waiting.status.message, waiting.stuck, waiting.status.is_complete) == ("waits for role prefill", None, False)


def test_sums_add_up_and_keep_the_latest_progress() -> None:
    one, two = RolloutStatus(new_instances=1, step=1, steps=2, last_progress_time="2026-01-01T00:00:00Z"), RolloutStatus(step=3, steps=3)

    found = sum_of("v1-x", [one, two], "m")

    assert (found.revision, found.new_instances, found.step, found.steps, found.message) == ("v1-x", 1, 4, 5, "m")
    assert found.last_progress_time == "2026-01-01T00:00:00Z"
