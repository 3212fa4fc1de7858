# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from controller_runtime.api.server_api import ServerStatus
from controller_runtime.ms.status_parser import Report, StatusParser
from tests.support.ms_peers import status_reply


def body(slots: int = 200, ok: tuple[int, ...] = (), **more: Any) -> bytes:
    return json.dumps(status_reply("prefill", "RoleReady", ok=ok, availSlotsNum=slots) | more).encode()


replies = st.builds(
    lambda slots, ok, links_first: (
        body(slots, tuple(ok)) if not links_first else json.dumps(dict(reversed(json.loads(body(slots, tuple(ok))).items()))).encode()
    ),
    st.integers(0, 3),
    st.lists(st.integers(0, 3), unique=True),
    st.booleans(),
)


@given(st.lists(replies, max_size=8))
def test_a_remembering_parser_says_what_a_forgetful_one_says(bodies: list[bytes]) -> None:
    parser = StatusParser(1)

    for each in bodies:
        assert parser.parse(1, each) == Report.of(ServerStatus.model_validate_json(each))


def test_equal_links_are_one_object_across_servers_and_polls() -> None:
    parser = StatusParser(1)

    first, second, later = parser.parse(1, body(ok=(5, 6))), parser.parse(2, body(7, ok=(6, 5))), parser.parse(1, body(9, ok=(5, 6)))

    assert first.active is second.active
    assert first.active is later.active
    assert later.resource.avail_slots_num == 9


@pytest.mark.parametrize("bad", [b"", b"{", body(slots=-1), b'{"linkStatus": {"peers": []}}'])
def test_a_bad_body_is_refused_and_the_next_good_one_is_not(bad: bytes) -> None:
    parser = StatusParser(1)
    parser.parse(1, body(ok=(5,)))

    with pytest.raises(ValidationError):
        parser.parse(1, bad)

    assert parser.parse(1, body(8, ok=(5,))).resource.avail_slots_num == 8


def test_a_bad_rest_with_good_old_links_is_refused() -> None:
    parser = StatusParser(1)
    parser.parse(1, body(ok=(5,)))

    with pytest.raises(ValidationError):
        parser.parse(1, body(slots=5001, ok=(5,)))
