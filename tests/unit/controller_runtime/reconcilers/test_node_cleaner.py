# SPDX-License-Identifier: Apache-2.0
"""The node cleaner against an API server that knows more than the cache."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from controller_runtime.kube.client import KubeClient
from controller_runtime.kube.controller import Result
from controller_runtime.kube.errors import NotFoundError
from controller_runtime.kube.kind import LEASE, Kind, Object
from controller_runtime.kube.store import Store
from controller_runtime.kube.workqueue import Request
from controller_runtime.reconcilers.faults.pods import POD_INDEXES, project_pod
from controller_runtime.reconcilers.node_cleaner import BURST, QPS, NodeCleaner
from tests.support.manual_clock import ManualClock

pytestmark = pytest.mark.looptime
NODE = Request("", "n")


def node(ready: str) -> Object:
    condition = {"type": "Ready", "status": ready, "lastTransitionTime": "2026-01-01T00:00:00Z"}
    metadata = {"name": "n", "uid": "u", "resourceVersion": ready, "creationTimestamp": "2026-01-01T00:00:00Z"}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": {"conditions": [condition]}}


def pod(name: str) -> Object:
    metadata = {"namespace": "ns", "name": name, "uid": f"uid-{name}", "resourceVersion": "1", "labels": {}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"nodeName": "n"}}


class ApiServer:
    """Answers for the node `says`, has no leases, notes deletions and calls `on_delete` after each."""

    def __init__(self, says: str | None, on_delete: Callable[[], None] = lambda: None) -> None:
        self.says, self.on_delete = says, on_delete
        self.deleted: list[tuple[str, Any, Any]] = []

    async def get(self, kind: Kind, name: str, namespace: str | None = None) -> Object:
        if kind == LEASE or self.says is None:
            raise NotFoundError("no", status=404)
        return node(self.says)

    async def delete(self, kind: Kind, name: str, namespace: str, *, uid: str, grace_s: int) -> None:
        self.deleted.append((name, uid, grace_s))
        self.on_delete()


class Cleaner:
    """A cleaner whose cache has a node that is not ready and `pods` on it."""

    def __init__(self, api: ApiServer, pods: int = 3) -> None:
        self.clock, self.nodes = ManualClock(), Store()
        store = Store(project_pod, POD_INDEXES)
        store.replace(pod(f"p{number:03}") for number in range(pods))
        self.nodes.upsert(node("Unknown"))
        client = cast(KubeClient, api)
        self.is_enabled = True
        self.cleaner = NodeCleaner(client, self.nodes, store, Store(), Store(), self.clock, lambda: self.is_enabled, 40)

    async def reconcile(self) -> Result:
        return await self.cleaner.reconcile(NODE)


@pytest.mark.parametrize("says, removed", [("Unknown", 3), ("False", 3), ("True", 0), (None, 0)])
async def test_the_word_of_the_api_server_counts_not_the_cache(says: str | None, removed: int) -> None:
    api = ApiServer(says)
    test = Cleaner(api)
    test.clock.advance(40)

    assert await test.reconcile() == Result.done()
    assert len(api.deleted) == removed
    assert all((uid, grace_s) == (f"uid-{name}", 0) for name, uid, grace_s in api.deleted)


async def test_before_the_delay_is_over_nothing_is_asked_or_removed() -> None:
    api = ApiServer("Unknown")
    test = Cleaner(api)
    test.clock.advance(15)

    assert await test.reconcile() == Result.after(25)
    assert api.deleted == []


async def test_a_node_that_comes_back_meanwhile_keeps_the_pods_it_still_has() -> None:
    api = ApiServer("Unknown")
    test = Cleaner(api)
    test.clock.advance(40)
    api.on_delete = lambda: cast(None, test.nodes.upsert(node("True")))

    await test.reconcile()

    assert [name for name, _, _ in api.deleted] == ["p000"]


async def test_fault_handling_switched_off_meanwhile_ends_it() -> None:
    api = ApiServer("Unknown")
    test = Cleaner(api)
    test.clock.advance(40)
    api.on_delete = lambda: setattr(test, "is_enabled", False)

    await test.reconcile()

    assert len(api.deleted) == 1


async def test_many_pods_go_at_a_bounded_rate() -> None:
    api = ApiServer("Unknown")
    test = Cleaner(api, BURST + 30)
    test.clock.advance(40)
    started = asyncio.get_running_loop().time()

    await test.reconcile()

    assert len(api.deleted) == BURST + 30
    assert asyncio.get_running_loop().time() - started >= 29 / QPS
