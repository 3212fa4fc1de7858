# SPDX-License-Identifier: Apache-2.0
"""A node without a kubelet: the test says what it reports, a task renews its lease."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

from controller_runtime.kube.client import KubeClient
from controller_runtime.kube.kind import LEASE, NODE, Object

LEASE_NAMESPACE = "kube-node-lease"
RENEWAL_S = 5.0


class FakeNode:
    """One node. `renews`: whether its lease is renewed, as by a kubelet that runs."""

    def __init__(self, client: KubeClient, name: str) -> None:
        self._client = client
        self.name = name
        self.renews = True

    async def report(self, ready: str, age_s: float = 0.0) -> Object:
        """Set the Ready condition, last changed `age_s` ago."""
        since = datetime.now(UTC) - timedelta(seconds=age_s)
        condition = {"type": "Ready", "status": ready, "reason": "Test", "lastTransitionTime": since.strftime("%Y-%m-%dT%H:%M:%SZ")}
        return await self._client.patch(NODE, self.name, None, {"status": {"conditions": [condition]}}, subresource="status")

    async def renew(self, age_s: float = 0.0) -> None:
        """Renew the lease as of `age_s` ago."""
        at = (datetime.now(UTC) - timedelta(seconds=age_s)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {"holderIdentity": self.name, "leaseDurationSeconds": 40, "renewTime": at}
        metadata = {"name": self.name, "namespace": LEASE_NAMESPACE}
        await self._client.apply({"apiVersion": LEASE.api_version, "kind": LEASE.kind, "metadata": metadata, "spec": spec})

    async def keep(self) -> None:
        """Renew the lease until cancelled."""
        while True:
            if self.renews:
                await self.renew()
            await asyncio.sleep(RENEWAL_S)


@contextlib.asynccontextmanager
async def running_node(client: KubeClient, name: str) -> AsyncIterator[FakeNode]:
    """A ready node for as long as the context lasts."""
    node = FakeNode(client, name)
    await client.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
    await node.report("True")
    await node.renew()
    task = asyncio.create_task(node.keep())
    try:
        yield node
    finally:
        task.cancel()
        await asyncio.wait({task})
        await client.delete(NODE, name)
