# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
import json
import sys

import pytest

from tests.support.simulators import ROOT, Member, SimulatorPark

pytestmark = pytest.mark.process


async def sim_fault(park: SimulatorPark, server: Member, *arguments: str) -> object:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", "from simulator.fault import main; main()"),
        *(f"--pod-ip={server.ip}", f"--tls-dir={park.tls_dir('mindie-server')}", f"--admin-port={park.ports['admin']}"),
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        cwd=ROOT,
    )
    output, _ = await process.communicate()
    assert process.returncode == 0
    return [fault["kind"] for fault in json.loads(output.splitlines()[0])["faults"]]


async def test_faults_are_put_on_shown_and_healed_from_inside_the_pod(park: SimulatorPark) -> None:
    server = await park.server()

    assert await sim_fault(park, server, "unhealthy", "slow", "--factor=3") == ["unhealthy", "slow"]
    assert (await park.call(server, "management", "GET", "/v2/health/ready", identity="probe")).status == 500
    assert await sim_fault(park, server) == ["unhealthy", "slow"]
    assert await sim_fault(park, server, "--heal") == []
    assert (await park.call(server, "management", "GET", "/v2/health/ready", identity="probe")).status == 200
