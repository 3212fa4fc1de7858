# SPDX-License-Identifier: Apache-2.0
"""The plugin against a kubelet's side of the protocol on real sockets; the real kubelet is in tests/lab."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from grpclib.client import Channel
from grpclib.server import Server, Stream

from simulator.npu_plugin import NpuPlugin, container_environment, devices, serve
from simulator.proto import device_plugin_grpc as rpc
from simulator.proto import device_plugin_pb2 as pb
from tests.support.eventually import eventually


class _Kubelet(rpc.RegistrationBase):
    """Notes who registers."""

    def __init__(self) -> None:
        self.seen: list[pb.RegisterRequest] = []

    async def Register(self, stream: Stream[pb.RegisterRequest, pb.Empty]) -> None:  # noqa: N802 - wire name
        request = await stream.recv_message()
        assert request is not None
        self.seen.append(request)
        await stream.send_message(pb.Empty())


def _clear(folder: Path) -> None:
    for file in folder.iterdir():
        file.unlink()


@asynccontextmanager
async def _kubelet_life(folder: Path, kubelet: _Kubelet) -> AsyncIterator[None]:
    """One life of a kubelet: it clears the folder, then serves until it dies without a word."""
    _clear(folder)
    server = Server([kubelet])
    await server.start(path=str(folder / "kubelet.sock"))
    try:
        yield
    finally:
        server.close()
        await server.wait_closed()


@pytest.fixture
async def plugin(tmp_path: Path) -> AsyncIterator[Path]:
    """A running plugin of four devices; yields the folder of sockets. `bad` beside it lists broken devices."""
    folder = tmp_path / "sockets"
    folder.mkdir()
    task = asyncio.create_task(serve(folder, "huawei.com/Ascend910", NpuPlugin(4, tmp_path / "bad", 0.01), 0.01))
    yield folder
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_the_plugin_registers_with_each_life_of_the_kubelet(plugin: Path) -> None:
    kubelet = _Kubelet()
    async with _kubelet_life(plugin, kubelet):
        await eventually(lambda: len(kubelet.seen) == 1, "registered")
    async with _kubelet_life(plugin, kubelet):
        await eventually(lambda: len(kubelet.seen) == 2, "registered again")

    assert {(each.version, each.endpoint, each.resource_name) for each in kubelet.seen} == {("v1beta1", "npu.sock", "huawei.com/Ascend910")}


async def test_a_change_of_health_is_sent_at_once(plugin: Path) -> None:
    kubelet = _Kubelet()
    async with _kubelet_life(plugin, kubelet):
        await eventually(lambda: len(kubelet.seen) == 1, "registered")
        channel = Channel(path=str(plugin / "npu.sock"))
        async with rpc.DevicePluginStub(channel).ListAndWatch.open() as stream:
            await stream.send_message(pb.Empty(), end=True)
            first = await stream.recv_message()
            (plugin.parent / "bad").write_text("npu-2\n")
            second = await stream.recv_message()
            await stream.cancel()
        channel.close()

    assert first is not None
    assert second is not None
    assert [device.health for device in first.devices] == ["Healthy"] * 4
    assert [device.ID for device in second.devices if device.health == "Unhealthy"] == ["npu-2"]


async def test_each_container_is_told_its_own_devices(plugin: Path) -> None:
    kubelet = _Kubelet()
    async with _kubelet_life(plugin, kubelet):
        await eventually(lambda: len(kubelet.seen) == 1, "registered")
        channel = Channel(path=str(plugin / "npu.sock"))
        requests = [pb.ContainerAllocateRequest(devices_ids=ids) for ids in (["npu-3", "npu-1"], ["npu-0"])]
        answer = await rpc.DevicePluginStub(channel).Allocate(pb.AllocateRequest(container_requests=requests))
        channel.close()

    assert [dict(each.envs) for each in answer.container_responses] == [{"ASCEND_VISIBLE_DEVICES": "1,3"}, {"ASCEND_VISIBLE_DEVICES": "0"}]


def test_device_numbers_are_sorted_as_numbers() -> None:
    assert container_environment(["npu-10", "npu-9"]) == {"ASCEND_VISIBLE_DEVICES": "9,10"}


def test_an_unknown_broken_device_is_ignored() -> None:
    assert [device.health for device in devices(2, {"npu-7"})] == ["Healthy", "Healthy"]
