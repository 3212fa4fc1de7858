# SPDX-License-Identifier: Apache-2.0
"""InferService -> one InstanceSet per role, named `<service>-<role>`.

A role with a finding keeps the InstanceSet it has and gets none if it has none; the other roles run. A finding about the
service as a whole leaves all of them as they are. Labels and annotations of a role follow its template, which is handed
over when the roles before it are done with theirs.
Seed: operator RFC, 7.1.2.
"""

from __future__ import annotations

from pydantic import ValidationError

from controller_runtime.api.infer_service import KIND, InferService, InferServiceStatus
from controller_runtime.api.infer_validation import CapabilitiesNow, Findings, check_service
from controller_runtime.api.labels import INSTANCE_SET_NAME
from controller_runtime.api.meta import JsonObject
from controller_runtime.api.names import instance_set_name, service_place
from controller_runtime.api.problems import from_validation
from controller_runtime.foundation.clock import Clock
from controller_runtime.kube.controller import Result
from controller_runtime.kube.kind import Object, is_deleting, name_of
from controller_runtime.kube.store import Store
from controller_runtime.kube.workqueue import Request
from controller_runtime.reconcilers.apply import ChildWriter, WriteError, for_each, raise_first
from controller_runtime.reconcilers.autoscaler import keep_scale
from controller_runtime.reconcilers.desired_instance_set import desired_instance_set
from controller_runtime.reconcilers.ownership import label_of, owned
from controller_runtime.reconcilers.publish import StatusPublisher
from controller_runtime.reconcilers.rollout.turns import Turns, handed_over, service_rollout, turns_of
from controller_runtime.reconcilers.status import blocker_of, blockers_of, invalid, is_ready, service_status, unscaled_of


class InferServiceReconciler:
    """Brings one InferService to its spec."""

    def __init__(
        self, services: Store, instance_sets: Store, writer: ChildWriter, publisher: StatusPublisher, can: CapabilitiesNow, clock: Clock
    ) -> None:
        self._services, self._instance_sets = services, instance_sets
        self._writer, self._publisher = writer, publisher
        self._can, self._clock = can, clock

    async def reconcile(self, request: Request) -> Result:
        """Level-based: reads the caches, writes only differences."""
        obj = self._services.get(*request)
        if obj is None or is_deleting(obj):
            self._publisher.forget(request)
            return Result.done()
        try:
            parent = InferService.model_validate(obj)
        except ValidationError as err:
            return await self._report_unreadable(obj, err)
        place = service_place(parent.metadata.name, parent.metadata.labels)
        findings = check_service(parent.metadata.name, parent.spec, place.offset, self._can())
        children = owned(self._instance_sets, parent.metadata.uid)
        turns = turns_of(parent, findings.roles, children)
        failures = [] if findings.service else await self._bring(parent, findings, children, turns)
        await self._publish(obj, parent, children, findings, failures, turns)
        raise_first(failures)
        return Result.done()

    async def _bring(
        self, parent: InferService, findings: Findings, children: dict[str, Object], turns: Turns
    ) -> list[tuple[JsonObject, WriteError]]:
        """Delete the sets of removed roles, then update and create. `children` is brought up to date along the way."""
        names = {instance_set_name(parent.metadata.name, role.name) for role in parent.spec.roles}
        extra = [child for child in children.values() if name_of(child) not in names and label_of(child, INSTANCE_SET_NAME) is not None]
        wanted = [
            handed_over(desired_instance_set(parent, turns.role(role)), turns.waiting.get(role.name))
            for role in parent.spec.roles
            if role.name not in findings.roles
        ]

        async def ensure(desired: JsonObject) -> None:
            name = desired["metadata"]["name"]
            children[name] = await self._writer.ensure(desired, children.get(name), keep_scale)

        return [*await for_each(extra, self._writer.delete), *await for_each(wanted, ensure)]

    async def _publish(
        self,
        obj: Object,
        parent: InferService,
        children: dict[str, Object],
        findings: Findings,
        failures: list[tuple[JsonObject, WriteError]],
        turns: Turns,
    ) -> None:
        counted = {role.name: children.get(instance_set_name(parent.metadata.name, role.name)) for role in parent.spec.roles}
        present = [child for child in counted.values() if child is not None]
        blockers = invalid(findings.messages) or blockers_of(failures) or [each for child in present if (each := blocker_of(child))]
        before = self._publisher.latest(obj, InferServiceStatus)
        ready = sum(is_ready(child) for name, child in counted.items() if child is not None and name not in turns.outdated)
        unscaled, roles = unscaled_of(present), len(parent.spec.roles)
        rollout = service_rollout(parent, counted, turns)
        status = service_status(before, parent.metadata.generation, roles, ready, blockers, self._clock.now(), unscaled, rollout)
        await self._publisher.publish(obj, before, status)

    async def _report_unreadable(self, obj: Object, err: ValidationError) -> Result:
        before = self._publisher.latest(obj, InferServiceStatus)
        blockers = invalid(problem.sentence(KIND) for problem in from_validation(err))
        status = service_status(before, int(obj["metadata"]["generation"]), 0, 0, blockers, self._clock.now(), (), before.rollout)
        await self._publisher.publish(obj, before, status)
        return Result.done()
