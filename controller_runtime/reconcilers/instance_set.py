# SPDX-License-Identifier: Apache-2.0
"""InstanceSet -> per instance one workload, its Service and (gang) its PodGroup, and the Services the role declares.

An instance depends on its index and the template, never on how many there are: scaling from one to two leaves the first
untouched. Services come before workloads, because pods look names up as they start; so do PodGroups, without which
the pods of a gang never start. One instance that cannot be made does not hold up the others. What belongs to an instance
that waits for its turn in a rollout stays as it is; only what is missing of it is made.
Seed: operator RFC, 7.1.3 and 7.2.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field

from pydantic import ValidationError

from controller_runtime.api.infer_service import InferService
from controller_runtime.api.infer_validation import CapabilitiesNow, check_instance_set
from controller_runtime.api.instance_set import KIND, InstanceSet, InstanceSetSpec, InstanceSetStatus, ScalingResourceStatus
from controller_runtime.api.labels import INSTANCE_INDEX, SCHEDULING_STRATEGY
from controller_runtime.api.meta import JsonObject, ObjectMeta
from controller_runtime.api.names import instance_service_name, workload_name
from controller_runtime.api.problems import from_validation
from controller_runtime.api.rollout import RolloutStatus
from controller_runtime.foundation.clock import Clock
from controller_runtime.kube.client import Propagation
from controller_runtime.kube.controller import Result
from controller_runtime.kube.kind import POD_GROUP, Kind, Object, is_deleting
from controller_runtime.kube.store import Store
from controller_runtime.kube.workqueue import Request
from controller_runtime.reconcilers import services
from controller_runtime.reconcilers.apply import ChildWriter, WriteError, for_each, raise_first
from controller_runtime.reconcilers.faults.look import Look
from controller_runtime.reconcilers.faults.rescheduler import Rescheduler
from controller_runtime.reconcilers.ownership import label_of, owned, surplus
from controller_runtime.reconcilers.pod_groups import desired_pod_group, group_of
from controller_runtime.reconcilers.priority import PRIORITY, reason_to_wait
from controller_runtime.reconcilers.publish import StatusPublisher
from controller_runtime.reconcilers.role_view import RoleView
from controller_runtime.reconcilers.rollout.instances import RoleRollout, is_instance_ready
from controller_runtime.reconcilers.rollout.own_writes import OwnWrites
from controller_runtime.reconcilers.rollout.role_progress import RoleProgress, rollout_progress, soonest
from controller_runtime.reconcilers.rollout.roller import Roller
from controller_runtime.reconcilers.scaling import Scaled, Scaling
from controller_runtime.reconcilers.status import Blocker, blockers_of, instance_set_status, invalid
from controller_runtime.reconcilers.workloads import WorkloadHandler, handler_of


@dataclass(frozen=True)
class Caches:
    """What the InstanceSet reconciler reads."""

    instance_sets: Store
    infer_services: Store
    services: Store
    workloads: Mapping[Kind, Store]
    """One per handler."""
    pod_groups: Store
    """Empty while the cluster does not know the kind."""


@dataclass
class Children:
    """What one InstanceSet controls, by name; brought up to date by its own writes."""

    services: dict[str, Object]
    workloads: dict[Kind, dict[str, Object]]
    pod_groups: dict[str, Object] = field(default_factory=dict)


class InstanceSetReconciler:
    """Brings one InstanceSet to its spec."""

    def __init__(
        self,
        caches: Caches,
        writer: ChildWriter,
        publisher: StatusPublisher,
        rescheduler: Rescheduler,
        scaling: Scaling,
        can: CapabilitiesNow,
        clock: Clock,
    ) -> None:
        self._caches, self._rescheduler, self._scaling = caches, rescheduler, scaling
        self._writer, self._publisher = writer, publisher
        self._can, self._clock = can, clock
        self._own = OwnWrites()

    async def reconcile(self, request: Request) -> Result:
        """Level-based: reads the caches, writes only differences."""
        obj = self._caches.instance_sets.get(*request)
        if obj is None or is_deleting(obj):
            self._publisher.forget(request)
            self._rescheduler.forget(request)
            self._own.forget(request)
            return Result.done()
        try:
            view = self._view(InstanceSet.model_validate(obj))
        except ValidationError as err:
            return await self._report_unreadable(obj, err)
        problems = check_instance_set(view.service, view.instance_set.spec, view.labels, view.place.offset, self._can())
        children = self._children(request, view.instance_set.metadata.uid)
        handler = _handler(view.instance_set.spec)
        waiting = self._reason_to_wait(view)
        before = self._publisher.latest(obj, InstanceSetStatus)
        failures: list[tuple[JsonObject, WriteError]] = []
        scaled = Scaled(before.scaling_resource_status)
        look_again_s, progress = None, RoleProgress(before.rollout)
        if handler is not None and not problems:
            look = Look(obj, view, handler, children.workloads[handler.kind])
            await self._rescheduler.rebuild(look)
            scaled = await self._scaling.bring(view, before.scaling_resource_status)
            rollout = RoleRollout.of(view, handler, children.workloads, self._clock.now())
            failures = await self._bring(request, rollout, children, is_held=waiting is not None)
            await self._rescheduler.clean_up(look)
            failures += look.failures
            progress = self._progress(rollout, children, before)
            look_again_s = soonest(look.again_s, progress.look_again_s, rollout.drain_left_s(self._clock.now()))
        blockers = invalid(problems) or blockers_of(failures) or progress.blockers
        await self._publish(obj, view, children, blockers, waiting, scaled.status, progress.status)
        raise_first([*failures, *scaled.failures])
        return Result(look_again_s)

    async def _bring(
        self, request: Request, rollout: RoleRollout, children: Children, *, is_held: bool
    ) -> list[tuple[JsonObject, WriteError]]:
        """Delete what is too much, then Services, then PodGroups, then workloads. `is_held`: none but the present workloads."""
        view = rollout.view
        due = [rollout.desired(index) for index in rollout.due if not is_held or index in rollout.live]
        groups = [desired_pod_group(view, index) for index in rollout.due] if view.is_gang else []
        due_groups = {group_of(each) for each in due}
        kept_groups = {group_of(rollout.live[index]) for index in rollout.at_rest} | _names(groups)
        roller = Roller(request, rollout, children.workloads, self._writer, self._own, self._clock)
        ensure_service = self._ensurer(children.services, services.must_recreate, "Background")
        ensure_group = self._ensurer(children.pod_groups, _never, "Background")
        wanted_services = desired_services(view, rollout.handler, sorted(rollout.present))
        resting = {instance_service_name(view.service, view.role, index) for index in rollout.at_rest} & children.services.keys()
        extra = [
            *surplus_services(children.services.values(), _names(wanted_services) | resting),
            *surplus(children.pod_groups.values(), {name for name in kept_groups if name}, INSTANCE_INDEX),
        ]
        failures = [
            *await roller.leave(),
            *await for_each(extra, self._writer.delete),
            *await for_each([each for each in wanted_services if each["metadata"]["name"] not in resting], ensure_service),
            *await for_each([each for each in groups if each["metadata"]["name"] in due_groups], ensure_group),
        ]
        failed = _names(desired for desired, _ in failures if desired["kind"] == POD_GROUP.kind)
        return [*failures, *await roller.arrive([each for each in due if group_of(each) not in failed])]

    def _progress(self, rollout: RoleRollout, children: Children, before: InstanceSetStatus) -> RoleProgress:
        """Where the rollout stands after what was just written."""
        now = self._clock.now()
        return rollout_progress(RoleRollout.of(rollout.view, rollout.handler, children.workloads, now), rollout.step, before.rollout, now)

    def _ensurer(
        self, present: dict[str, Object], must_recreate: Callable[[JsonObject, Object], bool], propagation: Propagation
    ) -> Callable[[JsonObject], Awaitable[None]]:
        """A function that brings one child to its desired state and notes it in `present`."""

        async def ensure(desired: JsonObject) -> None:
            name = desired["metadata"]["name"]
            live = present.get(name)
            if live is not None and must_recreate(desired, live):
                del present[name]
                await self._writer.replace(live, propagation)
            present[name] = await self._writer.ensure(desired, live)

        return ensure

    async def _publish(
        self,
        obj: Object,
        view: RoleView,
        children: Children,
        blockers: list[Blocker],
        waiting: str | None,
        scaling: ScalingResourceStatus | None,
        rollout: RolloutStatus | None,
    ) -> None:
        names = [workload_name(view.service, view.role, index) for index in range(view.replicas)]
        present = [[each[name] for each in children.workloads.values() if name in each] for name in names]
        ready = sum(any(is_instance_ready(each) for each in of_one) for of_one in present)
        before = self._publisher.latest(obj, InstanceSetStatus)
        waiting = None if all(present) else waiting
        status = instance_set_status(view, before, ready, blockers, self._clock.now(), waiting, scaling, rollout)
        await self._publisher.publish(obj, before, status)

    async def _report_unreadable(self, obj: Object, err: ValidationError) -> Result:
        metadata = ObjectMeta.model_validate(obj["metadata"])
        view = self._view(InstanceSet(metadata=metadata, spec=InstanceSetSpec.model_construct(name=metadata.name)))
        before = self._publisher.latest(obj, InstanceSetStatus)
        blockers = invalid(problem.sentence(KIND) for problem in from_validation(err))
        scaling = before.scaling_resource_status
        status = instance_set_status(view, before, 0, blockers, self._clock.now(), scaling=scaling, rollout=before.rollout)
        await self._publisher.publish(obj, before, status)
        return Result.done()

    def _view(self, instance_set: InstanceSet) -> RoleView:
        """With the place of the InferService that owns it."""
        owner = instance_set.metadata.controller
        service = self._caches.infer_services.get(instance_set.metadata.namespace, owner.name) if owner else None
        return RoleView.of(instance_set, service["metadata"].get("labels", {}) if service else {})

    def _reason_to_wait(self, view: RoleView) -> str | None:
        """Why no instance may be made now: roles of the InferService go first. Without an InferService there are none."""
        owner = view.instance_set.metadata.controller
        if owner is None or view.labels[SCHEDULING_STRATEGY] != PRIORITY:
            return None
        obj = self._caches.infer_services.get(view.instance_set.metadata.namespace, owner.name)
        if obj is None:
            return f"waiting for InferService {owner.name}"
        try:
            parent = InferService.model_validate(obj)
        except ValidationError:
            return f"waiting for InferService {owner.name} to be repaired"
        return reason_to_wait(parent, view.role, owned(self._caches.instance_sets, owner.uid))

    def _children(self, request: Request, uid: str) -> Children:
        cached = {kind: owned(store, uid) for kind, store in self._caches.workloads.items()}
        return Children(
            services=owned(self._caches.services, uid),
            workloads=self._own.freshest(request, cached),
            pod_groups=owned(self._caches.pod_groups, uid),
        )


def desired_services(view: RoleView, handler: WorkloadHandler, indices: Iterable[int]) -> list[JsonObject]:
    """Every Service of an InstanceSet: declared ones first, then one for each of `indices` where its kind needs it."""
    own = indices if handler.has_instance_service(view) else ()
    return [
        *services.role_services(view),
        *(services.instance_service(view, index, headless=handler.is_service_headless) for index in own),
    ]


def surplus_services(present: Iterable[Object], wanted: set[str]) -> list[Object]:
    """Services to delete: of instances that are gone, or no longer declared (these have an empty index)."""
    present = list(present)
    declared = [each for each in present if label_of(each, INSTANCE_INDEX) == ""]
    return [
        *surplus(present, wanted, INSTANCE_INDEX),
        *(each for each in declared if each["metadata"]["name"] not in wanted),
    ]


def _never(_desired: JsonObject, _live: Object) -> bool:
    return False


def _names(objects: Iterable[JsonObject]) -> set[str]:
    return {each["metadata"]["name"] for each in objects}


def _handler(spec: InstanceSetSpec) -> WorkloadHandler | None:
    return handler_of(spec.workload.api_version, spec.workload.kind) if spec.workload else None
