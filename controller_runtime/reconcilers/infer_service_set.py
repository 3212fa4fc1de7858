# SPDX-License-Identifier: Apache-2.0
"""InferServiceSet -> InferServices `<set>-0` to `<set>-<n-1>`, all of one template.

A finding about the set as a whole (names, node ports of different services) leaves every service as it is. A finding about
one role is the InferService's to act on; here it is only told.
Seed: operator RFC, 7.1.1.
"""

from __future__ import annotations

from pydantic import ValidationError

from controller_runtime.api.infer_service_set import KIND, InferServiceSet, InferServiceSetStatus
from controller_runtime.api.infer_validation import CapabilitiesNow, Findings, check_set
from controller_runtime.api.labels import SERVICE_INDEX, SET_NAME
from controller_runtime.api.meta import API_VERSION, JsonObject
from controller_runtime.api.names import infer_service_name
from controller_runtime.api.problems import from_validation
from controller_runtime.foundation.clock import Clock
from controller_runtime.kube.controller import Result
from controller_runtime.kube.kind import Object, is_deleting
from controller_runtime.kube.store import Store
from controller_runtime.kube.workqueue import Request
from controller_runtime.reconcilers.apply import ChildWriter, WriteError, for_each, raise_first
from controller_runtime.reconcilers.ownership import owned, surplus
from controller_runtime.reconcilers.publish import StatusPublisher
from controller_runtime.reconcilers.role_view import controller_reference
from controller_runtime.reconcilers.rollout.turns import set_rollout
from controller_runtime.reconcilers.status import blocker_of, blockers_of, invalid, is_ready, set_status, unscaled_of


class InferServiceSetReconciler:
    """Brings one InferServiceSet to its spec."""

    def __init__(
        self, sets: Store, services: Store, writer: ChildWriter, publisher: StatusPublisher, can: CapabilitiesNow, clock: Clock
    ) -> None:
        self._sets, self._services = sets, services
        self._writer, self._publisher = writer, publisher
        self._can, self._clock = can, clock

    async def reconcile(self, request: Request) -> Result:
        """Level-based: reads the caches, writes only differences."""
        obj = self._sets.get(*request)
        if obj is None or is_deleting(obj):
            self._publisher.forget(request)
            return Result.done()
        try:
            parent = InferServiceSet.model_validate(obj)
        except ValidationError as err:
            return await self._report_unreadable(obj, err)
        findings = check_set(parent.metadata.name, parent.spec, self._can())
        children = owned(self._services, parent.metadata.uid)
        failures = [] if findings.service else await self._bring(parent, children)
        await self._publish(obj, parent, children, findings, failures)
        raise_first(failures)
        return Result.done()

    async def _bring(self, parent: InferServiceSet, children: dict[str, Object]) -> list[tuple[JsonObject, WriteError]]:
        """Delete, then update and create. `children` is brought up to date along the way."""
        wanted = desired_infer_services(parent)
        names = {each["metadata"]["name"] for each in wanted}
        extra = surplus(children.values(), names, SERVICE_INDEX)

        async def ensure(desired: JsonObject) -> None:
            name = desired["metadata"]["name"]
            children[name] = await self._writer.ensure(desired, children.get(name))

        return [*await for_each(extra, self._writer.delete), *await for_each(wanted, ensure)]

    async def _publish(
        self,
        obj: Object,
        parent: InferServiceSet,
        children: dict[str, Object],
        findings: Findings,
        failures: list[tuple[JsonObject, WriteError]],
    ) -> None:
        replicas = parent.spec.services
        counted = [children.get(infer_service_name(parent.metadata.name, index)) for index in range(replicas)]
        present = [child for child in counted if child is not None]
        blockers = invalid(findings.messages) or blockers_of(failures) or [each for child in present if (each := blocker_of(child))]
        before = self._publisher.latest(obj, InferServiceSetStatus)
        ready = sum(is_ready(child) for child in present)
        generation, unscaled = parent.metadata.generation, unscaled_of(present)
        rollout = set_rollout(parent, present)
        status = set_status(before, generation, replicas, ready, blockers, self._clock.now(), unscaled, rollout)
        await self._publisher.publish(obj, before, status)

    async def _report_unreadable(self, obj: Object, err: ValidationError) -> Result:
        before = self._publisher.latest(obj, InferServiceSetStatus)
        blockers = invalid(problem.sentence(KIND) for problem in from_validation(err))
        status = set_status(before, int(obj["metadata"]["generation"]), 0, 0, blockers, self._clock.now(), (), before.rollout)
        await self._publisher.publish(obj, before, status)
        return Result.done()


def desired_infer_services(parent: InferServiceSet) -> list[JsonObject]:
    """The InferServices of a set, in the order of their index. Nothing of the set's own labels is handed down."""
    template = parent.spec.template.model_dump(by_alias=True, exclude_unset=True)
    reference = controller_reference(KIND, parent.metadata.name, parent.metadata.uid)
    return [
        {
            "apiVersion": API_VERSION,
            "kind": "InferService",
            "metadata": {
                "name": infer_service_name(parent.metadata.name, index),
                "namespace": parent.metadata.namespace,
                "labels": {SET_NAME: parent.metadata.name, SERVICE_INDEX: str(index)},
                "ownerReferences": [reference],
            },
            "spec": template,
        }
        for index in range(parent.spec.services)
    ]
