# SPDX-License-Identifier: Apache-2.0
"""Real Coordinator and Server processes: readiness, formats, retries, errors, management."""

from __future__ import annotations

import asyncio
import json
import signal
from contextlib import aclosing
from typing import Any

import pytest

from simulator.completion import expected_text
from tests.support.eventually import eventually
from tests.support.simulators import Member, SimulatorPark, together

pytestmark = pytest.mark.process

MODEL = "llama2-70B"
CHAT = "/v1/chat/completions"


async def readiness(park: SimulatorPark, coordinator: Member) -> int:
    return (await park.call(coordinator, "status", "GET", "/v1/readiness", identity="probe")).status


async def manage(park: SimulatorPark, coordinator: Member, method: str, path: str, body: object | None = None) -> Any:
    reply = await park.call(coordinator, "coordinator", method, path, body, identity="ms-controller-request-coordinator")
    assert reply.status == 200, reply.body
    return json.loads(reply.body)


def events(raw: list[bytes]) -> list[Any]:
    texts = [line.removeprefix(b"data: ").strip() for line in raw if line.startswith(b"data: ")]
    return [json.loads(text) for text in texts if text != b"[DONE]"]


async def test_ready_means_that_a_pair_is_linked(park: SimulatorPark) -> None:
    source, target, coordinator = await together(park.server(), park.server(), park.coordinator())
    assert await readiness(park, coordinator) == 503
    startup = await park.call(coordinator, "status", "GET", "/v1/startup", identity="probe")
    assert startup.status == 200

    await park.link([source], [target])
    await park.refresh(coordinator)
    assert await readiness(park, coordinator) == 200
    await park.refresh(coordinator, without=[target])

    assert await readiness(park, coordinator) == 503


async def test_without_a_pair_the_answer_says_so(park: SimulatorPark) -> None:
    coordinator = await park.coordinator()

    reply = await park.ask(coordinator, "hello")

    error = json.loads(reply.body)["error"]
    assert (reply.status, error["code"]) == (503, "no_pair")
    assert "No prefill and decode Server are linked (0 Servers known)" in error["message"]


async def test_every_format_streams_word_by_word_and_ends_with_the_trace(park: SimulatorPark) -> None:
    source, target, coordinator = await together(park.server(), park.server(), park.coordinator())
    await park.link([source], [target])
    await park.refresh(coordinator)
    bodies: dict[str, dict[str, object]] = {
        CHAT: {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 5},
        "/v1/completions": {"prompt": "hi", "max_tokens": 5},
        "/infer": {"inputs": "hi", "parameters": {"max_new_tokens": 5}},
    }

    raw = {path: [line async for line in park.ask_stream(coordinator, path, body)] for path, body in bodies.items()}
    found = {path: events(lines) for path, lines in raw.items()}

    texts = {
        CHAT: [event["choices"][0]["delta"]["content"] for event in found[CHAT]],
        "/v1/completions": [event["choices"][0]["text"] for event in found["/v1/completions"]],
        "/infer": [event["token"]["text"] for event in found["/infer"]],
    }
    assert "".join(texts[CHAT]) == expected_text(MODEL, "user: hi", 5)
    assert "".join(texts["/v1/completions"]) == "".join(texts["/infer"]) == expected_text(MODEL, "hi", 5)
    for path, lines in raw.items():
        assert len(found[path]) == 6
        assert lines[-2:] == [b"data: [DONE]\n", b"\n"]
        assert (found[path][-1]["trace"]["prefill"]["pod"], found[path][-1]["trace"]["decode"]["pod"]) == (source.name, target.name)


async def test_a_failing_server_costs_a_retry_and_not_the_request(park: SimulatorPark) -> None:
    bad, good, target, coordinator = await together(park.server(), park.server(), park.server(), park.coordinator())
    await park.link([bad, good], [target])
    await park.refresh(coordinator)
    await park.set_faults(bad, {"kind": "error"})

    replies = [await park.ask(coordinator, f"question {number}") for number in range(4)]
    await park.kill(bad)
    replies += [await park.ask(coordinator, f"question {number}") for number in range(4, 8)]

    assert {reply.headers["x-prefill-pod"] for reply in replies} == {good.name}
    texts = [json.loads(reply.body)["choices"][0]["text"] for reply in replies]
    assert texts == [expected_text(MODEL, f"question {number}", 8) for number in range(8)]


