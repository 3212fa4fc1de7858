# SPDX-License-Identifier: Apache-2.0
"""Makes pods of a control plane without nodes ready, as a kubelet would report them. The workload controllers are real."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from controller_runtime.errors import TransportError
from controller_runtime.kube.client import KubeClient
from controller_runtime.kube.errors import ConflictError, NotFoundError
from controller_runtime.kube.informer import Informer
from controller_runtime.kube.kind import POD, Object, is_deleting, name_of, namespace_of, uid_of

TIME = "2026-01-01T00:00:00Z"


class ReadyPods:
    """Reports every pod of a namespace as running and ready while `run` runs; `hold` leaves new ones pending.

    With `node` pods are bound to it, so the API server does not drop them as soon as they are deleted: they terminate for
    `terminating_s` as running containers would, or for ever when it is None, as on a lost node.
    Pods whose image begins with `stuck_image` never become ready.
    """

    def __init__(self, client: KubeClient, namespace: str) -> None:
        self._client = client
        self._informer = Informer(client, POD, namespace)
        self._pending: asyncio.Queue[Object] = asyncio.Queue()
        self._tasks: set[asyncio.Task[None]] = set()
        self._terminating: set[str] = set()
        self.hold = False
        self.node: str | None = None
        self.terminating_s: float | None = 0.0
        self.stuck_image: str | None = None

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set."""
        self._informer.add_handler(self._seen)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._informer.run(stop))
            worker = group.create_task(self._work())
            await stop.wait()
            worker.cancel()
            for task in self._tasks:
                task.cancel()

    def release(self) -> None:
        """Report the pods that were held back."""
        self.hold = False
        for pod in self._informer.store.all():
            self._seen(None, pod)

    def _seen(self, _old: Object | None, pod: Object | None) -> None:
        if pod is None:
            return
        if is_deleting(pod):
            self._see_deleting(pod)
        elif not self.hold and pod["status"].get("phase") != "Running" and not self._is_stuck(pod):
            self._pending.put_nowait(pod)

    @contextmanager
    def _repeated(self, pod: Object) -> Iterator[None]:
        """The API server may restart meanwhile."""
        try:
            yield
        except TransportError:
            self._pending.put_nowait(pod)

    def _is_stuck(self, pod: Object) -> bool:
        return self.stuck_image is not None and pod["spec"]["containers"][0]["image"].startswith(self.stuck_image)

    def _see_deleting(self, pod: Object) -> None:
        if self.terminating_s is None or uid_of(pod) in self._terminating:
            return
        self._terminating.add(uid_of(pod))
        task = asyncio.create_task(self._terminate(pod, self.terminating_s))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _terminate(self, pod: Object, after_s: float) -> None:
        await asyncio.sleep(after_s)
        with suppress(NotFoundError, ConflictError):
            await self._client.delete(POD, name_of(pod), namespace_of(pod), uid=uid_of(pod), grace_s=0)

    async def _work(self) -> None:
        while True:
            pod = await self._pending.get()
            conditions = [{"type": kind, "status": "True", "lastTransitionTime": TIME} for kind in ("Ready", "ContainersReady")]
            status = {"status": {"phase": "Running", "conditions": conditions}}
            with suppress(NotFoundError, ConflictError), self._repeated(pod):
                if self.node is not None and "nodeName" not in pod["spec"]:
                    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name_of(pod)}}
                    target = {"apiVersion": "v1", "kind": "Node", "name": self.node}
                    await self._client.call("POST", POD.path(namespace_of(pod), name_of(pod), "binding"), {**binding, "target": target})
                await self._client.patch(POD, name_of(pod), namespace_of(pod), status, "merge", subresource="status")
