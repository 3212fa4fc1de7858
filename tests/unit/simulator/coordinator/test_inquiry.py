# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json

import pytest
from pydantic import ValidationError

from simulator.coordinator.inquiry import DEFAULT_MAX_TOKENS, Style, read_inquiry

CASES = [
    (Style.CHAT, {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 3, "stream": True}, ("user: hi", 3, True)),
    (Style.CHAT, {"messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]}, ("user: hi", DEFAULT_MAX_TOKENS, False)),
    (
        Style.CHAT,
        {"messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}]},
        ("system: be brief\nuser: hi", DEFAULT_MAX_TOKENS, False),
    ),
    (Style.COMPLETIONS, {"prompt": "hi", "max_tokens": 5, "temperature": 0.5}, ("hi", 5, False)),
    (Style.INFER, {"inputs": "hi", "parameters": {"max_new_tokens": 7}, "stream": True}, ("hi", 7, True)),
]


@pytest.mark.parametrize(("style", "body", "expected"), CASES)
def test_each_format_becomes_prompt_length_and_mode(style: Style, body: object, expected: tuple[str, int, bool]) -> None:
    inquiry = read_inquiry(style, json.dumps(body).encode())

    assert (inquiry.prompt, inquiry.max_tokens, inquiry.is_stream) == expected
    assert inquiry.style is style


@pytest.mark.parametrize(
    ("style", "body"),
    [
        (Style.CHAT, b'{"messages": []}'),
        (Style.CHAT, b'{"prompt": "hi"}'),
        (Style.COMPLETIONS, b'{"prompt": ""}'),
        (Style.COMPLETIONS, b'{"prompt": "hi", "max_tokens": 0}'),
        (Style.INFER, b'{"inputs": "hi", "parameters": {"max_new_tokens": 65537}}'),
        (Style.INFER, b"not json"),
    ],
)
def test_a_body_of_another_format_is_refused(style: Style, body: bytes) -> None:
    with pytest.raises(ValidationError):
        read_inquiry(style, body)
