# SPDX-License-Identifier: Apache-2.0
"""What is a fault, what is a loss, and what follows from them. No API server."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from controller_runtime.api.labels import FAULT_RECORD
from controller_runtime.reconcilers.faults.decision import (
    Ancestry,
    Fault,
    Instance,
    Plan,
    Rebuild,
    Verdict,
    belongs,
    fault_of,
    judge_loss,
    plan,
)
from controller_runtime.reconcilers.faults.pods import Owner, PodView
from controller_runtime.reconcilers.faults.record import FaultRecord, InstanceRecord

START = datetime(2026, 1, 1, tzinfo=UTC)
LATER = datetime(2026, 1, 2, tzinfo=UTC)
POD = PodView("ns", "x-0-a-1-0", "pod-uid", "x-0", "a", 1, Owner("StatefulSet", "x-0-a-1", "w1"), START)
INSTANCE = Instance(1, "StatefulSet", "x-0-a-1", "w1", START, 2, True, "new")


def record(**entry: Any) -> FaultRecord:
    return FaultRecord(instances={1: InstanceRecord.model_validate(entry)})


def decide(
    *faults: Fault, instance: Instance = INSTANCE, kept: FaultRecord | None = None, removed: dict[int, list[str]] | None = None
) -> Plan:
    return plan(faults, {instance.index: instance}, kept or FaultRecord(), removed or {}, 2)


@pytest.mark.parametrize(
    "says, retry_times, retries",
    [
        ("Unhealthy-node", None, None),
        ("Unhealthy", None, None),
        ("Unhealthy-card-separate", "0", None),
        ("Unhealthy-pod-failed", "2", 2),
        ("Unhealthy-pod-failed", "0", 0),
        ("Unhealthy-pod-failed", "10000", 10000),
    ],
)
def test_v51_v52_a_pod_that_says_it_is_unhealthy_is_a_fault(says: str, retry_times: str | None, retries: int | None) -> None:
    fault = fault_of(replace(POD, says=says, retry_times=retry_times))

    assert fault == Fault(1, f"pod x-0-a-1-0 says {says}", retries)


@pytest.mark.parametrize("retry_times", [None, "", "x", "-1", "1.5", "²"])
def test_v52_a_business_fault_without_a_number_of_retries_is_ignored(retry_times: str | None) -> None:
    assert fault_of(replace(POD, says="Unhealthy-pod-failed", retry_times=retry_times)) is None


@pytest.mark.parametrize("pod", [replace(POD, says=""), replace(POD, says="Healthy"), replace(POD, says="Unhealthy-node", gone_by=LATER)])
def test_healthy_pods_and_pods_on_their_way_out_are_no_fault(pod: PodView) -> None:
    assert fault_of(pod) is None


@pytest.mark.parametrize(
    "kind, workload, created, expected",
    [
        ("StatefulSet", "w1", START, True),
        ("StatefulSet", "w0", LATER, False),
        ("Deployment", "", LATER, False),
        ("LeaderWorkerSet", "w0", START, True),
        ("LeaderWorkerSet", "w0", datetime(2025, 12, 31, tzinfo=UTC), False),
    ],
)
def test_a_pod_belongs_to_the_workload_of_that_uid_only(kind: str, workload: str, created: datetime, expected: bool) -> None:
    assert belongs(replace(POD, created=created), Ancestry(workload), replace(INSTANCE, kind=kind)) is expected


@pytest.mark.parametrize(
    "left, revision, settled, verdict",
    [
        (1, "new", True, Verdict.REBUILD),
        (0, "", True, Verdict.REBUILD),
        (2, "new", True, Verdict.NOTHING),
        (3, "new", True, Verdict.NOTHING),
        (1, "old", True, Verdict.NOTHING),
        (1, "new", False, Verdict.WAIT),
        (2, "old", False, Verdict.WAIT),
    ],
)
def test_v54_a_lost_pod_counts_unless_a_scale_in_or_a_roll_out_explains_it(
    left: int, revision: str, settled: bool, verdict: Verdict
) -> None:
    assert judge_loss(left, Ancestry("w1", revision), replace(INSTANCE, is_settled=settled)) is verdict


def test_several_faults_of_one_instance_rebuild_it_once() -> None:
    assert decide(Fault(1, "a"), Fault(1, "b")) == Plan((Rebuild(1, "a"),))


def test_v52_a_business_fault_is_counted_before_its_workload_is_deleted() -> None:
    decided = decide(Fault(1, "a", retries=2))

    assert decided.rebuilds == (Rebuild(1, "a"),)
    assert decided.record == record(used=1, counted="w1")


def test_v52_after_the_last_retry_the_instance_stays_and_this_is_told_once() -> None:
    used_up = record(used=2, counted="w0")
    first = decide(Fault(1, "a", retries=2), kept=used_up)
    second = decide(Fault(1, "a", retries=2), kept=first.record)

    assert (first.rebuilds, first.exhausted) == ((), (Fault(1, "a", 2),))
    assert (second.rebuilds, second.exhausted, second.record) == ((), (), first.record)


def test_a_rebuild_that_was_counted_before_a_crash_is_not_counted_again() -> None:
    """Even when it was the last one."""
    kept = record(used=2, counted="w1")
    decided = decide(Fault(1, "a", retries=2), kept=kept)

    assert (decided.rebuilds, decided.record) == ((Rebuild(1, "a"),), kept)


def test_a_greater_number_of_retries_takes_effect_on_a_pod_that_was_given_up() -> None:
    kept = record(used=2, counted="w0", exhausted="w1")

    assert decide(Fault(1, "a", retries=3), kept=kept).rebuilds == (Rebuild(1, "a"),)


def test_a_fault_of_the_node_uses_no_retry_and_needs_none() -> None:
    kept = record(used=2, counted="w0")
    decided = decide(Fault(1, "business", retries=2), Fault(1, "node"), kept=kept)

    assert (decided.rebuilds, decided.record) == ((Rebuild(1, "node"),), kept)


def test_who_controls_the_pods_to_be_removed_is_kept() -> None:
    decided = decide(Fault(1, "a"), removed={1: ["w1", "older"]})

    assert decided.record == record(removing=("w1", "older"))


def test_what_is_kept_of_an_instance_that_is_no_longer_asked_for_is_dropped() -> None:
    kept = FaultRecord(instances={0: InstanceRecord(used=1), 2: InstanceRecord(used=1)})

    assert decide(kept=kept).record == FaultRecord(instances={0: InstanceRecord(used=1)})


def test_the_record_survives_its_annotation() -> None:
    kept = record(used=2, counted="w1", removing=("a", "b"))

    assert FaultRecord.read({FAULT_RECORD: kept.text()}) == kept
    assert kept.text() == '{"instances":{"1":{"used":2,"counted":"w1","removing":["a","b"]}}}'


@pytest.mark.parametrize("annotations", [{}, {FAULT_RECORD: ""}, {FAULT_RECORD: "[]"}, {FAULT_RECORD: '{"instances":{"x":1}}'}])
def test_a_missing_or_broken_annotation_counts_as_nothing_kept(annotations: dict[str, str]) -> None:
    assert FaultRecord.read(annotations) == FaultRecord()


def workload(kind: str, generation: int = 2, observed: int = 2, **spec: Any) -> dict[str, Any]:
    return {
        "kind": kind,
        "metadata": {
            "name": "x-0-a-1",
            "uid": "w1",
            "generation": generation,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "annotations": {"deployment.kubernetes.io/revision": "3"},
        },
        "spec": spec,
        "status": {"observedGeneration": observed, "updateRevision": "x-0-a-1-5d"},
    }


@pytest.mark.parametrize(
    "obj, expected",
    [
        (workload("StatefulSet", replicas=2), ("x-0-a-1-5d", True, 2)),
        (workload("Deployment"), ("3", True, 1)),
        (workload("Deployment", generation=3), ("3", False, 1)),
        (workload("LeaderWorkerSet", replicas=4), ("", True, 4)),
    ],
)
def test_an_instance_is_read_from_its_workload(obj: dict[str, Any], expected: tuple[str, bool, int]) -> None:
    instance = Instance.of(1, obj)

    assert (instance.revision, instance.is_settled, instance.pods) == expected
    assert (instance.uid, instance.created) == ("w1", START)
