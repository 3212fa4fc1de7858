# SPDX-License-Identifier: Apache-2.0
"""Carries out one step of a role's rollout on its workloads: ask to drain, delete, update or make again.

Invariants: a workload that stays carries no marks of an earlier drain; a workload that must be made again is deleted first,
and its successor follows when it is gone. So is one that does not serve and would not let go of its pods.
"""

from __future__ import annotations

from dataclasses import dataclass

from controller_runtime.api.labels import DRAIN_REQUESTED, INSTANCE_INDEX
from controller_runtime.api.meta import JsonObject
from controller_runtime.foundation.clock import Clock
from controller_runtime.kube.kind import Kind, Object, kind_of, name_of
from controller_runtime.kube.workqueue import Request
from controller_runtime.reconcilers.apply import ChildWriter, StillDeletingError, WriteError, for_each
from controller_runtime.reconcilers.differences import covers
from controller_runtime.reconcilers.rollout.drain import stale_marks
from controller_runtime.reconcilers.rollout.instances import RoleRollout, is_instance_ready
from controller_runtime.reconcilers.rollout.own_writes import OwnWrites

Failures = list[tuple[JsonObject, WriteError]]


@dataclass(frozen=True)
class Roller:
    """Writes the workloads of one InstanceSet. `workloads`: by kind and name, brought up to date by what it writes."""

    request: Request
    rollout: RoleRollout
    workloads: dict[Kind, dict[str, Object]]
    writer: ChildWriter
    own: OwnWrites
    clock: Clock

    async def leave(self) -> Failures:
        """Ask instances to drain, and delete those that are too many."""
        step, live = self.rollout.step, self.rollout.live
        return [
            *await for_each([live[index] for index in sorted(step.ask)], self._ask),
            *await for_each([*(live[index] for index in sorted(step.delete)), *self.rollout.strays], self._delete),
        ]

    async def arrive(self, desired: list[JsonObject]) -> Failures:
        """Bring workloads to their desired state. The others stay."""
        return await for_each(desired, self._ensure)

    async def _ask(self, live: Object) -> None:
        asked = await self.writer.annotate(live, {DRAIN_REQUESTED: self.clock.now().isoformat(timespec="seconds")})
        self._note(asked)

    async def _delete(self, live: Object) -> None:
        await self.writer.delete(live)
        self.own.note_deletion(self.request, live)

    async def _ensure(self, desired: JsonObject) -> None:
        live = self._live(desired)
        if live is not None and self._must_recreate(desired, live):
            await self._replace(live)
        written = await self.writer.ensure(desired, live)
        if written is not live:
            self._note(written)
        if marks := stale_marks(written["metadata"].get("annotations", {})):
            self._note(await self.writer.annotate(written, dict.fromkeys(marks)))

    async def _replace(self, live: Object) -> None:
        try:
            await self.writer.replace(live, "Foreground")
        except StillDeletingError:
            del self.workloads[kind_of(live)][name_of(live)]
            self.own.note_deletion(self.request, live)
            raise

    def _live(self, desired: JsonObject) -> Object | None:
        name = desired["metadata"]["name"]
        own_kind = self.workloads[self.rollout.handler.kind].get(name)
        return own_kind or next((each[name] for each in self.workloads.values() if name in each), None)

    def _must_recreate(self, desired: JsonObject, live: Object) -> bool:
        handler = self.rollout.handler
        return kind_of(live) != handler.kind or handler.must_recreate(desired, live) or self._would_hang(desired, live)

    def _would_hang(self, desired: JsonObject, live: Object) -> bool:
        """Whether the workload would keep pods that never start, although the new template would."""
        index = int(desired["metadata"]["labels"][INSTANCE_INDEX])
        is_stopped = index in self.rollout.step.update and not is_instance_ready(live)
        has_new_pods = not covers(live["spec"].get("template"), desired["spec"].get("template"))
        return is_stopped and has_new_pods and self.rollout.handler.waits_for_present_pods(live)

    def _note(self, written: Object) -> None:
        self.workloads[kind_of(written)][name_of(written)] = written
        self.own.note(self.request, written)
