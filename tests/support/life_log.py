# SPDX-License-Identifier: Apache-2.0
"""What appears and goes in a namespace, as the API server tells it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from controller_runtime.kube.client import KubeClient
from controller_runtime.kube.informer import Informer
from controller_runtime.kube.kind import Kind, Object, controller_owner_of, name_of, uid_of


class LifeLog:
    """`+Kind/name` and `-Kind/name`, in order per kind. What is there at the start is not noted."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.removed: dict[str, str] = {}
        """What went: its uid, and the uid of its controller."""

    def note(self, old: Object | None, new: Object | None) -> None:
        """Handler of an informer."""
        obj = old if new is None else new
        if obj is not None and (old is None or new is None):
            self.lines.append(f"{'-' if new is None else '+'}{obj['kind']}/{name_of(obj)}")
        if old is not None and new is None:
            self.removed[uid_of(old)] = str((controller_owner_of(old) or {}).get("uid"))

    def of(self, kind: Kind) -> list[str]:
        """The lines of one kind."""
        return [line for line in self.lines if line[1:].startswith(f"{kind.kind}/")]


@contextlib.asynccontextmanager
async def life_log(client: KubeClient, namespace: str, *kinds: Kind) -> AsyncIterator[LifeLog]:
    """Follow `kinds` for as long as the context lasts."""
    log, stop = LifeLog(), asyncio.Event()
    informers = [Informer(client, kind, namespace) for kind in kinds]
    async with asyncio.TaskGroup() as group:
        for informer in informers:
            group.create_task(informer.run(stop))
        for informer in informers:
            await informer.synced()
            informer.add_handler(log.note)
        log.lines.clear()
        yield log
        stop.set()
