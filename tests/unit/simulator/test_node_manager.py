# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
import json

import pytest

from controller_runtime.api.roles import Role
from tests.support.eventually import eventually
from tests.support.simulators import Member, SimulatorPark, together

pytestmark = pytest.mark.process

CONTROLLER = "ms-controller-request-server"


async def running_status(park: SimulatorPark, manager: Member) -> tuple[int, str]:
    reply = await park.call(manager, "node_manager", "GET", "/v1/node-manager/running-status", identity=CONTROLLER)
    return reply.status, json.loads(reply.body)["status"]


async def command(park: SimulatorPark, manager: Member, name: str) -> int:
    path = "/v1/node-manager/fault-handling-command"
    return (await park.call(manager, "node_manager", "POST", path, {"cmd": name}, identity=CONTROLLER)).status


async def reaches(park: SimulatorPark, manager: Member, status: str, code: int = 200) -> None:
    async def is_reached() -> bool:
        return await running_status(park, manager) == (code, status)

    await eventually(is_reached, f"the node manager says {status}")


async def test_an_engine_is_paused_repaired_and_started_again(park: SimulatorPark) -> None:
    server, peer = await together(park.server(), park.server())
    manager = await park.node_manager(server)
    await park.link([server], [peer])
    await reaches(park, manager, "normal")

    assert await command(park, manager, "PAUSE_ENGINE") == 200
    assert await running_status(park, manager) == (200, "pause")
    body = {"request_id": "r", "prompt": "p", "decode_id": peer.id}
    refused = await park.call(server, "data", "POST", "/v1/prefill", body, identity="ms-coordinator")
    assert (refused.status, json.loads(refused.body)["reason"]) == (503, "paused")
    assert await command(park, manager, "REINIT_NPU") == 200
    await reaches(park, manager, "ready")
    assert await command(park, manager, "START_ENGINE") == 200

    assert await running_status(park, manager) == (200, "normal")
    assert (await park.call(server, "data", "POST", "/v1/prefill", body, identity="ms-coordinator")).status == 200


async def test_stop_ends_the_server_and_is_reported_as_abnormal(park: SimulatorPark) -> None:
    server = await park.server()
    manager = await park.node_manager(server)
    await reaches(park, manager, "normal")

    assert await command(park, manager, "STOP_ENGINE") == 200

    assert server.process is not None
    assert await asyncio.wait_for(server.process.wait(), 10) == 0
    await reaches(park, manager, "abnormal", 210)
    await park.restart(server)
    await reaches(park, manager, "normal")
    assert (await park.post_role(server, Role.PREFILL, [])).status == 200


async def test_a_sick_server_is_abnormal_and_an_unknown_command_is_refused(park: SimulatorPark) -> None:
    server = await park.server()
    manager = await park.node_manager(server)
    await reaches(park, manager, "normal")

    assert await command(park, manager, "DANCE") == 400
    await park.set_faults(server, {"kind": "unhealthy"})

    await reaches(park, manager, "abnormal", 210)
