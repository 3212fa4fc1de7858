# SPDX-License-Identifier: Apache-2.0
"""Pods as the cache keeps them, pods that go, pods that are to be removed."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from controller_runtime.kube.kind import Object
from controller_runtime.kube.store import Store
from controller_runtime.reconcilers.faults.lost_pods import LostPods
from controller_runtime.reconcilers.faults.make_room import Sibling, give_way
from controller_runtime.reconcilers.faults.pods import NODE_INDEX, POD_INDEXES, ROLE_INDEX, Owner, PodView, project_pod, role_key
from controller_runtime.reconcilers.faults.removal import Removal, due
from controller_runtime.reconcilers.faults.triggers import is_fault_news
from tests.support.manual_clock import ManualClock

P = "infer.huawei.com/"
KEY = role_key("ns", "x-0", "a")
NOW = datetime(2026, 1, 1, 0, 1, tzinfo=UTC)
GOING: dict[str, Any] = {"deletionTimestamp": "2026-01-01T00:01:30Z", "deletionGracePeriodSeconds": 30}
"""Asked for at 00:01:00."""


def pod(
    name: str = "x-0-a-1-0", created: str = "2026-01-01T00:00:00Z", owner: str = "w1", phase: str = "Running", **metadata: Any
) -> Object:
    labels = {
        f"{P}ascend-infer-operator": "true",
        f"{P}inferservice-name": "x-0",
        f"{P}instanceset-name": "a",
        f"{P}instanceset-index": "1",
        "fault-scheduling": "external-grace",
        "fault-retry-times": "2",
        "controller-revision-hash": "x-0-a-1-5d",
        "app": "mine",
    }
    reference = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "x-0-a-1", "uid": owner, "controller": True}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "namespace": "ns",
            "name": name,
            "uid": f"uid-{name}",
            "resourceVersion": "1",
            "creationTimestamp": created,
            "labels": labels,
            "annotations": {"huawei.com/pod-status": "Unhealthy-node", "other": "big"},
            "ownerReferences": [reference],
            "managedFields": [1, 2, 3],
            **metadata,
        },
        "spec": {"nodeName": "n", "terminationGracePeriodSeconds": 12, "containers": [{"name": "big"}]},
        "status": {"phase": phase, "conditions": [1, 2]},
    }


def test_the_cache_keeps_what_is_read_and_nothing_else() -> None:
    kept = project_pod(pod(**GOING))

    assert PodView.of(kept) == PodView.of(pod(**GOING))
    assert set(kept["metadata"]) == {
        "namespace", "name", "uid", "resourceVersion", "creationTimestamp", "labels", "annotations", "ownerReferences", *GOING,
    }  # fmt: skip
    assert (kept["spec"], kept["status"]) == ({"nodeName": "n", "terminationGracePeriodSeconds": 12}, {"phase": "Running"})
    assert "app" not in kept["metadata"]["labels"]
    assert list(POD_INDEXES[ROLE_INDEX](kept)) == [KEY]
    assert list(POD_INDEXES[NODE_INDEX](kept)) == ["n"]


def test_a_pod_is_read_whole() -> None:
    assert PodView.of(pod(**GOING)) == PodView(
        "ns",
        "x-0-a-1-0",
        "uid-x-0-a-1-0",
        "x-0",
        "a",
        1,
        Owner("StatefulSet", "x-0-a-1", "w1"),
        datetime(2026, 1, 1, tzinfo=UTC),
        says="Unhealthy-node",
        retry_times="2",
        fault_scheduling="external-grace",
        revision="x-0-a-1-5d",
        grace_s=12,
        gone_by=datetime(2026, 1, 1, 0, 1, 30, tzinfo=UTC),
    )


@pytest.mark.parametrize("key", ["ascend-infer-operator", "inferservice-name", "instanceset-name", "instanceset-index"])
def test_a_pod_without_one_of_the_index_labels_is_none_of_an_instance(key: str) -> None:
    stranger = pod()
    del stranger["metadata"]["labels"][P + key]

    assert PodView.of(stranger) is None
    assert PodView.of(project_pod(stranger)) is None


def test_a_pod_that_nobody_controls_is_none_of_an_instance() -> None:
    assert PodView.of(pod(ownerReferences=[])) is None


class Cluster:
    """A store of pods with its handler, as an informer drives them."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.store = Store(project_pod, POD_INDEXES)
        self.lost = LostPods(self.store, self.clock)

    def see(self, *pods: Object) -> None:
        """Watch events."""
        for each in pods:
            for change in self.store.upsert({**each, "metadata": {**each["metadata"], "resourceVersion": str(id(each))}}):
                self.lost.observe(*change)

    def relist(self, *pods: Object) -> None:
        """A complete list."""
        for change in self.store.replace(pods):
            self.lost.observe(*change)

    def remove(self, name: str) -> None:
        for change in self.store.remove("ns", name):
            self.lost.observe(*change)

    def left(self) -> list[int]:
        return [note.left for note in self.lost.of(KEY)]


