# SPDX-License-Identifier: Apache-2.0
"""From a pod to its workload. A Deployment's pods belong to a ReplicaSet, which is read when a pod needs explaining.

ReplicaSets are not cached: there are more of them than workloads, and they are asked for only on a fault. Which Deployment a
ReplicaSet belongs to never changes, so that part of the answer is kept; its revision does change and is read each time.
"""

from __future__ import annotations

from collections import OrderedDict

from controller_runtime.kube.client import KubeClient
from controller_runtime.kube.errors import NotFoundError
from controller_runtime.kube.kind import REPLICA_SET, controller_owner_of, uid_of
from controller_runtime.reconcilers.faults.decision import DEPLOYMENT_REVISION, Ancestry
from controller_runtime.reconcilers.faults.pods import PodView

REMEMBERED = 4096

UNKNOWN = Ancestry("")
"""Of a pod whose ReplicaSet is gone, and with it the Deployment or that template."""


class Ancestors:
    """Answers where pods come from."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._deployments: OrderedDict[str, str] = OrderedDict()

    async def workload_of(self, pod: PodView) -> Ancestry:
        """The workload of a pod, without the revision."""
        known = self._deployments.get(pod.owner.uid)
        return Ancestry(known) if known is not None else await self.of(pod)

    async def of(self, pod: PodView) -> Ancestry:
        """The workload of a pod and the revision of its template, as they are now."""
        if pod.owner.kind != REPLICA_SET.kind:
            return Ancestry(pod.owner.uid, pod.revision)
        try:
            replica_set = await self._client.get(REPLICA_SET, pod.owner.name, pod.namespace)
        except NotFoundError:
            return UNKNOWN
        owner = controller_owner_of(replica_set)
        if uid_of(replica_set) != pod.owner.uid or owner is None:
            return UNKNOWN
        self._remember(pod.owner.uid, str(owner["uid"]))
        return Ancestry(str(owner["uid"]), replica_set["metadata"].get("annotations", {}).get(DEPLOYMENT_REVISION, ""))

    def _remember(self, replica_set: str, deployment: str) -> None:
        self._deployments[replica_set] = deployment
        if len(self._deployments) > REMEMBERED:
            self._deployments.popitem(last=False)
