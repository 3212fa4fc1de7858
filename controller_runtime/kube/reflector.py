# SPDX-License-Identifier: Apache-2.0
"""List, then watch, for ever: feeds a store with the state of the server.

Invariants: a broken or ended watch resumes at the last version seen, bookmarks included; an expired version leads to a
new list, from which the store derives the deletes nobody saw; failures wait with backoff and never end the loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing

from prometheus_client import Counter

from controller_runtime.errors import KubeError, TransportError
from controller_runtime.foundation.backoff import Backoff
from controller_runtime.foundation.log import get_logger
from controller_runtime.foundation.metrics import REGISTRY
from controller_runtime.kube.client import KubeClient, WatchEvent
from controller_runtime.kube.errors import GoneError
from controller_runtime.kube.kind import Kind, Object, resource_version_of

BACKOFF_BASE_S = 0.8
BACKOFF_CAP_S = 30.0

LISTS = Counter("kube_reflector_lists_total", "Complete lists read.", ["kind"], registry=REGISTRY)
WATCHES = Counter("kube_reflector_watches_total", "Watches opened.", ["kind"], registry=REGISTRY)
EVENTS = Counter("kube_reflector_events_total", "Watch events received, without bookmarks.", ["kind"], registry=REGISTRY)
FAILURES = Counter("kube_reflector_failures_total", "Lists and watches that failed.", ["kind"], registry=REGISTRY)

log = get_logger(__name__)


class Reflector:
    """Mirrors one collection. `on_list` gets complete lists, `on_event` single changes (never bookmarks)."""

    def __init__(
        self,
        client: KubeClient,
        kind: Kind,
        *,
        on_list: Callable[[list[Object]], None],
        on_event: Callable[[WatchEvent], None],
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        backoff: Backoff | None = None,
    ) -> None:
        self._client = client
        self._kind = kind
        self._on_list = on_list
        self._on_event = on_event
        self._namespace = namespace
        self._label_selector = label_selector
        self._field_selector = field_selector
        self._backoff = backoff or Backoff(BACKOFF_BASE_S, BACKOFF_CAP_S)
        self._version: str | None = None
        self._events = EVENTS.labels(kind.kind)

    async def run(self) -> None:
        """Mirror until cancelled."""
        while True:
            try:
                if self._version is None:
                    await self._list()
                if not await self._follow(self._version or ""):
                    await asyncio.sleep(self._backoff.next_s())
            except GoneError as err:
                log.info("watch expired, listing again", kind=self._kind.kind, err=err)
                self._version = None
                wait_s = self._backoff.next_s()
                if self._backoff.failures > 1:  # the first new list is due at once, a server that keeps forgetting is not
                    await asyncio.sleep(wait_s)
            except (KubeError, TransportError) as err:
                FAILURES.labels(self._kind.kind).inc()
                if not self._backoff.failures:
                    log.warning("watch interrupted", kind=self._kind.kind, err=err)
                await asyncio.sleep(self._backoff.next_s())

    def reset(self) -> None:
        """Forget the last version seen: the next `run` lists first."""
        self._version = None
        self._backoff.reset()

    async def _list(self) -> None:
        items, version = await self._client.list(self._kind, self._namespace, self._label_selector, self._field_selector)
        LISTS.labels(self._kind.kind).inc()
        self._version = version
        self._on_list(items)

    async def _follow(self, version: str) -> bool:
        """Watch until the server ends it. False: it ended without a single event or bookmark, so do not hurry."""
        was_useful = False
        WATCHES.labels(self._kind.kind).inc()
        events = self._client.watch(
            self._kind,
            self._namespace,
            resource_version=version,
            label_selector=self._label_selector,
            field_selector=self._field_selector,
        )
        async with aclosing(events):
            async for event in events:
                if not was_useful:
                    was_useful = True
                    self._recovered()
                if event.type != "BOOKMARK":
                    self._events.inc()
                    self._on_event(event)
                self._version = resource_version_of(event.object)
        return was_useful

    def _recovered(self) -> None:
        if self._backoff.failures:
            log.info("watch resumed", kind=self._kind.kind)
        self._backoff.reset()
