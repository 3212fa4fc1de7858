# SPDX-License-Identifier: Apache-2.0
"""When is a node lost. No API server."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from controller_runtime.api.labels import NODE_CLEANER
from controller_runtime.kube.kind import Object
from controller_runtime.reconcilers.node_state import (
    due_in_s,
    is_node_ready,
    is_opted_out,
    lease_left_s,
    needs_lease,
    project_node,
    went_not_ready,
)

NOW = datetime(2026, 1, 1, 0, 1, tzinfo=UTC)


def node(ready: str | None, since: str = "2026-01-01T00:00:00Z") -> Object:
    conditions: list[Any] = [{"type": "DiskPressure", "status": "False"}]
    if ready is not None:
        conditions.append({"type": "Ready", "status": ready, "lastTransitionTime": since})
    metadata = {"name": "n", "uid": "u", "resourceVersion": "1", "creationTimestamp": "2026-01-01T00:00:30Z", "labels": {"a": "b"}}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata,
        "spec": {"big": 1},
        "status": {"conditions": conditions, "images": [1]},
    }


READY, FALSE, UNKNOWN, SILENT = node("True"), node("False"), node("Unknown"), node(None)


@pytest.mark.parametrize(
    "old, new, expected",
    [
        (READY, FALSE, True),
        (READY, UNKNOWN, True),
        (READY, SILENT, True),
        (None, FALSE, True),
        (None, READY, False),
        (FALSE, FALSE, False),
        (FALSE, UNKNOWN, False),
        (FALSE, READY, False),
        (FALSE, None, False),
        (READY, None, False),
    ],
)
def test_v55_only_the_change_from_ready_to_not_ready_counts(old: Object | None, new: Object | None, expected: bool) -> None:
    """Vector 55."""
    assert went_not_ready(old, new) is expected


def test_the_cache_keeps_the_ready_condition_and_nothing_else() -> None:
    kept = project_node(node("False"))

    assert kept["status"] == {"conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}
    assert (set(kept), set(kept["metadata"])) == (
        {"apiVersion", "kind", "metadata", "status"},
        {"name", "uid", "resourceVersion", "creationTimestamp"},
    )
    assert not is_node_ready(kept)


def test_the_delay_counts_from_the_change_of_the_condition_else_from_the_node() -> None:
    assert due_in_s(FALSE, 40, NOW) == -20
    assert due_in_s(FALSE, 90, NOW) == 30
    assert due_in_s(SILENT, 40, NOW) == 10


def test_the_lease_of_a_node_that_says_false_tells_nothing() -> None:
    assert [needs_lease(each) for each in (FALSE, UNKNOWN, SILENT)] == [False, True, True]


@pytest.mark.parametrize("age_s, duration_s, left_s", [(0, 40, 40), (30, 40, 10), (41, 40, 0), (30, None, 10)])
def test_a_lease_holds_for_its_duration(age_s: int, duration_s: int | None, left_s: float) -> None:
    renewed = (NOW - timedelta(seconds=age_s)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    assert lease_left_s({"spec": {"renewTime": renewed, "leaseDurationSeconds": duration_s}}, NOW) == left_s


@pytest.mark.parametrize("lease", [None, {}, {"spec": {}}])
def test_a_lease_that_is_not_there_does_not_hold(lease: Object | None) -> None:
    assert lease_left_s(lease, NOW) == 0


def test_a_pod_its_service_or_their_set_opts_out() -> None:
    off: Object = {"metadata": {"labels": {NODE_CLEANER: "off"}}}
    on: Object = {"metadata": {}}

    assert is_opted_out(off, None, None)
    assert is_opted_out(on, off, None)
    assert is_opted_out(on, on, off)
    assert not is_opted_out(on, on, None)
    assert not is_opted_out({"metadata": {"labels": {NODE_CLEANER: "on"}}})
