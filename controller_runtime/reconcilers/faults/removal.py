# SPDX-License-Identifier: Apache-2.0
"""Removal of the pods of a rebuilt instance, where the scheduler plugin leaves it to this operator.

`external-force`: at once. `external-grace`: when the time that the garbage collector's deletion gave them is over; that time
stands in the pod, so it neither starts over nor is forgotten when the operator restarts. Only pods of recorded controllers
are considered, and only once the workload is gone: replacements have other controllers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime

from controller_runtime.api.meta import JsonObject
from controller_runtime.foundation.clock import Clock
from controller_runtime.foundation.log import get_logger
from controller_runtime.kube.client import KubeClient
from controller_runtime.kube.errors import ConflictError, NotFoundError
from controller_runtime.kube.kind import POD
from controller_runtime.kube.store import Store
from controller_runtime.reconcilers.apply import WriteError, for_each
from controller_runtime.reconcilers.faults.ancestors import Ancestors
from controller_runtime.reconcilers.faults.pods import GRACE_DEFAULT_S, PodView
from controller_runtime.reconcilers.faults.record import FaultRecord
from controller_runtime.reconcilers.ownership import OWNER_INDEX

FORCE, GRACE = "external-force", "external-grace"
ROUNDING_S = 1.0
"""Times in objects have whole seconds; a pod gets this much longer rather than less."""

log = get_logger(__name__)


@dataclass(frozen=True)
class Removal:
    """Pods to remove now, and when to look for others."""

    now: tuple[PodView, ...]
    again_s: float | None


def is_removed_by_us(pod: PodView) -> bool:
    """Whether the scheduler plugin leaves the removal of this pod to the operator."""
    return pod.fault_scheduling in (FORCE, GRACE)


def due(pods: Iterable[PodView], now: datetime) -> Removal:
    """Judge the pods of instances that were rebuilt."""
    left = [(pod, _left_s(pod, now)) for pod in pods if is_removed_by_us(pod)]
    waits = [seconds for _, seconds in left if seconds > 0]
    return Removal(tuple(pod for pod, seconds in left if seconds <= 0), min(waits, default=None))


class PodRemover:
    """Deletes pods without grace, never others than those it was told of."""

    def __init__(self, client: KubeClient, pods: Store, ancestors: Ancestors, clock: Clock) -> None:
        self._client, self._pods, self._ancestors, self._clock = client, pods, ancestors, clock

    async def remove(self, record: FaultRecord, present: Collection[str]) -> tuple[list[tuple[JsonObject, WriteError]], float | None]:
        """Remove what is due: `(failures, seconds until more is due)`. `present`: uids of the workloads there are."""
        controllers = [uid for entry in record.instances.values() for uid in entry.removing]
        pods = [pod for uid in controllers for each in self._pods.by_index(OWNER_INDEX, uid) if (pod := PodView.of(each))]
        left = [pod for pod in pods if (await self._ancestors.workload_of(pod)).workload not in present]
        removal = due(left, self._clock.now())
        failures = await for_each(removal.now, self.delete)
        return [(_described(pod), err) for pod, err in failures], removal.again_s

    async def delete(self, pod: PodView) -> None:
        """Delete one pod at once, unless it is gone or another one of its name is there."""
        try:
            await self._client.delete(POD, pod.name, pod.namespace, uid=pod.uid, grace_s=0)
        except (NotFoundError, ConflictError):
            return
        log.info("pod removed", namespace=pod.namespace, name=pod.name, why=pod.fault_scheduling)


def _left_s(pod: PodView, now: datetime) -> float:
    """Seconds until a pod is to be removed. Before the garbage collector came by, its whole time is left."""
    if pod.fault_scheduling == FORCE:
        return 0.0
    if pod.gone_by is None:
        return ROUNDING_S + (pod.grace_s or GRACE_DEFAULT_S)
    return (pod.gone_by - now).total_seconds() + ROUNDING_S


def _described(pod: PodView) -> JsonObject:
    return {"kind": POD.kind, "metadata": {"name": pod.name, "namespace": pod.namespace}}
