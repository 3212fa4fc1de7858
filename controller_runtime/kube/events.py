# SPDX-License-Identifier: Apache-2.0
"""Events: what a user sees in `kubectl describe`.

Invariants: the same event on the same object within ten minutes raises the count of one Event object instead of making
another; an object that never rests cannot flood the server (a bucket for each object); an event that cannot be written is
logged and never fails the reconcile that reports it.
"""

from __future__ import annotations

import socket
from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from prometheus_client import Counter

from controller_runtime.errors import KubeError, TransportError
from controller_runtime.foundation.clock import Clock, SystemClock
from controller_runtime.foundation.log import get_logger
from controller_runtime.foundation.metrics import REGISTRY
from controller_runtime.kube.client import KubeClient
from controller_runtime.kube.errors import NotFoundError
from controller_runtime.kube.kind import EVENT, KubeObject, Object, metadata_of, name_of
from controller_runtime.kube.rate_limit import TokenBucket

WINDOW_S = 600.0
"""Within this time of the last one an equal event counts as the same."""
OBJECT_BURST = 25
OBJECT_QPS = 1 / 300
"""Per object: 25 events at once, then one in five minutes, as the Go libraries do."""
REMEMBERED = 4096
"""How many events and objects are remembered; the least recently used go first."""
MESSAGE_LIMIT = 1024

EventType = Literal["Normal", "Warning"]

EVENTS = Counter("kube_events_total", "Events by outcome.", ["result"], registry=REGISTRY)

log = get_logger(__name__)


@dataclass
class _Series:
    name: str
    count: int
    last_at: float


class EventRecorder:
    """Writes core/v1 Events in the name of `component`."""

    def __init__(self, client: KubeClient, component: str, *, clock: Clock | None = None, instance: str | None = None) -> None:
        self._client = client
        self._component = component
        self._clock = clock or SystemClock()
        self._instance = instance or socket.gethostname()
        self._series: OrderedDict[tuple[str, ...], _Series] = OrderedDict()
        self._buckets: OrderedDict[str, TokenBucket] = OrderedDict()

    async def event(self, obj: KubeObject, event_type: EventType, reason: str, message: str) -> None:
        """Report `reason` (one CamelCase word) on `obj`; `message` is a sentence for people, cut at 1,024 characters."""
        about = _reference(obj)
        message = message if len(message) <= MESSAGE_LIMIT else message[: MESSAGE_LIMIT - 1] + "…"
        if not self._may_write(about):
            EVENTS.labels("dropped").inc()
            return
        try:
            EVENTS.labels(await self._write(about, event_type, reason, message)).inc()
        except (KubeError, TransportError) as err:
            EVENTS.labels("failed").inc()
            log.warning("event not written", reason=reason, name=about.get("name"), err=err)

    async def _write(self, about: Object, event_type: EventType, reason: str, message: str) -> str:
        key = (*(str(about.get(part)) for part in ("kind", "namespace", "name", "uid")), event_type, reason, message)
        now = self._clock.monotonic()
        series = self._series.get(key)
        if series is not None and now - series.last_at <= WINDOW_S:
            series.count += 1
            series.last_at = now
            self._series.move_to_end(key)
            if await self._repeat(series, about):
                return "counted"
        created = _event(about, event_type, reason, message, self._component, self._instance, self._clock.now())
        self._remember(key, _Series(name_of(created), 1, now))
        await self._client.create(created)
        return "created"

    async def _repeat(self, series: _Series, about: Object) -> bool:
        """Raise the count on the server; False when the Event is gone (they live for an hour)."""
        patch = {"count": series.count, "lastTimestamp": _time(self._clock.now())}
        try:
            await self._client.patch(EVENT, series.name, _namespace(about), patch)
        except NotFoundError:
            return False
        return True

    def _may_write(self, about: Object) -> bool:
        key = "/".join(str(about.get(part)) for part in ("kind", "namespace", "name", "uid"))
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = TokenBucket(OBJECT_QPS, OBJECT_BURST, self._clock)
        self._buckets.move_to_end(key)
        if len(self._buckets) > REMEMBERED:
            self._buckets.popitem(last=False)
        return bucket.try_take()

    def _remember(self, key: tuple[str, ...], series: _Series) -> None:
        self._series[key] = series
        self._series.move_to_end(key)
        if len(self._series) > REMEMBERED:
            self._series.popitem(last=False)


def _reference(obj: KubeObject) -> Object:
    metadata = metadata_of(obj)
    facts = {"apiVersion": obj.get("apiVersion"), "kind": obj.get("kind")}
    facts |= {key: metadata.get(key) for key in ("namespace", "name", "uid", "resourceVersion")}
    return {key: value for key, value in facts.items() if value}


def _namespace(about: Object) -> str:
    return str(about.get("namespace") or "default")


def _event(about: Object, event_type: EventType, reason: str, message: str, component: str, instance: str, now: datetime) -> Object:
    suffix = f"{int(now.timestamp() * 1e9):016x}"
    return {
        "apiVersion": EVENT.api_version,
        "kind": EVENT.kind,
        "metadata": {"namespace": _namespace(about), "name": f"{str(about.get('name'))[:230]}.{suffix}"},
        "involvedObject": about,
        "type": event_type,
        "reason": reason,
        "message": message,
        "source": {"component": component},
        "reportingComponent": component,
        "reportingInstance": instance,
        "count": 1,
        "firstTimestamp": _time(now),
        "lastTimestamp": _time(now),
    }


def _time(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
