# SPDX-License-Identifier: Apache-2.0
"""Writes statuses, and tells the user once about what blocks an object.

A status is written when it differs from the last one known: the cached one, or ours when the cache has not seen it yet. An
Event goes to the root of a tree only, because that is the object somebody wrote and will look at.
Seed: operator RFC, 10.2.
"""

from __future__ import annotations

from typing import TypeVar

from pydantic import ValidationError

from controller_runtime.api.meta import ObjectMeta, Status
from controller_runtime.kube.client import KubeClient
from controller_runtime.kube.events import EventRecorder
from controller_runtime.kube.kind import Object, name_of, namespace_of, resource_version_of, uid_of
from controller_runtime.kube.workqueue import Request
from controller_runtime.reconcilers.status import must_report

StatusT = TypeVar("StatusT", bound=Status)


class StatusPublisher:
    """Status and Events of the objects of one kind."""

    def __init__(self, client: KubeClient, events: EventRecorder) -> None:
        self._client = client
        self._events = events
        self._written: dict[Request, tuple[str, Status]] = {}
        """Per object: the resource version that our last write of its status got, and that status."""

    def latest(self, obj: Object, model: type[StatusT]) -> StatusT:
        """The newest status known of `obj`; an empty one when it has none, or none that can be read."""
        version, written = self._written.get(_request(obj), ("0", None))
        if isinstance(written, model) and int(resource_version_of(obj)) < int(version):
            return written
        try:
            return model.model_validate(obj.get("status") or {})
        except ValidationError:
            return model()

    async def publish(self, obj: Object, before: Status, status: Status) -> None:
        """Write `status` when it differs from `before`, then report a new blocker."""
        if status == before:
            return
        body = status.model_dump(by_alias=True, exclude_none=True)
        metadata = {"name": name_of(obj), "namespace": namespace_of(obj), "uid": uid_of(obj)}
        identity = {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": metadata}
        applied = await self._client.apply_status({**identity, "status": body})
        self._written[_request(obj)] = resource_version_of(applied), status
        await self._report(obj, before, status)

    def forget(self, request: Request) -> None:
        """Drop what is remembered of an object that is gone."""
        self._written.pop(request, None)

    async def _report(self, obj: Object, before: Status, status: Status) -> None:
        if ObjectMeta.model_validate(obj["metadata"]).controller is not None:
            return
        for now in filter(must_report, status.conditions):
            old = before.condition(now.type)
            if old is None or (old.reason, old.message) != (now.reason, now.message):
                await self._events.event(obj, "Warning", now.reason, now.message)


def _request(obj: Object) -> Request:
    return Request(namespace_of(obj), name_of(obj))
