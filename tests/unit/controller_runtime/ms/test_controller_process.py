# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.controller_process import ControllerProcess
from tests.support.eventually import eventually
from tests.support.simulators import Member, SimulatorPark, together

pytestmark = pytest.mark.process

WITHIN_S = 30.0


@pytest.fixture
async def park(tmp_path: Path) -> AsyncIterator[SimulatorPark]:
    async with SimulatorPark(tmp_path) as park:
        yield park


@pytest.fixture
async def controller(park: SimulatorPark) -> AsyncIterator[ControllerProcess]:
    process = ControllerProcess(park)
    yield process
    await process.kill()


async def small_cluster(park: SimulatorPark) -> tuple[Member, Member, Member]:
    """A prefill Server, a decode Server and a Coordinator."""
    prefill, decode, coordinator = await together(park.server(), park.server(), park.coordinator())
    return prefill, decode, coordinator


async def leads(controller: ControllerProcess) -> None:
    await eventually(controller.is_leading, "the controller leads a serving cluster", WITHIN_S)


def waits_for(controller: ControllerProcess, what: str) -> Any:
    """A condition: the controller is not ready and says that it waits for this."""

    async def condition() -> bool:
        said = await controller.readiness()
        return (said["code"], said["state"]) == (503, "initialising") and what in said["message"]

    return condition


def answers(park: SimulatorPark, coordinator: Member, decodes: set[str]) -> Any:
    """A condition: requests are answered and reach exactly these decode Servers."""

    async def condition() -> bool:
        replies = [await park.ask(coordinator, f"prompt {number}") for number in range(8)]
        return {reply.headers.get("x-decode-pod") for reply in replies} == decodes

    return condition


async def test_it_forms_a_cluster_that_answers_requests(park: SimulatorPark, controller: ControllerProcess) -> None:
    prefill, decode, second, coordinator = await together(park.server(), park.server(), park.server(), park.coordinator())
    controller.write_rank_table(coordinators=[coordinator], prefills=[prefill], decodes=[decode, second])

    await controller.start()
    await leads(controller)

    reply = await park.ask(coordinator, "a prompt")
    assert reply.status == 200, reply.body
    assert reply.headers["x-prefill-pod"] == prefill.name
    await eventually(answers(park, coordinator, {decode.name, second.name}), "both decode Servers are used", WITHIN_S)
    status = json.loads(controller.process_status_path.read_text())
    assert {entry["ip"]: entry["static_info"]["role"] for entry in status["server"]} == {prefill.ip: 80, decode.ip: 68, second.ip: 68}
    assert await controller.stop() == 0
    assert controller.lines("[Controller]Run: exit")


async def test_it_waits_for_a_completed_table_while_its_probes_answer(park: SimulatorPark, controller: ControllerProcess) -> None:
    await controller.start()
    await eventually(waits_for(controller, "No such file"), "it waits for the file", WITHIN_S)
    assert (await controller.get("/v1/health")).status == 200

    prefill, decode, coordinator = await small_cluster(park)
    controller.write_rank_table(coordinators=[coordinator], prefills=[prefill], decodes=[decode], status="initializing")
    await eventually(waits_for(controller, "not completed"), "it waits for the table to be completed", WITHIN_S)
    controller.write_rank_table(coordinators=[coordinator], prefills=[prefill], decodes=[decode])
    await leads(controller)


async def test_a_restarted_controller_takes_the_cluster_over_without_touching_it(
    park: SimulatorPark, controller: ControllerProcess
) -> None:
    prefill, decode, coordinator = await small_cluster(park)
    controller.write_rank_table(coordinators=[coordinator], prefills=[prefill], decodes=[decode])
    await controller.start()
    await leads(controller)
    posts = len(controller.lines("role accepted"))
    await controller.kill()

    await controller.start()
    await leads(controller)

    assert len(controller.lines("role accepted")) == posts
    assert controller.lines("roles taken over from the backup")
    assert (await park.ask(coordinator, "still there")).status == 200


async def test_without_its_backup_a_controller_takes_the_roles_from_the_servers(park: SimulatorPark, controller: ControllerProcess) -> None:
    prefill, decode, coordinator = await small_cluster(park)
    controller.write_rank_table(coordinators=[coordinator], prefills=[prefill], decodes=[decode])
    await controller.start()
    await leads(controller)
    posts = len(controller.lines("role accepted"))
    await controller.kill()
    controller.process_status_path.write_text("{ broken")

    await controller.start()
    await leads(controller)

    assert controller.lines("no backup, roles rebuilt from the servers")
    assert len(controller.lines("role accepted")) == posts


async def test_a_restarted_server_serves_again(park: SimulatorPark, controller: ControllerProcess) -> None:
    prefill, decode, coordinator = await small_cluster(park)
    controller.write_rank_table(coordinators=[coordinator], prefills=[prefill], decodes=[decode])
    await controller.start()
    await leads(controller)

    await park.kill(decode)

    async def is_degraded() -> bool:
        return (await controller.readiness())["state"] == "degraded"

    await eventually(is_degraded, "nobody decodes", WITHIN_S)
    await park.restart(decode)

    await leads(controller)
    await eventually(answers(park, coordinator, {decode.name}), "requests are answered again", WITHIN_S)


