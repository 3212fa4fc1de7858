# SPDX-License-Identifier: Apache-2.0
"""Has the faults of one InstanceSet judged and deletes the workloads concerned. The reconciler makes them again.

Order: what must not be forgotten is written first, then the workload is deleted, by its uid, then less important roles make
room. A crash anywhere leaves a fault that is still there and is judged again, or a workload that is missing and is made.
As the reference operator reschedules.
"""

from __future__ import annotations

from collections.abc import Callable

from controller_runtime.api.labels import FAULT_RECORD, SCHEDULING_STRATEGY
from controller_runtime.foundation.clock import Clock
from controller_runtime.foundation.log import get_logger
from controller_runtime.kube.client import KubeClient
from controller_runtime.kube.events import EventRecorder
from controller_runtime.kube.kind import INSTANCE_SET, Object, controller_owner_of, is_deleting, resource_version_of, uid_of
from controller_runtime.kube.workqueue import Request
from controller_runtime.reconcilers.apply import ChildWriter, for_each
from controller_runtime.reconcilers.faults.ancestors import Ancestors
from controller_runtime.reconcilers.faults.decision import Plan, plan
from controller_runtime.reconcilers.faults.finder import FaultFinder, Findings
from controller_runtime.reconcilers.faults.look import FaultCaches, Look
from controller_runtime.reconcilers.faults.lost_pods import LostPods
from controller_runtime.reconcilers.faults.make_room import Sibling, give_way
from controller_runtime.reconcilers.faults.record import FaultRecord
from controller_runtime.reconcilers.faults.removal import PodRemover
from controller_runtime.reconcilers.ownership import owned
from controller_runtime.reconcilers.priority import PRIORITY
from controller_runtime.reconcilers.status import is_ready
from controller_runtime.reconcilers.workloads import HANDLERS

ROOM_S = 0.05
"""When to look again whether others see that a role is not ready."""
REBUILT, EXHAUSTED = "InstanceRebuilt", "FaultRetriesExhausted"

log = get_logger(__name__)


