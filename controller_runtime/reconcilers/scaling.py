# SPDX-License-Identifier: Apache-2.0
"""Carries out the scaling policy of a role: makes, follows and removes its HorizontalPodAutoscaler.

A policy that cannot be carried out is told and stops nothing: the workloads run on with the number of instances they have.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from controller_runtime.api.infer_validation import CapabilitiesNow
from controller_runtime.api.instance_set import HPA, ScalingResourceStatus
from controller_runtime.api.meta import JsonObject
from controller_runtime.kube.kind import Object, name_of
from controller_runtime.kube.store import Store
from controller_runtime.reconcilers.apply import ChildWriter, WriteError, for_each
from controller_runtime.reconcilers.autoscaler import desired_autoscaler, policy_problem, scaled_by
from controller_runtime.reconcilers.ownership import owned
from controller_runtime.reconcilers.role_view import RoleView
from controller_runtime.reconcilers.status import blockers_of


@dataclass
class Scaled:
    """Outcome: what to report, and what to try again."""

    status: ScalingResourceStatus | None = None
    failures: list[tuple[JsonObject, WriteError]] = field(default_factory=list)


class Scaling:
    """The autoscalers of InstanceSets."""

    def __init__(self, autoscalers: Store, writer: ChildWriter, can: CapabilitiesNow) -> None:
        self._autoscalers, self._writer, self._can = autoscalers, writer, can

    async def bring(self, view: RoleView, before: ScalingResourceStatus | None) -> Scaled:
        """Make the autoscaler of one role what its policy says. `before`: what was reported last."""
        present = owned(self._autoscalers, view.instance_set.metadata.uid)
        problem = policy_problem(view, is_served=self._can().autoscaling)
        is_wanted = problem is None and view.instance_set.spec.is_autoscaled
        wanted = desired_autoscaler(view) if is_wanted else None
        extra = [each for each in present.values() if wanted is None or name_of(each) != wanted["metadata"]["name"]]
        failures = await for_each(extra, self._writer.delete)
        if wanted is None:
            return Scaled(problem, failures)
        return await self._ensure(wanted, present.get(wanted["metadata"]["name"]), before, failures)

    async def _ensure(
        self, wanted: JsonObject, live: Object | None, before: ScalingResourceStatus | None, failures: list[tuple[JsonObject, WriteError]]
    ) -> Scaled:
        made: list[Object] = []

        async def ensure(desired: JsonObject) -> None:
            made.append(await self._writer.ensure(desired, live))

        failed = await for_each([wanted], ensure)
        if made:
            return Scaled(scaled_by(made[0], live, before), failures)
        told = blockers_of(failed)
        status = ScalingResourceStatus(type=HPA, name=wanted["metadata"]["name"], message=told[0].message) if told else before
        return Scaled(status, [*failures, *failed])