def test_v54_a_pod_whose_deletion_begins_is_noted_with_the_pods_that_are_left() -> None:
    cluster = Cluster()
    cluster.see(pod("p0"), pod("p1"), pod("p2"), pod("other", owner="w2"), pod("dead", phase="Failed"))
    assert cluster.left() == []

    cluster.see(pod("p0", **GOING))

    assert cluster.left() == [2]


def test_the_end_of_a_pod_that_was_going_is_no_second_loss() -> None:
    cluster = Cluster()
    cluster.see(pod("p0"), pod("p1"), pod("p0", **GOING))
    (note,) = cluster.lost.of(KEY)
    cluster.lost.forget(note)

    cluster.remove("p0")

    assert cluster.left() == []


def test_a_pod_removed_at_once_or_unseen_is_noted() -> None:
    cluster = Cluster()
    cluster.see(pod("p0"), pod("p1"))
    cluster.remove("p0")
    assert cluster.left() == [1]

    again = Cluster()
    again.relist(pod("p0"), pod("p1"))
    again.relist(pod("p1"))
    assert again.left() == [1]


def test_of_several_lost_pods_the_one_that_left_the_fewest_counts() -> None:
    cluster = Cluster()
    cluster.see(pod("p0"), pod("p1"), pod("p2"), pod("p2", **GOING), pod("p0", **GOING))
    cluster.see(pod("p3"), pod("p4"), pod("p4", **GOING))

    assert cluster.left() == [1]


@pytest.mark.parametrize("created, left", [("2026-01-01T00:00:59Z", 2), ("2026-01-01T00:01:00Z", 1), ("2026-01-01T00:01:05Z", 1)])
def test_in_a_first_list_a_replacement_does_not_make_up_for_the_lost_pod(created: str, left: int) -> None:
    cluster = Cluster()

    cluster.relist(pod("p0", **GOING), pod("p1"), pod("p2", created=created))

    assert cluster.left() == [left]


def test_a_note_lives_for_a_minute() -> None:
    cluster = Cluster()
    cluster.see(pod("p0"), pod("p0", **GOING))
    cluster.clock.advance(60)
    assert cluster.left() == [0]

    cluster.clock.advance(1)

    assert cluster.left() == []


def test_an_instance_set_is_woken_by_a_new_fault_and_by_the_end_of_a_pod() -> None:
    healthy, faulty = pod(annotations={}), pod()

    assert is_fault_news(None, faulty)
    assert is_fault_news(healthy, faulty)
    assert is_fault_news(healthy, pod(annotations={}, **GOING))
    assert is_fault_news(healthy, None)
    assert not is_fault_news(None, healthy)
    assert not is_fault_news(faulty, pod(labels={}))
    assert not is_fault_news(faulty, healthy)
    assert not is_fault_news(pod(**GOING), None)


def view(scheduling: str, **fields: Any) -> PodView:
    seen = PodView.of(pod())
    assert seen is not None
    return replace(seen, fault_scheduling=scheduling, **fields)


@pytest.mark.parametrize("scheduling", ["", "grace", "force", "off", "external"])
def test_pods_that_others_remove_are_left_alone(scheduling: str) -> None:
    assert due([view(scheduling, gone_by=NOW - timedelta(hours=1))], NOW) == Removal((), None)


def test_external_force_removes_at_once() -> None:
    going, staying = view("external-force", gone_by=NOW + timedelta(hours=1)), view("external-force")

    assert due([going, staying], NOW) == Removal((going, staying), None)


@pytest.mark.parametrize(
    "gone_by_s, is_due, again_s",
    [(-60, True, None), (-1, True, None), (0, False, 1.0), (20, False, 21.0), (None, False, 13.0)],
)
def test_external_grace_gives_a_pod_the_time_it_was_told(gone_by_s: int | None, is_due: bool, again_s: float | None) -> None:
    going = view("external-grace", gone_by=None if gone_by_s is None else NOW + timedelta(seconds=gone_by_s))

    assert due([going], NOW) == Removal((going,) if is_due else (), again_s)


def test_external_grace_looks_again_when_the_first_pod_is_due() -> None:
    pods = [view("external-grace", gone_by=NOW + timedelta(seconds=each)) for each in (30, 10, 20)]

    assert due(pods, NOW).again_s == 11.0


@pytest.mark.parametrize(
    "own, sibling, replicas, ready, gives",
    [(1, 2, 2, 1, True), (1, 2, 2, 2, False), (2, 2, 2, 1, False), (2, 1, 2, 1, False), (1, None, 2, 1, False), (None, 2, 2, 1, False)],
)
def test_what_is_less_important_and_not_ready_gives_way(
    own: int | None, sibling: int | None, replicas: int, ready: int, gives: bool
) -> None:
    waiting = {"metadata": {"name": "y"}}

    assert give_way(own, [Sibling(sibling, replicas, ready, (waiting,))]) == ([waiting] if gives else [])
