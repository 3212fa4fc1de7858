# SPDX-License-Identifier: Apache-2.0
"""An informer of a kind that may be absent, come and go while the process runs.

Invariants: `synced` once it is known that the kind is absent or its first list is in the store, so nobody waits for a kind
that does not exist; `is_available` only with a complete store; when the kind goes, handlers see every object go, and what
comes back with the kind is listed afresh.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TypeAlias

from controller_runtime.kube.client import KubeClient
from controller_runtime.kube.informer import Informer
from controller_runtime.kube.kind import Kind, Object
from controller_runtime.kube.lifecycle import run_until
from controller_runtime.kube.presence import Presence
from controller_runtime.kube.store import IndexFunction, Project

AvailabilityHandler: TypeAlias = Callable[[], None]


class OptionalInformer(Informer):
    """Cache of one kind in all namespaces while `presence` says that the kind is there; empty otherwise."""

    def __init__(
        self,
        client: KubeClient,
        kind: Kind,
        presence: Presence,
        label_selector: str = "",
        project: Project | None = None,
        indexes: Mapping[str, IndexFunction] | None = None,
    ) -> None:
        super().__init__(client, kind, label_selector=label_selector, project=project, indexes=indexes)
        self._presence = presence
        self._is_available = False
        self._listeners: list[AvailabilityHandler] = []

    @property
    def is_available(self) -> bool:
        """Whether objects of the kind can be made and the store holds those there are."""
        return self._is_available

    def on_availability(self, listener: AvailabilityHandler) -> None:
        """Call `listener` whenever `is_available` changed."""
        self._listeners.append(listener)

    async def run(self, stop: asyncio.Event) -> None:
        """Follow the kind until `stop` is set."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._presence.keep(stop))
            await run_until(stop, self._follow())

    async def _follow(self) -> None:
        while True:
            await run_until(self._presence.absent, self._mirror())
            self._empty()
            await self._presence.present.wait()

    async def _mirror(self) -> None:
        await self._presence.present.wait()
        await self._reflector.run()

    def _take_list(self, items: list[Object]) -> None:
        super()._take_list(items)
        self._tell(True)

    def _empty(self) -> None:
        self._reflector.reset()
        self._tell(False)
        super()._take_list([])

    def _tell(self, is_available: bool) -> None:
        if self._is_available is not is_available:
            self._is_available = is_available
            for listener in self._listeners:
                listener()
