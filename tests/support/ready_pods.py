# SPDX-License-Identifier: Apache-2.0
"""Makes pods of a control plane without nodes ready, as a kubelet would report them. The workload controllers are real."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from controller_runtime.kube.client import KubeClient
from controller_runtime.kube.errors import ConflictError, NotFoundError
from controller_runtime.kube.informer import Informer
from controller_runtime.kube.kind import POD, Object, is_deleting, name_of, namespace_of

TIME = "2026-01-01T00:00:00Z"


class ReadyPods:
    """Reports every pod of a namespace as running and ready while `run` runs; `hold` leaves new ones pending."""

    def __init__(self, client: KubeClient, namespace: str) -> None:
        self._client = client
        self._informer = Informer(client, POD, namespace)
        self._pending: asyncio.Queue[Object] = asyncio.Queue()
        self.hold = False

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set."""
        self._informer.add_handler(self._seen)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._informer.run(stop))
            worker = group.create_task(self._work())
            await stop.wait()
            worker.cancel()

    def release(self) -> None:
        """Report the pods that were held back."""
        self.hold = False
        for pod in self._informer.store.all():
            self._seen(None, pod)

    def _seen(self, _old: Object | None, pod: Object | None) -> None:
        if pod is not None and not self.hold and pod["status"].get("phase") != "Running" and not is_deleting(pod):
            self._pending.put_nowait(pod)

    async def _work(self) -> None:
        while True:
            pod = await self._pending.get()
            conditions = [{"type": kind, "status": "True", "lastTransitionTime": TIME} for kind in ("Ready", "ContainersReady")]
            status = {"status": {"phase": "Running", "conditions": conditions}}
            with suppress(NotFoundError, ConflictError):
                await self._client.patch(POD, name_of(pod), namespace_of(pod), status, "merge", subresource="status")