async def test_a_stream_goes_on_without_a_gap_when_its_decode_server_dies(park: SimulatorPark) -> None:
    source, one, two, coordinator = await together(park.server(), park.server(), park.server(), park.coordinator())
    await park.link([source], [one, two])
    await park.refresh(coordinator)
    for server in (one, two):
        await park.set_faults(server, {"kind": "slow", "factor": 300})
    words: list[str] = []
    killed = False
    async for line in park.ask_stream(coordinator, "/v1/completions", {"prompt": "a long story", "max_tokens": 60}):
        found = events([line])
        if not found:
            continue
        words.append(found[0]["choices"][0]["text"])
        if len(words) == 10 and not killed:
            killed = True
            status = {server.name: await park.status(server) for server in (one, two)}
            busy = next(server for server in (one, two) if status[server.name].resource.running_request_num)
            await park.kill(busy)

    assert killed
    assert "".join(words) == expected_text(MODEL, "a long story", 60)


async def test_when_every_pair_fails_the_answer_names_the_reason(park: SimulatorPark) -> None:
    source, target, coordinator = await together(park.server(), park.server(), park.coordinator())
    await park.link([source], [target])
    await park.refresh(coordinator)
    await park.set_faults(target, {"kind": "drop-link"})

    async def is_refused() -> bool:
        return (await park.ask(coordinator, "hello")).status == 503

    await eventually(is_refused, "requests fail once the link is cut")
    error = json.loads((await park.ask(coordinator, "hello")).body)["error"]
    assert error["code"] == "all_pairs_failed"
    assert "no_link" in error["message"]
    assert "KV link to" in error["attempts"][0]


async def test_a_request_that_is_wrong_is_not_retried(park: SimulatorPark) -> None:
    source, target, coordinator = await together(park.server(), park.server(), park.coordinator())
    await park.link([source], [target])
    await park.refresh(coordinator)

    too_long = await park.ask(coordinator, "x" * 20_000)
    not_json = await park.client("smoke").request(
        "POST", f"https://{coordinator.ip}:{park.ports['predict']}/v1/completions", body=b"{", expect_sans=["ms-coordinator.*"]
    )

    assert (too_long.status, json.loads(too_long.body)["error"]["code"]) == (400, "bad_request")
    assert (not_json.status, json.loads(not_json.body)["error"]["code"]) == (400, "bad_request")
    metrics = await park.call(coordinator, "external", "GET", "/metrics", identity="ms-controller-external-coordinator")
    assert b"sim_coordinator_retries 0.0" in metrics.body


async def test_the_controller_sees_tasks_lengths_and_can_drain_a_server(park: SimulatorPark) -> None:
    source, target, coordinator = await together(park.server(), park.server(), park.coordinator())
    await park.link([source], [target])
    await park.refresh(coordinator)
    await park.set_faults(target, {"kind": "hang"})
    asked = asyncio.create_task(park.ask(coordinator, "x" * 402, max_tokens=6))

    async def tasks(*ids: int) -> list[int]:
        query = "&".join(f"id={id_}" for id_ in ids)
        found: list[int] = (await manage(park, coordinator, "GET", f"/v1/instances/tasks?{query}"))["tasks"]
        return found

    async def is_in_work() -> bool:
        return await tasks(source.id, target.id, 5) == [1, 1, -1]

    pair = {"p_id": source.id, "d_id": target.id, "role_change_type": 0}
    await eventually(is_in_work, "the request is in work")
    assert await manage(park, coordinator, "POST", "/v1/instances/query_tasks", pair) == {"is_end": False}
    await manage(park, coordinator, "POST", "/v1/instances/offline", {"ids": [source.id]})
    assert await readiness(park, coordinator) == 503
    await park.set_faults(target)
    assert (await asked).status == 200

    assert await tasks(source.id, target.id) == [0, 0]
    assert await manage(park, coordinator, "POST", "/v1/instances/query_tasks", pair) == {"is_end": True}
    await manage(park, coordinator, "POST", "/v1/instances/online", {"ids": [source.id]})
    assert await readiness(park, coordinator) == 200
    info = await manage(park, coordinator, "GET", "/v1/coordinator_info")
    assert info["request_length_info"] == {"input_len": 100, "output_len": 6}
    assert {entry["id"] for entry in info["schedule_info"]} == {source.id, target.id}


