# SPDX-License-Identifier: Apache-2.0
"""A reflector, a store and handlers: the cache that controllers read and are woken by.

Invariants: the store is changed before handlers are called; handlers are called one change at a time, in the server's
order for each object; a handler that raises is logged and costs neither the other handlers nor the cache.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TypeAlias

from prometheus_client import Gauge

from controller_runtime.foundation.backoff import Backoff
from controller_runtime.foundation.log import get_logger
from controller_runtime.foundation.metrics import REGISTRY
from controller_runtime.kube.client import KubeClient, WatchEvent
from controller_runtime.kube.kind import Kind, Object, name_of, namespace_of
from controller_runtime.kube.lifecycle import run_until
from controller_runtime.kube.reflector import Reflector
from controller_runtime.kube.store import Change, IndexFunction, Project, Store

Handler: TypeAlias = Callable[[Object | None, Object | None], None]
"""`handler(old, new)`: old None = appeared, new None = gone. Must not block and must not change the objects."""

OBJECTS = Gauge("kube_informer_objects", "Objects in the cache.", ["kind"], registry=REGISTRY)

log = get_logger(__name__)


class Informer:
    """Cache of one kind, of one namespace or all, narrowed by selectors.

    `project` reduces each object before it is stored (default: drops the field ownership); what it drops nobody sees.
    `indexes` serve `store.by_index`.
    """

    def __init__(
        self,
        client: KubeClient,
        kind: Kind,
        namespace: str | None = None,
        label_selector: str = "",
        project: Project | None = None,
        indexes: Mapping[str, IndexFunction] | None = None,
        *,
        field_selector: str = "",
        backoff: Backoff | None = None,
    ) -> None:
        self.kind = kind
        self.store = Store(project, indexes)
        self._handlers: list[Handler] = []
        self._synced = asyncio.Event()
        self._reflector = Reflector(
            client,
            kind,
            on_list=self._take_list,
            on_event=self._take_event,
            namespace=namespace,
            label_selector=label_selector,
            field_selector=field_selector,
            backoff=backoff,
        )

    @property
    def is_synced(self) -> bool:
        """Whether the first list is in the store."""
        return self._synced.is_set()

    async def synced(self) -> None:
        """Wait for the first list."""
        await self._synced.wait()

    def add_handler(self, handler: Handler) -> None:
        """Call `handler` for each change from now on, and at once for each object already in the store."""
        self._handlers.append(handler)
        self._dispatch([(None, obj) for obj in self.store.all()], [handler])

    async def run(self, stop: asyncio.Event) -> None:
        """Keep the cache current until `stop` is set."""
        await run_until(stop, self._reflector.run())

    def _take_list(self, items: list[Object]) -> None:
        changes = self.store.replace(items)
        self._synced.set()
        self._dispatch(changes, self._handlers)

    def _take_event(self, event: WatchEvent) -> None:
        if event.type == "DELETED":
            changes = self.store.remove(namespace_of(event.object), name_of(event.object))
        else:
            changes = self.store.upsert(event.object)
        self._dispatch(changes, self._handlers)

    def _dispatch(self, changes: list[Change], handlers: list[Handler]) -> None:
        OBJECTS.labels(self.kind.kind).set(len(self.store))
        for old, new in changes:
            for handler in handlers:
                try:
                    handler(old, new)
                except Exception:  # one object that breaks one handler must not stop the cache
                    log.exception("handler failed", kind=self.kind.kind, name=name_of(new or old or {"metadata": {}}))
