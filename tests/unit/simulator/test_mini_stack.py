# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json

import pytest

from simulator.completion import expected_text
from tests.support.simulators import SimulatorPark, together

pytestmark = pytest.mark.process

MODEL = "llama2-70B"


async def test_a_request_crosses_one_prefill_and_one_decode_server(park: SimulatorPark) -> None:
    prefill, decode, coordinator = await together(park.server(), park.server(), park.coordinator())
    await park.link([prefill], [decode])
    await park.refresh(coordinator)

    reply = await park.ask(coordinator, "one small prompt", max_tokens=8)

    answer = json.loads(reply.body)
    assert reply.status == 200
    assert answer["choices"][0]["text"] == expected_text(MODEL, "one small prompt", 8)
    assert answer["choices"][0]["finish_reason"] == "length"
    assert answer["trace"]["prefill"] == {"pod": prefill.name, "ip": prefill.ip, "id": prefill.id}
    assert answer["trace"]["decode"] == {"pod": decode.name, "ip": decode.ip, "id": decode.id}
    assert reply.headers["x-prefill-pod"] == prefill.name
    assert reply.headers["x-decode-pod"] == decode.name
