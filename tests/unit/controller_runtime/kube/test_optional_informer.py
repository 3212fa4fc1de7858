# SPDX-License-Identifier: Apache-2.0
"""An informer whose kind comes and goes, in simulated time with a client that only keeps count."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from controller_runtime.kube.client import WatchEvent
from controller_runtime.kube.kind import POD_GROUP, Object
from controller_runtime.kube.optional_informer import OptionalInformer

pytestmark = pytest.mark.looptime


class Lists:
    """A collection of one object that never changes."""

    def __init__(self) -> None:
        self.count = 0

    async def list(self, *_: Any) -> tuple[list[Object], str]:
        self.count += 1
        return [{"metadata": {"name": "one", "namespace": "ns", "resourceVersion": "1"}}], "1"

    async def watch(self, *_: Any, **__: Any) -> AsyncGenerator[WatchEvent, None]:
        await asyncio.Event().wait()
        yield WatchEvent("BOOKMARK", {})


class Told:
    """A presence that is told by the test."""

    def __init__(self) -> None:
        self.present, self.absent = asyncio.Event(), asyncio.Event()

    async def keep(self, stop: asyncio.Event) -> None:
        await stop.wait()

    async def tell(self, is_present: bool) -> None:
        (self.absent if is_present else self.present).clear()
        (self.present if is_present else self.absent).set()
        await asyncio.sleep(1)


async def test_what_comes_back_is_listed_afresh_and_what_goes_leaves_nothing() -> None:
    client, presence, stop = Lists(), Told(), asyncio.Event()
    informer = OptionalInformer(client, POD_GROUP, presence)  # type: ignore[arg-type]  # the part of it that is used
    told: list[tuple[bool, int]] = []
    informer.on_availability(lambda: told.append((informer.is_available, len(informer.store))))
    running = asyncio.create_task(informer.run(stop))
    await asyncio.sleep(1)
    assert not informer.is_synced, "nothing is known yet"

    for is_present in (False, True, False, True):
        await presence.tell(is_present)
        assert informer.is_synced
        assert (informer.is_available, len(informer.store)) == (is_present, int(is_present))

    assert client.count == 2
    assert told == [(True, 1), (False, 1), (True, 1)]
    stop.set()
    await running