async def test_servers_join_and_leave_with_the_table_while_others_serve(park: SimulatorPark, controller: ControllerProcess) -> None:
    prefill, decode, newcomer, coordinator = await together(park.server(), park.server(), park.server(), park.coordinator())
    controller.write_rank_table(coordinators=[coordinator], prefills=[prefill], decodes=[decode])
    await controller.start()
    await leads(controller)

    controller.write_rank_table(coordinators=[coordinator], prefills=[prefill], decodes=[decode, newcomer])
    await eventually(answers(park, coordinator, {decode.name, newcomer.name}), "the newcomer serves", WITHIN_S)

    controller.write_rank_table(coordinators=[coordinator], prefills=[prefill], decodes=[newcomer])
    await eventually(answers(park, coordinator, {newcomer.name}), "only the newcomer serves", WITHIN_S)

    def is_noted() -> bool:
        status = json.loads(controller.process_status_path.read_text())
        return [entry["delete_time"] > 0 for entry in status["server"] if entry["ip"] == decode.ip] == [True]

    await eventually(is_noted, "the file says when it left", WITHIN_S)

    controller.write_rank_table(coordinators=[coordinator], prefills=[prefill], decodes=[decode, newcomer])
    await eventually(answers(park, coordinator, {decode.name, newcomer.name}), "the first one is back", WITHIN_S)


async def test_a_dead_server_does_not_keep_the_others_from_serving(park: SimulatorPark, controller: ControllerProcess) -> None:
    prefill, decode, dead, coordinator = await together(park.server(), park.server(), park.server(), park.coordinator())
    await park.kill(dead)
    controller.write_rank_table(coordinators=[coordinator], prefills=[prefill], decodes=[decode, dead])

    await controller.start()
    await leads(controller)
    await eventually(answers(park, coordinator, {decode.name}), "the living ones serve", WITHIN_S)

    await park.restart(dead)
    await eventually(answers(park, coordinator, {decode.name, dead.name}), "the late one serves too", WITHIN_S)


async def test_without_fixed_roles_the_rates_decide(park: SimulatorPark) -> None:
    first, second, third, coordinator = await together(park.server(), park.server(), park.server(), park.coordinator())
    controller = ControllerProcess(park, is_heterogeneous=False, default_p_rate=1, default_d_rate=2)
    controller.write_rank_table(coordinators=[coordinator], prefills=[first], decodes=[second, third])

    await controller.start()
    await leads(controller)

    assert [line["role"] for line in controller.lines("[NodeStatus]UpdateServerInfo")] == ["P", "D", "D"]
    await eventually(answers(park, coordinator, {second.name, third.name}), "both decode Servers serve", WITHIN_S)
    await controller.kill()


async def test_labels_carry_the_roles_of_multi_node_instances(park: SimulatorPark) -> None:
    first, second, coordinator = await together(park.server(), park.server(), park.coordinator())
    side = {"enable_dist_dp_server": False, "node_machine_num": 1, "tp_size": 1, "dp_size": 1, "sp_size": 1}
    multi_node = {"multi_node_infer_enable": True, "p_node_config": side, "d_node_config": side}
    controller = ControllerProcess(park, is_heterogeneous=False, multi_node_infer_config=multi_node)
    controller.write_instances(coordinators=[coordinator], prefills=[second], decodes=[first])

    await controller.start()
    await leads(controller)

    reply = await park.ask(coordinator, "a prompt")
    assert (reply.headers["x-prefill-pod"], reply.headers["x-decode-pod"]) == (second.name, first.name)
    await controller.kill()


async def test_without_roles_every_server_is_published(park: SimulatorPark) -> None:
    first, second, coordinator = await together(park.server(), park.server(), park.coordinator())
    controller = ControllerProcess(park, is_heterogeneous=False, deploy_mode="single_node")
    controller.write_rank_table(coordinators=[coordinator], prefills=[first], decodes=[second])

    await controller.start()
    await leads(controller)

    assert controller.lines("published servers changed")[-1]["count"] == 2
    assert not controller.lines("role accepted")
    status = json.loads(controller.process_status_path.read_text())
    assert [(entry["is_initialized"], entry["static_info"]["role"]) for entry in status["server"]] == [(False, 85), (False, 85)]
    await controller.kill()


@pytest.mark.parametrize(("change", "check_code", "run_code"), [({}, 0, None), ({"transfer_type": "x"}, 78, 1)])
async def test_a_bad_configuration_ends_with_the_manuals_code_and_the_check_with_its_own(
    park: SimulatorPark, change: dict[str, Any], check_code: int, run_code: int | None
) -> None:
    controller = ControllerProcess(park, **change)

    assert await (await controller.spawn("--check-config")).wait() == check_code
    if run_code is not None:
        assert await (await controller.spawn()).wait() == run_code
        assert controller.lines("[Exit] Exit because of initializing failure")
