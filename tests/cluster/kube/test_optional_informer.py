# SPDX-License-Identifier: Apache-2.0
"""Informers of kinds that come and go, against a real API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from controller_runtime.kube.client import KubeClient
from controller_runtime.kube.kind import HORIZONTAL_POD_AUTOSCALER, POD_GROUP, Kind, Object, name_of
from controller_runtime.kube.optional_informer import OptionalInformer
from controller_runtime.kube.presence import CrdPresence, DiscoveredPresence
from tests.support import volcano
from tests.support.eventually import eventually

pytestmark = pytest.mark.cluster


@asynccontextmanager
async def running(informer: OptionalInformer) -> AsyncIterator[None]:
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(informer.run(stop))
        try:
            async with asyncio.timeout(30):
                await informer.synced()
            yield
        finally:
            stop.set()


def pod_group(namespace: str, name: str) -> Object:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": POD_GROUP.api_version, "kind": POD_GROUP.kind, "metadata": metadata, "spec": {"minMember": 1}}


async def test_nobody_waits_for_a_kind_that_does_not_exist(client: KubeClient) -> None:
    informer = OptionalInformer(client, POD_GROUP, CrdPresence(client, POD_GROUP))

    async with running(informer):
        assert (informer.is_synced, informer.is_available) == (True, False)


async def test_a_kind_that_is_installed_removed_and_installed_again_is_followed(client: KubeClient, namespace: str) -> None:
    informer = OptionalInformer(client, POD_GROUP, CrdPresence(client, POD_GROUP))
    told: list[bool] = []
    seen: list[str] = []
    informer.on_availability(lambda: told.append(informer.is_available))
    informer.add_handler(lambda old, new: seen.append(f"+{name_of(new)}" if new and not old else f"-{name_of(old)}" if old else ""))
    async with running(informer):
        async with volcano.installed(client):
            await eventually(lambda: informer.is_available, "the kind is noticed", 60)
            await client.create(pod_group(namespace, "one"))
            await eventually(lambda: informer.store.get(namespace, "one") is not None, "its objects are followed", 60)
        await eventually(lambda: not informer.is_available, "its end is noticed", 60)
        assert len(informer.store) == 0

        async with volcano.installed(client):
            await client.create(pod_group(namespace, "two"))
            await eventually(lambda: informer.store.get(namespace, "two") is not None, "the new ones are followed", 60)
            assert informer.store.get(namespace, "one") is None

    assert told[:3] == [True, False, True]
    assert seen[:3] == ["+one", "-one", "+two"]


async def test_an_object_that_was_there_first_is_in_the_store_once_the_kind_is_available(client: KubeClient, namespace: str) -> None:
    async with volcano.installed(client):
        await client.create(pod_group(namespace, "early"))
        informer = OptionalInformer(client, POD_GROUP, CrdPresence(client, POD_GROUP))

        async with running(informer):
            assert informer.is_available
            assert informer.store.get(namespace, "early") is not None


@pytest.mark.parametrize(
    "kind, is_served",
    [
        (HORIZONTAL_POD_AUTOSCALER, True),
        (HORIZONTAL_POD_AUTOSCALER._replace(version="v9"), False),
        (HORIZONTAL_POD_AUTOSCALER._replace(plural="others"), False),
    ],
)
async def test_built_in_kinds_are_found_among_the_resources_of_the_api_server(client: KubeClient, kind: Kind, is_served: bool) -> None:
    informer = OptionalInformer(client, kind, DiscoveredPresence(client, kind))

    async with running(informer):
        assert informer.is_available is is_served
