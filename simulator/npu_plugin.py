# SPDX-License-Identifier: Apache-2.0
"""Simulated NPUs: a kubelet device plugin with no device behind it.

Offers `--count` devices `npu-0`... of `--resource` and gives a container the numbers it was allotted in
`ASCEND_VISIBLE_DEVICES`, as the real plugin does. Device ids listed in `/run/npu-bad` (whitespace between)
turn Unhealthy within a second. A kubelet that restarts deletes every plugin's socket; the plugin then
registers again, so it runs one round for each life of the kubelet.
Source: k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1; Seed: deployment manual, NPU resource and environment.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterable
from pathlib import Path

from grpclib.client import Channel
from grpclib.exceptions import GRPCError, StreamTerminatedError
from grpclib.server import Server, Stream

from controller_runtime.foundation.log import configure_logging, get_logger
from simulator.proto import device_plugin_grpc as rpc
from simulator.proto import device_plugin_pb2 as pb

PLUGIN_FOLDER = Path("/var/lib/kubelet/device-plugins")
BAD_DEVICES = Path("/run/npu-bad")
_API_VERSION = "v1beta1"
_SOCKET = "npu.sock"
_PERIOD_S = 0.5
_REGISTER_TIMEOUT_S = 5.0

log = get_logger("npu-plugin")


class NpuPlugin(rpc.DevicePluginBase):
    """The three calls a kubelet makes. `bad`: file with the ids of broken devices; absent means none."""

    def __init__(self, count: int, bad: Path, period_s: float = _PERIOD_S) -> None:
        self._count = count
        self._bad = bad
        self._period_s = period_s

    async def GetDevicePluginOptions(self, stream: Stream[pb.Empty, pb.DevicePluginOptions]) -> None:  # noqa: N802 - wire name
        """No extra calls wanted."""
        await stream.recv_message()
        await stream.send_message(pb.DevicePluginOptions())

    async def ListAndWatch(self, stream: Stream[pb.Empty, pb.ListAndWatchResponse]) -> None:  # noqa: N802 - wire name
        """Send all devices now and after each change of their health."""
        await stream.recv_message()
        sent: frozenset[str] | None = None
        while True:
            broken = broken_devices(self._bad)
            if broken != sent:
                await stream.send_message(pb.ListAndWatchResponse(devices=devices(self._count, broken)))
                sent = broken
            await asyncio.sleep(self._period_s)

    async def Allocate(self, stream: Stream[pb.AllocateRequest, pb.AllocateResponse]) -> None:  # noqa: N802 - wire name
        """Tell each container its device numbers."""
        request = await stream.recv_message()
        wanted = request.container_requests if request is not None else []
        answers = [pb.ContainerAllocateResponse(envs=container_environment(each.devices_ids)) for each in wanted]
        await stream.send_message(pb.AllocateResponse(container_responses=answers))


def devices(count: int, broken: Iterable[str]) -> list[pb.Device]:
    """All devices, in order, with their health."""
    ids = [f"npu-{number}" for number in range(count)]
    return [pb.Device(ID=name, health="Unhealthy" if name in frozenset(broken) else "Healthy") for name in ids]


def container_environment(ids: Iterable[str]) -> dict[str, str]:
    """`ASCEND_VISIBLE_DEVICES`, ascending numbers with commas."""
    numbers = sorted(int(name.removeprefix("npu-")) for name in ids)
    return {"ASCEND_VISIBLE_DEVICES": ",".join(str(number) for number in numbers)}


def broken_devices(file: Path) -> frozenset[str]:
    """Ids in the file; an absent file means all are well."""
    try:
        return frozenset(file.read_text().split())
    except FileNotFoundError:
        return frozenset()


async def serve(folder: Path, resource: str, plugin: NpuPlugin, period_s: float = _PERIOD_S) -> None:
    """Register with each kubelet that appears in `folder`, for ever."""
    while True:
        try:
            born = (folder / "kubelet.sock").stat().st_ino
            await _one_round(folder, resource, plugin, born, period_s)
        except FileNotFoundError:
            pass  # the kubelet is not there, or has just cleared the folder
        except (GRPCError, StreamTerminatedError, OSError, TimeoutError) as err:
            log.warning("round ended", err=repr(err))
        await asyncio.sleep(period_s)


async def _one_round(folder: Path, resource: str, plugin: NpuPlugin, born: int, period_s: float) -> None:
    socket = folder / _SOCKET
    socket.unlink(missing_ok=True)
    server = Server([plugin])
    await server.start(path=str(socket))
    try:
        await _register(folder, resource)
        log.info("devices registered", resource=resource)
        # Files have no event to await: polling is the only way to see a kubelet's new life.
        while socket.exists() and (folder / "kubelet.sock").stat().st_ino == born:  # noqa: ASYNC110 - see above
            await asyncio.sleep(period_s)
    finally:
        server.close()
        await server.wait_closed()


async def _register(folder: Path, resource: str) -> None:
    channel = Channel(path=str(folder / "kubelet.sock"))
    try:
        request = pb.RegisterRequest(version=_API_VERSION, endpoint=_SOCKET, resource_name=resource, options=pb.DevicePluginOptions())
        await rpc.RegistrationStub(channel).Register(request, timeout=_REGISTER_TIMEOUT_S)
    finally:
        channel.close()


def main() -> None:
    """Run until killed."""
    parser = argparse.ArgumentParser(description="Kubelet device plugin for simulated NPUs.")
    parser.add_argument("--resource", default="huawei.com/Ascend910", help="extended resource name")
    parser.add_argument("--count", type=int, default=8, help="number of devices")
    arguments = parser.parse_args()
    configure_logging("npu-plugin")
    asyncio.run(serve(PLUGIN_FOLDER, arguments.resource, NpuPlugin(arguments.count, BAD_DEVICES)))


if __name__ == "__main__":
    main()
