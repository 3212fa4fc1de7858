# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.completion import VOCABULARY, count_tokens, decode_words, expected_text, kv_bytes

MODEL = "m"


def test_the_expected_text_is_what_prefill_and_decode_compute_together() -> None:
    words = decode_words("a prompt", kv_bytes(MODEL, "a prompt"), 5)

    assert " ".join(words) == expected_text(MODEL, "a prompt", 5)


def test_answers_are_pinned_so_that_two_versions_agree() -> None:
    assert expected_text("llama2-70B", "hello", 4) == "kite grove dawn echo"


@pytest.mark.parametrize("wrong", [b"", kv_bytes(MODEL, "another prompt"), kv_bytes("another model", "a prompt")])
def test_wrong_kv_bytes_give_other_words(wrong: bytes) -> None:
    assert " ".join(decode_words("a prompt", wrong, 16)) != expected_text(MODEL, "a prompt", 16)


@given(st.text(max_size=200), st.integers(0, 199))
def test_every_character_of_a_prompt_changes_all_kv_bytes_after_it(prompt: str, place: int) -> None:
    changed = prompt[:place] + "\x00" + prompt[place:]

    assert kv_bytes(MODEL, changed)[-32:] != kv_bytes(MODEL, prompt)[-32:]


@given(st.text(max_size=300), st.integers(1, 40))
def test_a_completion_has_as_many_words_as_asked_for_and_all_are_known(prompt: str, count: int) -> None:
    words = expected_text(MODEL, prompt, count).split(" ")

    assert len(words) == count
    assert set(words) <= set(VOCABULARY)


@pytest.mark.parametrize(("text", "tokens"), [("", 1), ("a", 1), ("a" * 5, 2), ("a" * 402, 100)])
def test_tokens_are_estimated_from_characters(text: str, tokens: int) -> None:
    assert count_tokens(text) == tokens
