# SPDX-License-Identifier: Apache-2.0
"""InferService -> one InstanceSet per role, named `<service>-<role>`.

A role with a finding keeps the InstanceSet it has and gets none if it has none; the other roles run. A finding about the
service as a whole leaves all of them as they are. Labels and annotations of a role follow its template.
Seed: operator RFC, 7.1.2.
"""

from __future__ import annotations

from pydantic import ValidationError

from controller_runtime.api import instance_set
from controller_runtime.api.infer_service import KIND, InferService, InferServiceStatus
from controller_runtime.api.infer_validation import CapabilitiesNow, Findings, check_service
from controller_runtime.api.instance_set import InstanceSetSpec
from controller_runtime.api.labels import (
    INFER_SERVICE_ID,
    INSTANCE_SET_NAME,
    SCHEDULE_POLICY,
    SCHEDULING_STRATEGY,
    SERVICE_NAME,
    SUPER_NODE_SUFFIX,
)
from controller_runtime.api.meta import API_VERSION, JsonObject, Metadata
from controller_runtime.api.names import instance_set_name, service_place
from controller_runtime.api.problems import from_validation
from controller_runtime.foundation.clock import Clock
from controller_runtime.kube.controller import Result
from controller_runtime.kube.kind import Object, is_deleting, name_of
from controller_runtime.kube.store import Store
from controller_runtime.kube.workqueue import Request
from controller_runtime.reconcilers.apply import ChildWriter, WriteError, for_each, raise_first
from controller_runtime.reconcilers.autoscaler import keep_scale
from controller_runtime.reconcilers.ownership import label_of, owned
from controller_runtime.reconcilers.publish import StatusPublisher
from controller_runtime.reconcilers.role_view import controller_reference
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
        failures = [] if findings.service else await self._bring(parent, findings, children)
        await self._publish(obj, parent, children, findings, failures)
        raise_first(failures)
        return Result.done()

    async def _bring(self, parent: InferService, findings: Findings, children: dict[str, Object]) -> list[tuple[JsonObject, WriteError]]:
        """Delete the sets of removed roles, then update and create. `children` is brought up to date along the way."""
        names = {instance_set_name(parent.metadata.name, role.name) for role in parent.spec.roles}
        extra = [child for child in children.values() if name_of(child) not in names and label_of(child, INSTANCE_SET_NAME) is not None]
        wanted = [desired_instance_set(parent, role) for role in parent.spec.roles if role.name not in findings.roles]

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
    ) -> None:
        counted = [children.get(instance_set_name(parent.metadata.name, role.name)) for role in parent.spec.roles]
        present = [child for child in counted if child is not None]
        blockers = invalid(findings.messages) or blockers_of(failures) or [each for child in present if (each := blocker_of(child))]
        before = self._publisher.latest(obj, InferServiceStatus)
        ready = sum(is_ready(child) for child in present)
        unscaled, roles = unscaled_of(present), len(parent.spec.roles)
        status = service_status(before, parent.metadata.generation, roles, ready, blockers, self._clock.now(), unscaled)
        await self._publisher.publish(obj, before, status)

    async def _report_unreadable(self, obj: Object, err: ValidationError) -> Result:
        before = self._publisher.latest(obj, InferServiceStatus)
        blockers = invalid(problem.sentence(KIND) for problem in from_validation(err))
        status = service_status(before, int(obj["metadata"]["generation"]), 0, 0, blockers, self._clock.now())
        await self._publisher.publish(obj, before, status)
        return Result.done()


def desired_instance_set(parent: InferService, role: InstanceSetSpec) -> JsonObject:
    """The InstanceSet of one role."""
    service = parent.metadata.name
    inherited = role_metadata(parent, role)
    metadata: JsonObject = {
        "name": instance_set_name(service, role.name),
        "namespace": parent.metadata.namespace,
        "labels": {
            **inherited.labels,
            SERVICE_NAME: service,
            INSTANCE_SET_NAME: role.name,
            SCHEDULING_STRATEGY: parent.spec.scheduling_strategy.effective,
        },
        "ownerReferences": [controller_reference(KIND, service, parent.metadata.uid)],
    }
    if inherited.annotations:
        metadata["annotations"] = inherited.annotations
    return {
        "apiVersion": API_VERSION,
        "kind": instance_set.KIND,
        "metadata": metadata,
        "spec": role.model_dump(by_alias=True, exclude_unset=True),
    }


def role_metadata(parent: InferService, role: InstanceSetSpec) -> Metadata:
    """The role's labels and annotations, with the scheduling policy of its pods and the id that groups them on a super node."""
    labels, annotations = dict(role.metadata.labels), dict(role.metadata.annotations)
    pods = Metadata.model_validate(((role.spec or {}).get("template") or {}).get("metadata") or {})
    if SCHEDULE_POLICY not in annotations and SCHEDULE_POLICY in pods.annotations:
        annotations[SCHEDULE_POLICY] = pods.annotations[SCHEDULE_POLICY]
    policy = annotations.get(SCHEDULE_POLICY, "")
    is_grouped = policy.endswith(SUPER_NODE_SUFFIX) and policy != SUPER_NODE_SUFFIX
    if is_grouped and INFER_SERVICE_ID not in {*labels, *pods.labels}:
        labels[INFER_SERVICE_ID] = parent.metadata.uid
    return Metadata(labels=labels, annotations=annotations)
