# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, cast

import pytest

from controller_runtime.api.infer_service import InferServiceStatus
from controller_runtime.kube.client import KubeClient
from controller_runtime.kube.events import EventRecorder
from controller_runtime.kube.kind import Object
from controller_runtime.kube.workqueue import Request
from controller_runtime.reconcilers.publish import StatusPublisher
from controller_runtime.reconcilers.role_view import controller_reference
from controller_runtime.reconcilers.status import invalid, service_status
from tests.support.infer import service_object, stored

WRITTEN = "10"
"""Resource version of whatever is written; later than "9" although not as text."""
NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Written:
    """Stands for the client and the recorder: keeps what it is given."""

    def __init__(self) -> None:
        self.statuses: list[Any] = []
        self.events: list[tuple[str, str]] = []

    async def apply_status(self, obj: Object) -> Object:
        self.statuses.append(obj["status"])
        return {**obj, "metadata": {**obj["metadata"], "resourceVersion": WRITTEN}}

    async def event(self, _obj: Object, _type: str, reason: str, message: str) -> None:
        self.events.append((reason, message))


def publisher() -> tuple[StatusPublisher, Written]:
    written = Written()
    return StatusPublisher(cast(KubeClient, written), cast(EventRecorder, written)), written


def cached(version: str = "1", **status: Any) -> Object:
    obj = stored(service_object("s"))
    return {**obj, "metadata": {**obj["metadata"], "resourceVersion": version}, "status": status}


def blocked(message: str, before: InferServiceStatus | None = None) -> InferServiceStatus:
    return service_status(before or InferServiceStatus(), 1, 1, 0, invalid([message]), NOW)


async def publish(to: StatusPublisher, obj: Object, message: str) -> None:
    before = to.latest(obj, InferServiceStatus)
    await to.publish(obj, before, blocked(message, before))


@pytest.mark.parametrize("version", ["1", "9"])
async def test_a_cache_that_has_not_seen_our_status_yet_causes_neither_a_second_write_nor_a_second_event(version: str) -> None:
    """Not even when it has moved on to a version between the one decided on and ours."""
    to, written = publisher()

    await publish(to, cached(), "odd")
    await publish(to, cached(version), "odd")

    assert len(written.statuses) == 1
    assert written.events == [("ValidateError", "odd")]


async def test_what_the_cache_says_counts_once_it_has_seen_ours() -> None:
    to, written = publisher()
    await publish(to, cached(), "odd")

    await publish(to, cached(WRITTEN), "odd")

    assert len(written.statuses) == 2


async def test_another_message_is_another_event() -> None:
    to, written = publisher()

    await publish(to, cached(), "odd")
    await publish(to, cached(), "odder")

    assert [message for _, message in written.events] == ["odd", "odder"]


async def test_a_child_reports_by_status_only() -> None:
    to, written = publisher()
    child = cached()
    child["metadata"]["ownerReferences"] = [controller_reference("InferServiceSet", "x", "u")]

    await publish(to, child, "odd")

    assert (len(written.statuses), written.events) == (1, [])


async def test_being_on_the_way_is_no_event() -> None:
    to, written = publisher()

    await to.publish(cached(), InferServiceStatus(), service_status(InferServiceStatus(), 1, 1, 0, [], NOW))

    assert (len(written.statuses), written.events) == (1, [])


async def test_an_object_that_is_gone_is_forgotten() -> None:
    to, written = publisher()
    await publish(to, cached(), "odd")

    to.forget(Request("ns", "s"))
    await publish(to, cached(), "odd")

    assert len(written.statuses) == 2


def test_a_status_that_cannot_be_read_counts_as_none() -> None:
    to, _ = publisher()

    assert to.latest(cached(replicas="x"), InferServiceStatus) == InferServiceStatus()
