# SPDX-License-Identifier: Apache-2.0
"""Force-deletes the pods of instances on a lost node, so that their replacements need not wait for it.

A StatefulSet replaces no pod that may still run; on a lost node it would wait for ever. A node counts as lost when it is not
ready for the delay, is still so by the API server's word, and its lease has run out. Pods go by uid, at a bounded rate, and
no longer once the node is back. A loss is told only by the change from ready to not ready: what a node that stays lost gets
later is nobody's business here.
As the reference operator does, which waits for nothing and lets a short interruption end every pod of the node.
"""

from __future__ import annotations

from collections.abc import Callable

from controller_runtime.api.labels import SERVICE_NAME, SET_NAME
from controller_runtime.api.operator_rbac import NODE_LEASE_NAMESPACE
from controller_runtime.foundation.clock import Clock
from controller_runtime.foundation.log import get_logger
from controller_runtime.kube.client import KubeClient
from controller_runtime.kube.controller import Result
from controller_runtime.kube.errors import ConflictError, NotFoundError
from controller_runtime.kube.kind import LEASE, NODE, POD, Object, name_of, namespace_of, uid_of
from controller_runtime.kube.rate_limit import TokenBucket
from controller_runtime.kube.store import Store
from controller_runtime.kube.workqueue import Request
from controller_runtime.reconcilers.faults.pods import NODE_INDEX
from controller_runtime.reconcilers.node_state import due_in_s, is_node_ready, is_opted_out, lease_left_s, needs_lease

DELAY_S = 40.0
"""Kubernetes itself calls a node not ready after 40 to 50 seconds of silence. As long again outlasts the restart of a kubelet
or of a switch, and is well before the five minutes after which Kubernetes gives up the pods of a lost node."""
QPS, BURST = 10.0, 20
"""Pods of all nodes: the loss of a whole rack must not empty the cluster in one second."""

log = get_logger(__name__)


class NodeCleaner:
    """Reconciles nodes that went from ready to not ready."""

    def __init__(
        self,
        client: KubeClient,
        nodes: Store,
        pods: Store,
        infer_services: Store,
        sets: Store,
        clock: Clock,
        is_enabled: Callable[[], bool],
        delay_s: float = DELAY_S,
    ) -> None:
        self._client = client
        self._nodes, self._pods, self._infer_services, self._sets = nodes, pods, infer_services, sets
        self._clock, self._is_enabled, self._delay_s = clock, is_enabled, delay_s
        self._bucket = TokenBucket(QPS, BURST)

    async def reconcile(self, request: Request) -> Result:
        """Wait until the node counts as lost, make sure, remove its pods."""
        node = self._nodes.get(*request)
        if node is None or is_node_ready(node) or not self._is_enabled():
            return Result.done()
        left_s: float | None = due_in_s(node, self._delay_s, self._clock.now())
        if left_s is not None and left_s <= 0:
            left_s = await self._confirmed_in_s(request.name)
        if left_s is None:
            return Result.done()
        if left_s > 0:
            return Result.after(left_s)
        victims = [pod for pod in self._pods.by_index(NODE_INDEX, request.name) if not self._is_opted_out(pod)]
        if victims:
            log.warning("node lost, removing its pods", node=request.name, count=len(victims))
        for pod in victims:
            await self._bucket.acquire()
            if self._is_back(request):
                log.info("node is back, its other pods stay", node=request.name)
                break
            await self._remove(pod)
        return Result.done()

    async def _confirmed_in_s(self, name: str) -> float | None:
        """When the node is lost by the API server's word and by its lease; None when it is back, or gone with its pods."""
        try:
            node = await self._client.get(NODE, name)
        except NotFoundError:
            return None
        if is_node_ready(node):
            return None
        now = self._clock.now()
        left_s = due_in_s(node, self._delay_s, now)
        return max(left_s, lease_left_s(await self._lease(name), now)) if needs_lease(node) else left_s

    async def _lease(self, name: str) -> Object | None:
        try:
            return await self._client.get(LEASE, name, NODE_LEASE_NAMESPACE)
        except NotFoundError:
            return None

    def _is_back(self, request: Request) -> bool:
        node = self._nodes.get(*request)
        return (node is not None and is_node_ready(node)) or not self._is_enabled()

    def _is_opted_out(self, pod: Object) -> bool:
        namespace, labels = namespace_of(pod), pod["metadata"]["labels"]
        service = self._infer_services.get(namespace, labels.get(SERVICE_NAME, ""))
        owner = self._sets.get(namespace, service["metadata"].get("labels", {}).get(SET_NAME, "")) if service else None
        return is_opted_out(pod, service, owner)

    async def _remove(self, pod: Object) -> None:
        try:
            await self._client.delete(POD, name_of(pod), namespace_of(pod), uid=uid_of(pod), grace_s=0)
        except (NotFoundError, ConflictError):
            return
        log.info("pod of a lost node removed", namespace=namespace_of(pod), name=name_of(pod))
