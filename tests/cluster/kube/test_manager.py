# SPDX-License-Identifier: Apache-2.0
"""Informers, controllers and the lease as one unit, against the real API server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from controller_runtime.errors import DeadlineError, TerminalError
from controller_runtime.kube.client import KubeClient
from controller_runtime.kube.controller import Controller, Result, itself, owner
from controller_runtime.kube.errors import NotFoundError
from controller_runtime.kube.informer import Informer
from controller_runtime.kube.kind import CONFIG_MAP, LEASE, SECRET, Kind, Object, uid_of
from controller_runtime.kube.lease import LeaseElector
from controller_runtime.kube.manager import Manager
from controller_runtime.kube.workqueue import Request
from tests.support.eventually import eventually
from tests.support.objects import config_map

pytestmark = pytest.mark.cluster


class Mirror:
    """Keeps a Secret beside each ConfigMap: a controller as small as can be."""

    def __init__(self, client: KubeClient, namespace: str) -> None:
        self.client = client
        self.config_maps = Informer(client, CONFIG_MAP, namespace)
        self.secrets = Informer(client, SECRET, namespace)
        self.reconciled: list[Request] = []
        self.controller = Controller("mirror", self.reconcile, workers=2)
        self.controller.watch(self.config_maps, itself)
        self.controller.watch(self.secrets, owner(CONFIG_MAP))

    def manager(self, elector: LeaseElector | None = None) -> Manager:
        manager = Manager(self.client, elector)
        manager.add_informer(self.config_maps)
        manager.add_informer(self.secrets)
        manager.add_controller(self.controller)
        return manager

    async def reconcile(self, request: Request) -> Result:
        self.reconciled.append(request)
        source = self.config_maps.store.get(*request)
        if source is None:
            return Result.done()
        if "poison" in source.get("data", {}):
            raise ZeroDivisionError
        if "refused" in source.get("data", {}):
            raise TerminalError("refused")
        await self.client.apply(self.secret_for(source))
        return Result.done()

    def secret_for(self, source: Object) -> Object:
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": source["metadata"]["name"], "uid": uid_of(source), "controller": True}
        metadata = {"namespace": source["metadata"]["namespace"], "name": source["metadata"]["name"], "ownerReferences": [reference]}
        return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": source.get("data", {})}


def exists(client: KubeClient, kind: Kind, name: str, namespace: str) -> Callable[[], Awaitable[bool]]:
    async def ask() -> bool:
        try:
            await client.get(kind, name, namespace)
        except NotFoundError:
            return False
        return True

    return ask


async def test_what_exists_what_comes_and_what_is_removed_by_hand_is_reconciled(client: KubeClient, namespace: str) -> None:
    mirror, stop = Mirror(client, namespace), asyncio.Event()
    await client.create(config_map(namespace, "early", a="1"))
    async with asyncio.TaskGroup() as group:
        group.create_task(mirror.manager().run(stop))
        await eventually(exists(client, SECRET, "early", namespace), "the secret of what existed")
        await client.create(config_map(namespace, "poisoned", poison="1"))
        await client.create(config_map(namespace, "refused", refused="1"))
        await client.create(config_map(namespace, "late", a="1"))
        await eventually(exists(client, SECRET, "late", namespace), "the secret of what came, beside a failing object")

        await client.delete(SECRET, "late", namespace)
        await eventually(exists(client, SECRET, "late", namespace), "the secret again")
        await eventually(lambda: mirror.controller.queue.failures(Request(namespace, "poisoned")) >= 3, "retries of the failing object")
        stop.set()

    assert mirror.reconciled.count(Request(namespace, "refused")) == 1
    await client.create(config_map(namespace, "after-stop"))
    assert not await exists(client, SECRET, "after-stop", namespace)()


async def test_a_standby_is_warm_but_idle_until_the_leader_stops(client: KubeClient, namespace: str) -> None:
    await client.create(config_map(namespace, "one"))
    mirrors = [Mirror(client, namespace) for _ in range(2)]
    electors = [LeaseElector(client, namespace, "mirror", name, duration_s=15, renew_deadline_s=10, retry_s=0.1) for name in "ab"]
    managers = [mirror.manager(elector) for mirror, elector in zip(mirrors, electors, strict=True)]
    stops = [asyncio.Event(), asyncio.Event()]
    async with asyncio.TaskGroup() as group:
        for manager, stop in zip(managers, stops, strict=True):
            group.create_task(manager.run(stop))
        await eventually(exists(client, SECRET, "one", namespace), "the leader's work")
        await eventually(lambda: all(manager.is_synced for manager in managers), "warm caches")
        leader = next(number for number in (0, 1) if managers[number].is_leading)
        standby = 1 - leader
        assert not managers[standby].is_leading
        assert mirrors[standby].reconciled == []

        stops[leader].set()
        await eventually(lambda: mirrors[standby].reconciled != [], "the successor's work", timeout_s=10)
        stops[standby].set()
    assert (await client.get(LEASE, "mirror", namespace))["spec"]["holderIdentity"] == ""


async def test_a_type_that_is_not_installed_ends_the_manager_with_its_name(client: KubeClient) -> None:
    manager = Manager(client, sync_timeout_s=0.5)
    manager.add_informer(Informer(client, Kind("example.com", "v1", "Absent", "absents")))

    with pytest.raises(ExceptionGroup) as caught:
        await manager.run(asyncio.Event())

    assert caught.group_contains(DeadlineError, match="Absent")