async def test_of_two_coordinators_only_the_master_is_ready(park: SimulatorPark) -> None:
    source, target, coordinator = await together(park.server(), park.server(), park.coordinator("--backup"))
    await park.link([source], [target])
    await park.refresh(coordinator)
    assert await readiness(park, coordinator) == 503
    assert (await manage(park, coordinator, "GET", "/recvs_info")) == {"is_master": False, "recv_flow": 0}

    verdict = {"is_master": True, "is_abnormal": False, "is_random_pick": True}
    await manage(park, coordinator, "POST", "/backup_info", verdict)
    await park.ask(coordinator, "hello")

    assert await readiness(park, coordinator) == 200
    assert (await manage(park, coordinator, "GET", "/recvs_info")) == {"is_master": True, "recv_flow": 1}


async def test_management_is_for_the_controller_only(park: SimulatorPark) -> None:
    coordinator = await park.coordinator()

    for identity, status in (("ms-controller-request-coordinator", 200), ("smoke", 403), ("mindie-server", 403)):
        reply = await park.call(coordinator, "coordinator", "GET", "/v1/coordinator_info", identity=identity)
        assert reply.status == status


async def test_a_silent_server_costs_seconds_once_the_controller_has_taken_it_out(park: SimulatorPark) -> None:
    """A lost node closes no connection: without this the request would wait for the first-token timeout."""
    silent, good, target, coordinator = await together(
        park.server(), park.server(), park.server(), park.coordinator("--first-token-timeout-s=600")
    )
    await park.link([silent, good], [target])
    await park.refresh(coordinator, without=[good])
    assert silent.process is not None
    silent.process.send_signal(signal.SIGSTOP)
    asked = asyncio.create_task(park.ask(coordinator, "hello"))

    async def is_in_work() -> bool:
        return bool((await manage(park, coordinator, "GET", f"/v1/instances/tasks?id={silent.id}"))["tasks"] == [1])

    await eventually(is_in_work, "the silent Server has the request")
    await park.refresh(coordinator, without=[silent])

    reply = await asyncio.wait_for(asked, 30)
    assert reply.status == 200, reply.body
    assert reply.headers["x-prefill-pod"] == good.name


async def test_a_user_who_goes_away_frees_the_servers(park: SimulatorPark) -> None:
    source, target, coordinator = await together(park.server(), park.server(), park.coordinator())
    await park.link([source], [target])
    await park.refresh(coordinator)
    await park.set_faults(target, {"kind": "slow", "factor": 1000})
    lines = park.ask_stream(coordinator, "/v1/completions", {"prompt": "hi", "max_tokens": 500})
    async with aclosing(lines):
        assert b"data: " in await anext(lines)

    async def is_free() -> bool:
        running = (await park.status(target)).resource.running_request_num
        tasks = (await manage(park, coordinator, "GET", f"/v1/instances/tasks?id={target.id}"))["tasks"]
        return (running, tasks) == (0, [0])

    await eventually(is_free, "decode Server and Coordinator have dropped the request")


async def test_a_decode_server_lost_in_the_middle_is_replaced_by_another_pair(park: SimulatorPark) -> None:
    """A lost node closes no connection: the answer that is still awaited must not stand in the way of the next try."""
    source, one, two, coordinator = await together(park.server(), park.server(), park.server(), park.coordinator())
    await park.link([source], [one, two])
    await park.refresh(coordinator)
    for server in (one, two):
        await park.set_faults(server, {"kind": "slow", "factor": 300})
    words: list[str] = []
    is_lost = False
    async for line in park.ask_stream(coordinator, "/v1/completions", {"prompt": "a long story", "max_tokens": 60}):
        found = events([line])
        if not found:
            continue
        words.append(found[0]["choices"][0]["text"])
        if len(words) == 10 and not is_lost:
            is_lost = True
            statuses = {server.name: await park.status(server) for server in (one, two)}
            busy = next(server for server in (one, two) if statuses[server.name].resource.running_request_num)
            assert busy.process is not None
            busy.process.send_signal(signal.SIGSTOP)
            await park.refresh(coordinator, without=[busy])

    assert is_lost
    assert "".join(words) == expected_text(MODEL, "a long story", 60)
