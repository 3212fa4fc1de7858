# SPDX-License-Identifier: Apache-2.0
"""Finds the faults of one InstanceSet: pods that say so, and pods of gangs that are gone. Reads, decides nothing, writes nothing."""

from __future__ import annotations

from dataclasses import dataclass, field

from controller_runtime.api.labels import POD_STATUS
from controller_runtime.kube.client import KubeClient
from controller_runtime.kube.errors import NotFoundError
from controller_runtime.kube.kind import Object, is_deleting
from controller_runtime.kube.store import Store
from controller_runtime.reconcilers.faults.ancestors import Ancestors
from controller_runtime.reconcilers.faults.decision import Fault, Instance, Verdict, belongs, fault_of, judge_loss
from controller_runtime.reconcilers.faults.look import Look
from controller_runtime.reconcilers.faults.lost_pods import LostPod, LostPods
from controller_runtime.reconcilers.faults.pods import ROLE_INDEX, PodView
from controller_runtime.reconcilers.faults.record import FaultRecord
from controller_runtime.reconcilers.faults.removal import is_removed_by_us

UNSETTLED_S = 1.0
"""When to look again at a lost pod whose workload is changing."""


@dataclass
class Findings:
    """Faults, the instances they concern, and the objects to delete for them."""

    faults: list[Fault] = field(default_factory=list)
    instances: dict[int, Instance] = field(default_factory=dict)
    targets: dict[int, Object] = field(default_factory=dict)
    losses: list[LostPod] = field(default_factory=list)

    def add(self, fault: Fault, instance: Instance, workload: Object) -> None:
        """Take in one fault."""
        self.faults.append(fault)
        self.instances[instance.index] = instance
        self.targets[instance.index] = workload


class FaultFinder:
    """Gathers what `decision.plan` judges."""

    def __init__(self, client: KubeClient, pods: Store, lost: LostPods, ancestors: Ancestors) -> None:
        self._client, self._pods, self._lost, self._ancestors = client, pods, lost, ancestors

    async def find(self, look: Look) -> Findings:
        """The faults of this moment. Losses that are explained are forgotten, those that are not yet clear are looked at again."""
        found = Findings()
        await self._find_faults(look, found)
        await self._find_losses(look, found)
        return found

    async def removed_by_us(self, look: Look, instance: Instance, record: FaultRecord) -> list[str]:
        """Who controls the pods that are to be removed with the instance, those of earlier rebuilds included; none: nobody's."""
        pods = [pod for each in self._pods.by_index(ROLE_INDEX, look.key) if (pod := PodView.of(each)) is not None]
        concerned = [pod for pod in pods if pod.index == instance.index and is_removed_by_us(pod)]
        earlier = set(record.of(instance.index).removing)
        uids = [
            pod.owner.uid for pod in concerned if pod.owner.uid in earlier or belongs(pod, await self._ancestors.workload_of(pod), instance)
        ]
        return list(dict.fromkeys(uids))

    async def _find_faults(self, look: Look, found: Findings) -> None:
        for obj in self._pods.by_index(ROLE_INDEX, look.key):
            pod = PodView.of(obj) if POD_STATUS in obj["metadata"].get("annotations", {}) else None
            fault = fault_of(pod) if pod is not None else None
            if pod is None or fault is None:
                continue
            workload = look.workloads.get(look.name_of(pod.index))
            if workload is None or is_deleting(workload) or pod.index >= look.view.replicas:
                continue
            instance = Instance.of(pod.index, workload)
            if belongs(pod, await self._ancestors.workload_of(pod), instance):
                found.add(fault, instance, workload)

    async def _find_losses(self, look: Look, found: Findings) -> None:
        for note in self._lost.of(look.key):
            pod = note.pod
            verdict, workload = await self._judge(look, note) if look.view.is_gang else (Verdict.NOTHING, None)
            if verdict is Verdict.WAIT:
                look.again(UNSETTLED_S)
            elif verdict is Verdict.REBUILD and workload is not None:
                found.losses.append(note)
                found.add(Fault(pod.index, f"pod {pod.name} of its gang is gone"), Instance.of(pod.index, workload), workload)
            else:
                self._lost.forget(note)

    async def _judge(self, look: Look, note: LostPod) -> tuple[Verdict, Object | None]:
        """Judge by the workload as the API server has it: the cache may not show yet why the pod went."""
        pod = note.pod
        if pod.index >= look.view.replicas:
            return Verdict.NOTHING, None
        try:
            workload = await self._client.get(look.handler.kind, look.name_of(pod.index), pod.namespace)
        except NotFoundError:
            return Verdict.NOTHING, None
        ancestry, instance = await self._ancestors.of(pod), Instance.of(pod.index, workload)
        if is_deleting(workload) or not belongs(pod, ancestry, instance):
            return Verdict.NOTHING, None
        return judge_loss(note.left, ancestry, instance), workload
