# SPDX-License-Identifier: Apache-2.0
"""Real Server processes: links, KV transfer, identities, injected faults."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from controller_runtime.api.roles import CurrentRole, Role, RoleState
from controller_runtime.errors import PeerRefusedError
from controller_runtime.foundation.http_client import HttpResponse
from simulator.completion import expected_text
from tests.support.eventually import eventually
from tests.support.simulators import Member, SimulatorPark, together

pytestmark = pytest.mark.process

PROMPT = "what is a KV cache?"


async def prefill(park: SimulatorPark, server: Member, decode: Member) -> HttpResponse:
    body = {"request_id": "r", "prompt": PROMPT, "decode_id": decode.id}
    return await park.call(server, "data", "POST", "/v1/prefill", body, identity="ms-coordinator")


async def decode(park: SimulatorPark, server: Member, source: Member, reference: str, count: int = 4) -> HttpResponse:
    body = {"request_id": "r", "prompt": PROMPT, "reference": reference, "prefill_id": source.id, "max_tokens": count}
    return await park.call(server, "data", "POST", "/v1/decode", body, identity="ms-coordinator")


def lines(reply: HttpResponse) -> list[dict[str, Any]]:
    return [json.loads(line) for line in reply.body.splitlines()]


async def test_kv_bytes_move_once_over_the_servers_own_link(park: SimulatorPark) -> None:
    source, target = await together(park.server(), park.server())
    await park.link([source], [target])

    reference = json.loads((await prefill(park, source, target)).body)["reference"]
    first = await decode(park, target, source, reference)
    again = await decode(park, target, source, reference)
    invented = await decode(park, target, source, "0" * 32)

    words = [line["word"] for line in lines(first) if "word" in line]
    assert " ".join(words) == expected_text("llama2-70B", PROMPT, 4)
    assert lines(first)[-1] == {"finish": "length"}
    for refused in (again, invented):
        assert (refused.status, json.loads(refused.body)["reason"]) == (404, "unknown_reference")


async def test_only_servers_may_fetch_and_only_what_is_theirs(park: SimulatorPark) -> None:
    source, target, other = await together(park.server(), park.server(), park.server())
    await park.link([source], [target, other])
    reference = json.loads((await prefill(park, source, target)).body)["reference"]
    theirs = {"decode_id": other.id, "reference": reference}
    mine = {"decode_id": target.id, "reference": reference}

    as_coordinator = await park.call(source, "kv", "POST", "/v1/kv", mine, identity="ms-coordinator")
    as_other = await park.call(source, "kv", "POST", "/v1/kv", theirs, identity="mindie-server")
    as_target = await park.call(source, "kv", "POST", "/v1/kv", mine, identity="mindie-server")

    assert (as_coordinator.status, as_other.status, as_target.status) == (403, 404, 200)


async def test_a_server_that_was_not_named_as_peer_gets_no_link(park: SimulatorPark) -> None:
    source, named, stranger = await together(park.server(), park.server(), park.server())
    await park.link([source], [named])

    await park.post_role(stranger, Role.DECODE, [source])

    async def is_refused() -> bool:
        return "is no peer" in (await park.links(stranger))[0].link

    await eventually(is_refused, "the stranger's link is refused")
    assert (await park.status(stranger)).service.role_status is RoleState.SWITCHING


async def test_a_cut_link_shows_at_both_ends_and_stops_requests(park: SimulatorPark) -> None:
    source, target = await together(park.server(), park.server())
    await park.link([source], [target])
    reference = json.loads((await prefill(park, source, target)).body)["reference"]

    await park.set_faults(source, {"kind": "drop-link", "peer": target.id})

    async def is_cut() -> bool:
        links = [*await park.links(source), *await park.links(target)]
        return not any(link.link == "ok" for link in links)

    await eventually(is_cut, "both ends report the cut")
    at_source, at_target = await prefill(park, source, target), await decode(park, target, source, reference)
    for refused in (at_source, at_target):
        assert (refused.status, json.loads(refused.body)["reason"]) == (502, "no_link")

    await park.set_faults(source)
    await park.linked(target, [source])
    await park.linked(source, [target])


async def test_a_dead_peer_is_a_reason_and_a_restarted_one_has_forgotten_its_role(park: SimulatorPark) -> None:
    source, target = await together(park.server(), park.server())
    await park.link([source], [target])

    await park.kill(source)

    async def is_gone() -> bool:
        return "Check that the peer runs" in (await park.links(target))[0].link

    await eventually(is_gone, "the decode Server reports the dead peer")
    await park.restart(source)
    service = (await park.status(source)).service
    assert (service.role_status, service.current_role) == (RoleState.UNKNOWN, CurrentRole.NONE)
    await park.post_role(source, Role.PREFILL, [target])
    await park.linked(target, [source])


async def test_each_port_serves_its_own_callers_only(park: SimulatorPark) -> None:
    server = await park.server()
    calls = {
        ("management", "/v1/config", "ms-controller-request-server"): 200,
        ("management", "/v2/health/ready", "probe"): 200,
        ("management", "/v1/config", "ms-coordinator"): 403,
        ("management", "/v1/config", "smoke"): 403,
        ("data", "/", "ms-coordinator"): 404,
        ("data", "/", "smoke"): 403,
        ("kv", "/", "mindie-server"): 404,
        ("kv", "/", "ms-controller-request-server"): 403,
        ("admin", "/admin/faults", "smoke"): 200,
        ("admin", "/admin/faults", "ms-controller-request-server"): 403,
    }

    answers = {
        (port, path, identity): (await park.call(server, port, "GET", path, identity=identity)).status for port, path, identity in calls
    }

    assert answers == calls


async def test_injected_faults_act_until_they_are_healed(park: SimulatorPark) -> None:
    source, target = await together(park.server(), park.server())
    await park.link([source], [target])

    await park.set_faults(source, {"kind": "error"}, {"kind": "unhealthy"}, {"kind": "refuse-role"})
    health = await park.call(source, "management", "GET", "/v2/health/ready", identity="probe")
    status = await park.call(source, "management", "GET", "/v1/status", identity="ms-controller-request-server")
    role = await park.post_role(source, Role.PREFILL, [target])
    assert [(await prefill(park, source, target)).status, health.status, status.status, role.status] == [500, 500, 500, 500]

    await park.set_faults(source, {"kind": "hang"})
    hanging = asyncio.create_task(prefill(park, source, target))
    done, _ = await asyncio.wait([hanging], timeout=0.3)
    assert not done
    await park.set_faults(source)

    assert (await hanging).status == 200
    assert (await park.status(source)).link_status.active == {target.id}


async def test_slow_multiplies_the_engine_time(park: SimulatorPark) -> None:
    source, target = await together(park.server(), park.server())
    await park.link([source], [target])
    loop = asyncio.get_running_loop()
    await prefill(park, source, target)
    await park.set_faults(source, {"kind": "slow", "factor": 1000})

    start = loop.time()
    await prefill(park, source, target)

    # 70B prefill of a short prompt: about 48 ms on the cards, times scale 0.001, times 1000.
    assert loop.time() - start >= 0.04


async def test_a_forced_stop_ends_the_process_and_a_graceful_one_waits_for_requests(park: SimulatorPark) -> None:
    source, target = await together(park.server(), park.server())
    await park.link([source], [target])
    reference = json.loads((await prefill(park, source, target)).body)["reference"]
    await park.set_faults(target, {"kind": "slow", "factor": 500})
    running = asyncio.create_task(decode(park, target, source, reference, count=8))

    async def is_running() -> bool:
        return (await park.status(target)).resource.running_request_num == 1

    await eventually(is_running, "the request is in work")
    stopping = asyncio.create_task(park.call(target, "management", "GET", "/stopService", identity="probe"))
    answer = await running
    await stopping
    await park.call(source, "management", "GET", "/stopService?mode=Force", identity="ms-controller-request-server")

    assert lines(answer)[-1] == {"finish": "length"}
    for member in (source, target):
        assert member.process is not None
        assert await asyncio.wait_for(member.process.wait(), 10) == 0


async def test_an_identity_of_another_authority_is_refused_in_the_handshake(park: SimulatorPark) -> None:
    server = await park.server()
    foreign = SimulatorPark(park.directory / "foreign")
    async with foreign:
        foreign.ports = park.ports
        with pytest.raises(PeerRefusedError):
            await foreign.call(server, "management", "GET", "/v1/config", identity="ms-controller-request-server")


async def test_a_multi_node_role_names_the_node_by_its_data_parallel_ids(park: SimulatorPark) -> None:
    source, target = await together(park.server(), park.server())

    def end(member: Member) -> dict[str, object]:
        return {"server_ip": member.ip, "host_ip": member.ip, "dp_inst_list": [{"dp_inst_id": member.id * 10000 + 1}]}

    for member, peer, role in ((source, target, "prefill"), (target, source, "decode")):
        body = {"local": [end(member)], "peers": [[end(peer)]]}
        reply = await park.call(member, "management", "POST", f"/v2/role/{role}", body, identity="ms-controller-request-server")
        assert (reply.status, json.loads(reply.body)) == (200, {"result": "ok"})

    await park.linked(source, [target])
    await park.linked(target, [source])