class Rescheduler:
    """Rebuilds instances of which a pod says, or its absence shows, that they are broken."""

    def __init__(
        self,
        client: KubeClient,
        caches: FaultCaches,
        lost: LostPods,
        events: EventRecorder,
        clock: Clock,
        is_enabled: Callable[[], bool],
    ) -> None:
        self._client, self._caches, self._lost, self._events = client, caches, lost, events
        self._is_enabled = is_enabled
        self._writer, ancestors = ChildWriter(client), Ancestors(client)
        self._finder = FaultFinder(client, caches.pods, lost, ancestors)
        self._remover = PodRemover(client, caches.pods, ancestors, clock)
        self._kept: dict[Request, tuple[str, FaultRecord]] = {}
        """Per InstanceSet: the resource version a record was written to, and that record. Until the cache shows it."""
        self._rebuilt: dict[Request, dict[str, tuple[str, Object | None]]] = {}
        """Per InstanceSet and workload name: uid of the deleted one and its successor. Until the cache shows it."""

    async def rebuild(self, look: Look) -> None:
        """Delete the workloads that are to be made again, from the cluster and from `look.workloads`."""
        self._put_successors(look)
        if self._is_enabled():
            look.failures += await for_each([look.obj], lambda _: self._rebuild(look))
        else:
            for note in self._lost.of(look.key):
                self._lost.forget(note)

    async def clean_up(self, look: Look) -> None:
        """Remember the successors of the deleted workloads, and remove pods that are ours to remove."""
        rebuilt = self._rebuilt.get(look.request, {})
        for name, (uid, _) in rebuilt.items():
            rebuilt[name] = uid, look.workloads.get(name)
        record = self._record(look)
        if record.instances and self._is_enabled():
            present = {uid_of(each) for each in look.workloads.values()}
            failures, again_s = await self._remover.remove(record, present)
            look.failures += failures
            look.again(again_s)

    def forget(self, request: Request) -> None:
        """Drop what is remembered of an InstanceSet that is gone."""
        self._rebuilt.pop(request, None)
        self._kept.pop(request, None)

    async def _rebuild(self, look: Look) -> None:
        record = self._record(look)
        found = await self._finder.find(look)
        removed_by_us = {index: await self._finder.removed_by_us(look, instance, record) for index, instance in found.instances.items()}
        decided = plan(
            found.faults, found.instances, record, {index: uids for index, uids in removed_by_us.items() if uids}, look.view.replicas
        )
        makes_room = record.makes_room or bool(decided.rebuilds and self._giving_way(look))
        kept = decided.record.model_copy(update={"makes_room": makes_room})
        if kept != record:
            await self._keep(look, kept)
        for each in decided.rebuilds:
            target = found.targets[each.index]
            name = found.instances[each.index].name
            await self._writer.delete(target)
            look.workloads.pop(name, None)
            self._rebuilt.setdefault(look.request, {})[name] = uid_of(target), None
            log.info("instance rebuilt", namespace=look.request.namespace, name=name, why=each.what)
        for note in found.losses:
            self._lost.forget(note)
        await self._tell(look, decided, found)
        if record.makes_room:
            await self._make_room(look, kept)
        elif makes_room:
            look.again(ROOM_S)

    async def _make_room(self, look: Look, record: FaultRecord) -> None:
        """Let others give way once they can see that this role is not ready: before that they would come back at once."""
        if not look.is_served and is_ready(look.obj):
            look.again(ROOM_S)
            return
        if not look.is_served:
            look.failures += await for_each(self._giving_way(look), self._writer.delete)
        await self._keep(look, record.model_copy(update={"makes_room": False}))

    def _giving_way(self, look: Look) -> list[Object]:
        owner = look.view.instance_set.metadata.controller
        if owner is None or look.view.labels.get(SCHEDULING_STRATEGY) != PRIORITY:
            return []
        others = [each for each in owned(self._caches.instance_sets, owner.uid).values() if uid_of(each) != uid_of(look.obj)]
        return give_way(look.view.instance_set.spec.priority, [self._sibling(each) for each in others])

    def _sibling(self, instance_set: Object) -> Sibling:
        waiting = (
            workload
            for handler in HANDLERS
            for workload in owned(self._caches.workloads[handler.kind], uid_of(instance_set)).values()
            if not is_deleting(workload) and not handler.is_ready(workload)
        )
        spec, status = instance_set["spec"], instance_set.get("status", {})
        return Sibling(spec.get("priority"), spec.get("replicas") or 0, status.get("readyReplicas", 0), tuple(waiting))

    def _record(self, look: Look) -> FaultRecord:
        version, record = self._kept.get(look.request, ("", None))
        if record is not None and version == resource_version_of(look.obj):
            return record
        self._kept.pop(look.request, None)
        return FaultRecord.read(look.obj["metadata"].get("annotations", {}))

    async def _keep(self, look: Look, record: FaultRecord) -> None:
        """Write the record onto the very version of the InstanceSet it was decided on: every later version has it then.

        Raises:
            ConflictError: the cache is behind. The next look decides again.
        """
        version = resource_version_of(look.obj)
        annotations = {FAULT_RECORD: None if record == FaultRecord() else record.text()}
        patch = {"metadata": {"resourceVersion": version, "annotations": annotations}}
        await self._client.patch(INSTANCE_SET, look.request.name, look.request.namespace, patch)
        self._kept[look.request] = version, record

    def _put_successors(self, look: Look) -> None:
        """Until the cache shows that a workload was deleted, its successor stands in for it."""
        rebuilt = self._rebuilt.get(look.request, {})
        for name, (uid, successor) in list(rebuilt.items()):
            cached = look.workloads.get(name)
            if cached is None or uid_of(cached) != uid:
                del rebuilt[name]
            elif successor is None:
                del look.workloads[name]
            else:
                look.workloads[name] = successor

    async def _tell(self, look: Look, decided: Plan, found: Findings) -> None:
        root = self._root(look.obj)
        for each in decided.rebuilds:
            await self._events.event(root, "Warning", REBUILT, f"{found.instances[each.index].name} is made again: {each.what}.")
        for fault in decided.exhausted:
            name = found.instances[fault.index].name
            used_up = f"{name} stays as it is: {fault.what}, and its {fault.retries} rebuilds are used up."
            advice = f"Mend the cause and delete {look.handler.kind.kind} {name}, or raise fault-retry-times."
            await self._events.event(root, "Warning", EXHAUSTED, f"{used_up} {advice}")

    def _root(self, obj: Object) -> Object:
        """The object somebody wrote: the InferServiceSet, else the InferService, else the InstanceSet."""
        for store in (self._caches.infer_services, self._caches.sets):
            owner = controller_owner_of(obj)
            parent = store.get(obj["metadata"]["namespace"], str(owner["name"])) if owner else None
            if parent is None:
                break
            obj = parent
        return obj
