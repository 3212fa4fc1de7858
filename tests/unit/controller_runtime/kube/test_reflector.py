# SPDX-License-Identifier: Apache-2.0
"""When a reflector lists, resumes and waits, in simulated time with a scripted client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence

import pytest

from controller_runtime.errors import TransportError
from controller_runtime.foundation.backoff import Backoff
from controller_runtime.kube.client import WatchEvent
from controller_runtime.kube.errors import ForbiddenError, GoneError
from controller_runtime.kube.kind import CONFIG_MAP, Kind, Object
from controller_runtime.kube.reflector import Reflector

pytestmark = pytest.mark.looptime

Step = str | Exception


class ScriptedClient:
    """Each list or watch plays the next step; `calls` has its time and what was asked.

    `list`: an empty list of version 100. `+101`: one event of that version. `b102`: a bookmark. `end`: the server ends the
    watch at once. An exception is raised. After the last step a watch stays open for ever.
    """

    def __init__(self, *steps: Step) -> None:
        self.calls: list[tuple[float, str]] = []
        self._steps = list(steps)

    def _note(self, what: str) -> Step | None:
        self.calls.append((asyncio.get_running_loop().time(), what))
        return self._steps.pop(0) if self._steps else None

    async def list(self, kind: Kind, namespace: str | None, label_selector: str, field_selector: str) -> tuple[list[Object], str]:
        step = self._note("list")
        if isinstance(step, Exception):
            raise step
        return [], "100"

    async def watch(
        self, kind: Kind, namespace: str | None, *, resource_version: str, label_selector: str, field_selector: str
    ) -> AsyncGenerator[WatchEvent, None]:
        step = self._note(f"watch {resource_version}")
        while step is not None:
            if isinstance(step, Exception):
                raise step
            if step == "end":
                return
            yield WatchEvent("BOOKMARK" if step[0] == "b" else "ADDED", {"metadata": {"resourceVersion": step[1:]}})
            step = self._steps.pop(0) if self._steps else None
        await asyncio.Event().wait()

    @property
    def asked(self) -> Sequence[str]:
        return [what for _, what in self.calls]


async def run_for(seconds: float, client: ScriptedClient) -> list[str]:
    """Run a reflector over the script and return the types of the events it passed on."""
    events: list[str] = []
    reflector = Reflector(
        client,  # type: ignore[arg-type]  # the part of it that is used
        CONFIG_MAP,
        on_list=lambda items: events.append("LIST"),
        on_event=lambda event: events.append(event.type),
        backoff=Backoff(1.0, 8.0, jitter=0.0),
    )
    task = asyncio.create_task(reflector.run())
    await asyncio.sleep(seconds)
    task.cancel()
    await asyncio.wait({task})
    return events


async def test_a_watch_resumes_at_the_last_version_bookmarks_included() -> None:
    client = ScriptedClient("list", "+101", "end", "b107", "end")
    events = await run_for(10, client)

    assert client.asked == ["list", "watch 100", "watch 101", "watch 107"]
    assert events == ["LIST", "ADDED"], "a bookmark is nobody's event"


async def test_an_expired_version_leads_to_a_new_list_at_once() -> None:
    client = ScriptedClient("list", "+150", GoneError("old", status=410), "list")
    await run_for(0.5, client)

    assert client.asked == ["list", "watch 100", "list", "watch 100"]


async def test_a_server_that_forgets_every_version_is_not_hammered() -> None:
    forgetful: list[Step] = ["list", GoneError("old", status=410)]
    client = ScriptedClient(*forgetful * 50)
    await run_for(30, client)

    assert client.asked.count("list") <= 7


@pytest.mark.parametrize("failure", [TransportError("cut"), ForbiddenError("not yet", status=403)])
async def test_failures_wait_longer_each_time_and_an_event_starts_over(failure: Exception) -> None:
    client = ScriptedClient("list", failure, failure, failure, "+101", failure, "+102")
    await run_for(60, client)

    assert [time for time, _ in client.calls] == pytest.approx([0, 0, 1, 3, 7, 8], abs=0.01)
    assert client.asked[-1] == "watch 101"


async def test_a_failing_list_is_tried_again() -> None:
    client = ScriptedClient(ForbiddenError("not yet", status=403), "list")
    events = await run_for(5, client)

    assert client.asked == ["list", "list", "watch 100"]
    assert events == ["LIST"]


async def test_a_server_that_ends_watches_at_once_is_not_hammered() -> None:
    client = ScriptedClient("list", *["end"] * 100)
    await run_for(30, client)

    assert len(client.calls) <= 9


async def test_a_reflector_that_was_reset_lists_first() -> None:
    client = ScriptedClient("list", "+101", "list")
    reflector = Reflector(client, CONFIG_MAP, on_list=lambda _: None, on_event=lambda _: None)  # type: ignore[arg-type]
    for _ in range(2):
        task = asyncio.create_task(reflector.run())
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.wait({task})
        reflector.reset()

    assert client.asked == ["list", "watch 100", "list", "watch 100"]
