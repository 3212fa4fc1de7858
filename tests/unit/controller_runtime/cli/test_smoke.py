# SPDX-License-Identifier: Apache-2.0
"""The smoke client as a process against real simulated Servers and a Coordinator."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from controller_runtime.cli.smoke import read_answer
from controller_runtime.errors import TransportError
from simulator.completion import expected_text
from tests.support.pki import Authority, publish_crl, write_identity
from tests.support.simulators import ROOT, Member, SimulatorPark, together

pytestmark = pytest.mark.process

COORDINATOR_NAME = "ms-coordinator.mindie"
GOOD: dict[str, Any] = {
    "choices": [{"message": {"content": "a b"}, "finish_reason": "length"}],
    "trace": {"prefill": {"pod": "p-0"}, "decode": {"pod": "d-0"}},
}


class Outcome(NamedTuple):
    code: int
    output: list[str]
    progress: str

    @property
    def verdict(self) -> dict[str, Any]:
        parsed: dict[str, Any] = json.loads(self.output[-1])
        return parsed


@pytest.fixture
async def park(tmp_path: Path) -> AsyncIterator[SimulatorPark]:
    async with SimulatorPark(tmp_path) as park:
        yield park


async def smoke(park: SimulatorPark, coordinator: Member, *arguments: str, tls_dir: Path | None = None) -> Outcome:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "controller_runtime.cli.smoke"),
        f"--endpoint=https://{coordinator.ip}:{park.ports['predict']}",
        f"--tls-dir={tls_dir or park.tls_dir('smoke')}",
        f"--server-name={COORDINATOR_NAME}",
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=ROOT,
    )
    output, progress = await process.communicate()
    return Outcome(process.returncode or 0, output.decode().splitlines(), progress.decode())


async def test_an_answer_passes_and_names_both_servers(park: SimulatorPark) -> None:
    source, target, coordinator = await together(park.server(), park.server(), park.coordinator())
    await park.link([source], [target])
    await park.refresh(coordinator)

    outcome = await smoke(park, coordinator, "--prompt=hello", "--expect-trace")

    assert outcome.code == 0
    assert outcome.output[0].startswith("PASSED")
    assert outcome.verdict["passed"] is True
    assert outcome.verdict["text"] == expected_text("llama2-70B", "user: hello", 16)
    assert (outcome.verdict["trace"]["prefill"]["pod"], outcome.verdict["trace"]["decode"]["pod"]) == (source.name, target.name)


async def test_it_waits_until_the_stack_answers(park: SimulatorPark) -> None:
    source, target, coordinator = await together(park.server(), park.server(), park.coordinator())
    waiting = asyncio.create_task(smoke(park, coordinator, "--wait-s=60", "--expect-trace"))
    await park.link([source], [target])
    done, _ = await asyncio.wait([waiting], timeout=2.5)
    assert not done

    await park.refresh(coordinator)

    outcome = await waiting
    assert outcome.code == 0
    assert outcome.verdict["attempts"] >= 2
    assert "not yet" in outcome.progress
    assert "no_pair" in outcome.progress


async def test_a_stack_that_does_not_answer_fails_with_the_reason(park: SimulatorPark) -> None:
    coordinator = await park.coordinator()

    outcome = await smoke(park, coordinator)

    assert outcome.code == 1
    assert outcome.output[0].startswith("FAILED")
    assert outcome.verdict["passed"] is False
    assert "no_pair" in outcome.verdict["reason"]


async def test_a_coordinator_of_another_name_authority_or_revoked_is_refused(park: SimulatorPark) -> None:
    coordinator = await park.coordinator()
    foreign = Authority("pd")
    foreign_dir = write_identity(park.directory / "foreign", foreign, foreign.issue("smoke", sans=["smoke.mindie"]))
    revoking = park.authority.issue("smoke", sans=["smoke.mindie"])
    revoking_dir = write_identity(park.directory / "revoking", park.authority, revoking)
    publish_crl(revoking_dir, park.authority, [park.leaf("ms-coordinator")])

    other_name = await smoke(park, coordinator, "--server-name=mindie-server.mindie")
    other_authority = await smoke(park, coordinator, tls_dir=foreign_dir)
    revoked = await smoke(park, coordinator, tls_dir=revoking_dir)

    assert [outcome.code for outcome in (other_name, other_authority, revoked)] == [1, 1, 1]
    assert "Hostname mismatch" in other_name.verdict["reason"]
    assert "certificate" in other_authority.verdict["reason"]
    assert "revoked" in revoked.verdict["reason"]


@pytest.mark.parametrize(("arguments", "told"), [(("--endpoint=http://x:1",), "mutual TLS"), (("--tls-dir=/nowhere",), "/nowhere")])
async def test_bad_input_is_exit_78(park: SimulatorPark, arguments: tuple[str, ...], told: str) -> None:
    nobody = Member("nobody", "127.0.0.1", "", [])

    outcome = await smoke(park, nobody, *arguments)

    assert outcome.code == 78
    assert told in outcome.progress


def test_a_good_answer_is_read() -> None:
    answer = read_answer(200, json.dumps(GOOD).encode(), expect_trace=True)

    assert (answer.text, answer.choices[0].finish_reason) == ("a b", "length")


@pytest.mark.parametrize(
    ("status", "change", "told"),
    [
        (503, {}, "status 503"),
        (200, {"choices": []}, "no text"),
        (200, {"choices": [{"message": {"content": " "}, "finish_reason": "length"}]}, "no text"),
        (200, {"choices": [{"message": {"content": "a"}, "finish_reason": None}]}, "not finished"),
        (200, {"choices": "?"}, "no chat completion"),
        (200, {"trace": None}, "names no Servers"),
        (200, {"trace": {"prefill": {"pod": "a"}, "decode": {"pod": "a"}}}, "two different pods"),
        (200, {"trace": {"prefill": {"pod": ""}, "decode": {"pod": "a"}}}, "two different pods"),
    ],
)
def test_an_answer_that_proves_nothing_is_refused(status: int, change: dict[str, Any], told: str) -> None:
    with pytest.raises(TransportError, match=told):
        read_answer(status, json.dumps(GOOD | change).encode(), expect_trace=True)


def test_without_expecting_a_trace_none_is_needed() -> None:
    assert read_answer(200, json.dumps(GOOD | {"trace": None}).encode(), expect_trace=False).trace is None
