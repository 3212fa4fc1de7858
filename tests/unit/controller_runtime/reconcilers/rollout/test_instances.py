# SPDX-License-Identifier: Apache-2.0
"""Instances as read from workloads: revision, readiness, drain, strays; and what a step makes of them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from controller_runtime.api.labels import DRAIN_REQUESTED, DRAINED, INSTANCE_INDEX, REVISION
from controller_runtime.kube.kind import DEPLOYMENT, STATEFUL_SET, Object
from controller_runtime.kube.workqueue import Request
from controller_runtime.reconcilers.differences import with_hash
from controller_runtime.reconcilers.role_view import RoleView
from controller_runtime.reconcilers.rollout import revision
from controller_runtime.reconcilers.rollout.decision import Drain
from controller_runtime.reconcilers.rollout.drain import drain_of, seconds_left, stale_marks
from controller_runtime.reconcilers.rollout.instances import RoleRollout
from controller_runtime.reconcilers.rollout.own_writes import OwnWrites
from controller_runtime.reconcilers.workloads import WorkloadHandler, handler_of
from tests.support.infer import infer_service, pod_template, role, view

NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
REQUEST = Request("ns", "s-r")


def handler(kind: str = "Deployment") -> WorkloadHandler:
    found = handler_of("apps/v1", kind)
    assert found is not None
    return found


def role_view(replicas: int = 2, image: str = "a", kind: str = "Deployment", **more: Any) -> RoleView:
    template = pod_template(None, None, {"name": "infer", "image": image, "env": [{"name": "A", "value": "1"}] if image == "a" else []})
    return view(infer_service("s", [role("r", replicas, kind, spec={"template": template}, **more)]))


def workload(index: int, of: RoleView | None = None, **annotations: str) -> Object:
    of = of or role_view()
    kind = of.instance_set.spec.workload
    assert kind is not None
    made = RoleRollout.of(of, handler(kind.kind), {}, NOW).desired(index)
    made["metadata"] |= {"uid": f"uid-{index}", "annotations": {**made["metadata"]["annotations"], **annotations}}
    return made


def rollout(of: RoleView, *live: Object, kind: str = "Deployment") -> RoleRollout:
    by_kind = {each: {o["metadata"]["name"]: o for o in live if o["kind"] == each.kind} for each in (DEPLOYMENT, STATEFUL_SET)}
    return RoleRollout.of(of, handler(kind), by_kind, NOW)


def test_a_revision_is_the_content_and_not_the_number_of_instances_or_labels() -> None:
    first = rollout(role_view()).revision

    assert first == rollout(role_view(7, metadata={"labels": {"x": "y"}})).revision
    assert len({first, rollout(role_view(image="b")).revision, rollout(role_view(kind="StatefulSet"), kind="StatefulSet").revision}) == 3
    assert first.startswith("v1-")


def test_instances_of_the_wanted_revision_are_current_and_others_are_not() -> None:
    found = rollout(role_view(image="b"), workload(0), workload(1, role_view(image="b")))

    assert [each.is_new for each in found.instances] == [False, True]


@pytest.mark.parametrize("mark", [None, "v0-1234", "whatever"])
def test_a_mark_that_is_missing_or_of_another_format_is_replaced_by_a_look_at_the_content(mark: str | None) -> None:
    live = workload(0)
    live["metadata"]["annotations"] = {} if mark is None else {REVISION: mark}

    assert rollout(role_view(), live).instances[0].is_new
    assert not rollout(role_view(image="b"), live).instances[0].is_new


def test_only_a_mark_of_this_format_can_tell_a_field_that_was_removed() -> None:
    removed = role_view(image="b")
    live = workload(0, removed)
    live["spec"]["template"]["spec"]["containers"][0]["env"].append({"name": "EXTRA", "value": "1"})

    assert rollout(removed, live).instances[0].is_new
    assert revision.is_of_this_format(live["metadata"]["annotations"][REVISION])


def test_an_instance_of_another_kind_is_outdated() -> None:
    found = rollout(role_view(1, kind="StatefulSet"), workload(0), kind="StatefulSet")

    assert [(each.index, each.is_new) for each in found.instances] == [(0, False)]


def test_v29_what_has_no_number_is_left_alone_and_what_has_a_wrong_one_is_a_stray() -> None:
    """Vectors 7 and 29."""
    unnumbered, negative, misnamed = workload(0), workload(1), workload(1)
    unnumbered["metadata"] |= {"name": "s-r-x", "labels": {INSTANCE_INDEX: "x"}}
    negative["metadata"] |= {"name": "s-r--1", "labels": {INSTANCE_INDEX: "-1"}}
    misnamed["metadata"] |= {"name": "odd", "labels": {INSTANCE_INDEX: "1"}}

    found = rollout(role_view(1), workload(0), workload(1), workload(2), unnumbered, negative, misnamed)

    assert [each["metadata"]["name"] for each in found.strays] == ["s-r--1", "odd"]
    assert found.step.delete == {1, 2}
    assert found.due == [0]


def test_what_belongs_to_an_instance_that_waits_its_turn_stays() -> None:
    found = rollout(role_view(3, image="b"), *(workload(index) for index in (0, 1)))

    assert (found.due, found.at_rest, found.present) == ([0, 1, 2], frozenset(), {0, 1, 2})
    ready = [workload(index) for index in (0, 1, 2)]
    conditions = [{"type": each, "status": "True"} for each in ("Available", "Progressing")]
    for each in ready:
        each["status"] = {"readyReplicas": 1, "availableReplicas": 1, "updatedReplicas": 1, "replicas": 1, "conditions": conditions}
    found = rollout(role_view(3, image="b"), *ready)
    assert (found.due, found.at_rest) == ([2], {0, 1})


@pytest.mark.parametrize(
    "annotations, expected",
    [
        pytest.param({}, Drain.NOT_ASKED, id="nothing"),
        pytest.param({DRAINED: "true"}, Drain.NOT_ASKED, id="an-answer-to-no-question"),
        pytest.param({DRAIN_REQUESTED: "2026-01-01T11:59:50+00:00"}, Drain.ASKED, id="asked"),
        pytest.param({DRAIN_REQUESTED: "2026-01-01T11:59:50Z", DRAINED: "true"}, Drain.OVER, id="answered"),
        pytest.param({DRAIN_REQUESTED: "2026-01-01T11:59:50Z", DRAINED: "false"}, Drain.ASKED, id="answered-no"),
        pytest.param({DRAIN_REQUESTED: "2026-01-01T11:59:30Z"}, Drain.OVER, id="out-of-time"),
        pytest.param({DRAIN_REQUESTED: "yesterday"}, Drain.NOT_ASKED, id="unreadable"),
        pytest.param({DRAIN_REQUESTED: "2026-01-01T11:59:50"}, Drain.NOT_ASKED, id="without-a-zone"),
        pytest.param({DRAIN_REQUESTED: "2027-01-01T00:00:00Z"}, Drain.NOT_ASKED, id="far-ahead-would-never-end"),
    ],
)
def test_a_drain_is_read_from_the_annotations_alone(annotations: dict[str, str], expected: Drain) -> None:
    assert drain_of(annotations, 30, NOW) is expected


def test_the_time_left_counts_from_the_request() -> None:
    assert seconds_left({DRAIN_REQUESTED: "2026-01-01T11:59:50Z"}, 30, NOW) == 20
    assert stale_marks({DRAINED: "true", "other": "x"}) == [DRAINED]


def test_our_own_write_counts_until_the_cache_shows_it() -> None:
    own = OwnWrites()
    old = {"metadata": {"name": "a", "uid": "u", "resourceVersion": "9"}}
    new = {"metadata": {"name": "a", "uid": "u", "resourceVersion": "10"}}
    own.note(REQUEST, new)

    assert own.freshest(REQUEST, {DEPLOYMENT: {"a": old}}) == {DEPLOYMENT: {"a": new}}
    newest = {"metadata": {"name": "a", "uid": "u", "resourceVersion": "11"}}
    assert own.freshest(REQUEST, {DEPLOYMENT: {"a": newest}}) == {DEPLOYMENT: {"a": newest}}
    assert own.freshest(REQUEST, {DEPLOYMENT: {"a": old}}) == {DEPLOYMENT: {"a": old}}


def test_a_deletion_counts_until_the_object_is_gone_and_not_for_its_successor() -> None:
    own = OwnWrites()
    old: Object = {"metadata": {"name": "a", "uid": "u", "resourceVersion": "9"}}
    own.note_deletion(REQUEST, old)

    for _ in range(2):
        assert "deletionTimestamp" in own.freshest(REQUEST, {DEPLOYMENT: {"a": old}})[DEPLOYMENT]["a"]["metadata"]
    successor = {"metadata": {"name": "a", "uid": "v", "resourceVersion": "10"}}
    assert own.freshest(REQUEST, {DEPLOYMENT: {"a": successor}}) == {DEPLOYMENT: {"a": successor}}


def test_the_mark_takes_part_in_the_digest_so_that_it_is_written() -> None:
    made = rollout(role_view())

    assert with_hash(made.desired(0)) != with_hash(handler().desired(role_view(), 0))
