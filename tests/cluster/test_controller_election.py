# SPDX-License-Identifier: Apache-2.0
"""Leader and standby controllers as processes, on a real etcd, over simulated Servers."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from controller_runtime.etcd.client import EtcdClient
from tests.support.controller_process import ControllerProcess
from tests.support.etcd_server import EtcdCluster
from tests.support.eventually import eventually
from tests.support.simulators import SimulatorPark, together

pytestmark = pytest.mark.cluster

WITHIN_S = 30.0


@pytest.fixture
def etcd(tmp_path: Path) -> Iterator[EtcdCluster]:
    (tmp_path / "etcd").mkdir()
    with EtcdCluster(tmp_path / "etcd") as cluster:
        yield cluster


@pytest.fixture
async def park(tmp_path: Path) -> AsyncIterator[SimulatorPark]:
    async with SimulatorPark(tmp_path) as park:
        yield park


@pytest.fixture
async def pair(park: SimulatorPark, etcd: EtcdCluster) -> AsyncIterator[tuple[ControllerProcess, ControllerProcess]]:
    """Two controllers on their own addresses, with quick leases."""
    host, port = etcd.endpoints[0].removeprefix("https://").split(":")
    backup = {
        "function_sw": True,
        "database_server_dns": host,
        "database_server_port": int(port),
        "lease_ttl_seconds": 3,
        "lease_renew_seconds": 1,
    }
    made = [
        ControllerProcess(park, ip=ip, etcd_tls=etcd.identity_directory("controller-mindie"), controller_backup_cfg=backup)
        for ip in ("127.0.0.11", "127.0.0.12")
    ]
    for controller in made:
        controller.environment["POD_NAMESPACE"] = "mindie"
    yield made[0], made[1]
    for controller in made:
        await controller.kill()


async def test_the_standby_takes_over_a_dead_leader_without_touching_the_servers(
    park: SimulatorPark, etcd: EtcdCluster, pair: tuple[ControllerProcess, ControllerProcess]
) -> None:
    first, second = pair
    prefill, decode, coordinator = await together(park.server(), park.server(), park.coordinator())
    first.write_rank_table(coordinators=[coordinator], prefills=[prefill], decodes=[decode])
    await first.start()
    await eventually(first.is_leading, "the first leads", WITHIN_S)
    await second.start()
    assert (await second.readiness())["state"] == "standby"
    assert first.lines("[TryRenewLease]Renewed lease")
    async with EtcdClient(etcd.endpoints, etcd.identity("reader")) as client:
        lock, data = await client.get("/mindie/cluster/leader-lock"), await client.get("/mindie/controller/node-data")
    assert lock is not None
    assert lock.value == b"127.0.0.11"
    assert data is not None

    await first.kill()

    await eventually(second.is_leading, "the second leads", WITHIN_S)
    assert not second.lines("role accepted")
    assert second.lines("roles taken over from the backup")
    assert (await park.ask(coordinator, "still there")).status == 200


async def test_a_leader_that_stops_cleanly_hands_over_at_once_and_a_paused_one_steps_down(
    park: SimulatorPark, pair: tuple[ControllerProcess, ControllerProcess]
) -> None:
    first, second = pair
    prefill, decode, coordinator = await together(park.server(), park.server(), park.coordinator())
    first.write_rank_table(coordinators=[coordinator], prefills=[prefill], decodes=[decode])
    await first.start()
    await eventually(first.is_leading, "the first leads", WITHIN_S)
    await second.start()

    assert await first.stop() == 0
    await eventually(second.is_leading, "the second leads", WITHIN_S)

    await first.start()
    assert second.process is not None
    second.process.send_signal(signal.SIGSTOP)
    await eventually(first.is_leading, "the first leads again", WITHIN_S)
    second.process.send_signal(signal.SIGCONT)

    async def has_stepped_down() -> bool:
        return (await second.readiness())["state"] == "standby"

    await eventually(has_stepped_down, "the paused one is standby", WITHIN_S)
    assert await first.is_leading()
