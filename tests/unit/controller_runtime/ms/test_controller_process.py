# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.controller_process import ControllerProcess
from tests.support.eventually import eventually
from tests.support.simulators import SimulatorPark, together


@pytest.fixture
async def park(tmp_path: Path) -> AsyncIterator[SimulatorPark]:
    async with SimulatorPark(tmp_path) as park:
        yield park


@pytest.fixture
async def controller(park: SimulatorPark) -> AsyncIterator[ControllerProcess]:
    process = ControllerProcess(park)
    yield process
    await process.kill()


async def test_it_forms_a_cluster_that_answers_requests(park: SimulatorPark, controller: ControllerProcess) -> None:
    prefill, decode, second, coordinator = await together(park.server(), park.server(), park.server(), park.coordinator())
    controller.write_rank_table(coordinators=[coordinator], prefills=[prefill], decodes=[decode, second])

    await controller.start()
    await eventually(controller.is_leading, "the controller leads a serving cluster", 30.0)

    reply = await park.ask(coordinator, "a prompt")
    assert reply.status == 200, reply.body
    assert reply.headers["x-prefill-pod"] == prefill.name
    assert reply.headers["x-decode-pod"] in (decode.name, second.name)
    status = json.loads(controller.process_status_path.read_text())
    assert {entry["ip"]: entry["static_info"]["role"] for entry in status["server"]} == {prefill.ip: 80, decode.ip: 68, second.ip: 68}
    assert await controller.stop() == 0
    assert controller.lines("[Controller]Run: exit")
