# SPDX-License-Identifier: Apache-2.0
"""Informers against the real API server, through a network that breaks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from controller_runtime.foundation.backoff import Backoff
from controller_runtime.foundation.metrics import REGISTRY
from controller_runtime.kube.client import KubeClient
from controller_runtime.kube.config import load_config
from controller_runtime.kube.informer import Informer
from controller_runtime.kube.kind import CONFIG_MAP, CRD, Kind, Object, name_of
from tests.support.control_plane import ControlPlane
from tests.support.eventually import eventually
from tests.support.objects import config_map
from tests.support.tcp_gate import TcpGate

pytestmark = pytest.mark.cluster


class Diary:
    """What handlers were told: `+name`, `~name`, `-name`."""

    def __init__(self, informer: Informer) -> None:
        self.lines: list[str] = []
        informer.add_handler(self.note)

    def note(self, old: Object | None, new: Object | None) -> None:
        sign = "+" if old is None else "-" if new is None else "~"
        self.lines.append(sign + name_of(new or old or {}))


@asynccontextmanager
async def running(informer: Informer) -> AsyncIterator[Informer]:
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(informer.run(stop))
        try:
            async with asyncio.timeout(30):
                await informer.synced()
            yield informer
        finally:
            stop.set()


@pytest.fixture
async def gate(control_plane: ControlPlane) -> AsyncIterator[TcpGate]:
    async with TcpGate.before(control_plane.url) as gate:
        yield gate


@pytest.fixture
async def distant(control_plane: ControlPlane, gate: TcpGate, tmp_path: Path) -> AsyncIterator[KubeClient]:
    """A client behind the gate that loses patience with a silent watch after a second and a half."""
    kubeconfig = tmp_path / "distant"
    kubeconfig.write_bytes(control_plane.kubeconfig_for("distant", organization="system:masters", server=gate.url))
    client = KubeClient(load_config(str(kubeconfig)), watch_idle_s=1.5)
    yield client
    await client.close()


def informer_of(client: KubeClient, namespace: str, **options: object) -> Informer:
    return Informer(client, CONFIG_MAP, namespace, backoff=Backoff(0.05, 0.2), **options)  # type: ignore[arg-type]  # of the constructor


def lists() -> float:
    return REGISTRY.get_sample_value("kube_reflector_lists_total", {"kind": "ConfigMap"}) or 0.0


async def test_handlers_hear_of_create_update_and_delete_in_order(client: KubeClient, namespace: str) -> None:
    await client.create(config_map(namespace, "early"))
    informer = informer_of(client, namespace)
    diary = Diary(informer)
    async with running(informer):
        await client.create(config_map(namespace, "late"))
        await client.apply(config_map(namespace, "late", a="1"))
        await client.delete(CONFIG_MAP, "late", namespace)
        await eventually(lambda: len(diary.lines) == 4, "four changes")

    assert diary.lines == ["+early", "+late", "~late", "-late"]
    assert [name_of(obj) for obj in informer.store.all()] == ["early"]


async def test_only_selected_objects_are_seen_and_relabelling_removes_them(client: KubeClient, namespace: str) -> None:
    informer = informer_of(client, namespace, label_selector="mine")
    diary = Diary(informer)
    async with running(informer):
        await client.create(config_map(namespace, "other"))
        await client.create(config_map(namespace, "ours", labels={"mine": "yes"}))
        await client.patch(CONFIG_MAP, "ours", namespace, {"metadata": {"labels": {"mine": None}}})
        await eventually(lambda: len(diary.lines) == 2, "two changes")

    assert diary.lines == ["+ours", "-ours"]


async def test_a_cut_watch_resumes_without_a_new_list(client: KubeClient, distant: KubeClient, gate: TcpGate, namespace: str) -> None:
    informer = informer_of(distant, namespace)
    diary = Diary(informer)
    async with running(informer):
        await client.create(config_map(namespace, "before"))
        await eventually(lambda: diary.lines == ["+before"], "the object before the cut")
        listed = lists()

        await gate.cut()
        await client.create(config_map(namespace, "during"))
        await client.delete(CONFIG_MAP, "before", namespace)
        await gate.restore()

        await eventually(lambda: len(diary.lines) == 3, "both changes of the dark time")
    assert diary.lines == ["+before", "+during", "-before"]
    assert lists() == listed


async def test_a_silent_connection_is_given_up_and_resumed(client: KubeClient, distant: KubeClient, gate: TcpGate, namespace: str) -> None:
    informer = informer_of(distant, namespace)
    diary = Diary(informer)
    async with running(informer):
        await client.create(config_map(namespace, "before"))
        await eventually(lambda: diary.lines == ["+before"], "the object before the silence")

        gate.stall()
        await client.create(config_map(namespace, "during"))

        await eventually(lambda: diary.lines == ["+before", "+during"], "the object created in silence")


async def test_a_stopped_informer_does_not_wait_for_a_silent_peer_to_say_goodbye(
    client: KubeClient, distant: KubeClient, gate: TcpGate, namespace: str
) -> None:
    informer = informer_of(distant, namespace)
    diary = Diary(informer)
    async with running(informer):
        await client.create(config_map(namespace, "seen"))
        await eventually(lambda: diary.lines == ["+seen"], "the watch is open")
        gate.stall()

    await distant.close()

    await eventually(lambda: gate.links == 0, "all connections are closed", timeout_s=5)


async def test_changes_after_a_restart_of_the_api_server_are_seen(client: KubeClient, control_plane: ControlPlane, namespace: str) -> None:
    informer = informer_of(client, namespace)
    diary = Diary(informer)
    async with running(informer):
        await client.create(config_map(namespace, "before"))
        await eventually(lambda: diary.lines == ["+before"], "the object before the restart")

        control_plane.restart_api_server()
        control_plane.kubectl("create", "configmap", "after", f"--namespace={namespace}")

        await eventually(lambda: diary.lines == ["+before", "+after"], "the object after the restart")


async def test_deletes_hidden_by_a_compaction_are_told_after_the_new_list(
    client: KubeClient, distant: KubeClient, gate: TcpGate, control_plane: ControlPlane, namespace: str
) -> None:
    for name in ("stays", "changes", "goes", "reborn"):
        await client.create(config_map(namespace, name))
    informer = informer_of(distant, namespace)
    async with running(informer):
        diary = Diary(informer)
        diary.lines.clear()
        listed = lists()

        await gate.cut()
        await client.apply(config_map(namespace, "changes", a="1"))
        await client.delete(CONFIG_MAP, "goes", namespace)
        await client.delete(CONFIG_MAP, "reborn", namespace)
        await client.create(config_map(namespace, "reborn"))
        await client.create(config_map(namespace, "comes"))
        control_plane.compact()
        control_plane.restart_api_server()
        await gate.restore()

        await eventually(lambda: len(diary.lines) >= 5, "the changes of the lost history")
    assert lists() == listed + 1
    assert sorted(diary.lines) == sorted(["~changes", "+comes", "-goes", "-reborn", "+reborn"])
    assert diary.lines.index("-reborn") < diary.lines.index("+reborn")


async def test_an_informer_of_a_missing_type_waits_for_it(client: KubeClient) -> None:
    informer = Informer(client, Kind("example.com", "v1", "Late", "lates"), backoff=Backoff(0.05, 0.2))
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(informer.run(stop))
        try:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.5):
                    await informer.synced()
            await client.create(late_crd())
            async with asyncio.timeout(30):
                await informer.synced()
        finally:
            stop.set()
    await client.delete(CRD, "lates.example.com")


def late_crd() -> Object:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "lates.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "lates", "singular": "late", "kind": "Late", "listKind": "LateList"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }
