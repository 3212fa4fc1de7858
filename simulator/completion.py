# SPDX-License-Identifier: Apache-2.0
"""The arithmetic of the simulated model: prompt -> KV bytes (prefill) -> words (decode).

The KV bytes are a hash chain over the prompt, the words a hash of prompt and KV bytes. A decode Server
without the KV bytes of exactly this prompt and model answers other words; `expected_text` says which
words are right. Pure: same inputs, same bytes, on every machine.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from typing import Final

CHARS_PER_TOKEN: Final = 4.02
"""Characters per token. Seed: coordinator configuration, `string_token_rate`."""

KV_CHUNK_CHARS: Final = 16
"""Characters that one link of the hash chain covers: 32 bytes of KV each."""

# fmt: off
VOCABULARY: Final = (
    "amber", "bird", "cloud", "dawn", "ember", "field", "grove", "harbor", "island", "jade", "kite",
    "lantern", "meadow", "north", "ocean", "pine", "quiet", "river", "stone", "tide", "under", "valley",
    "willow", "xenon", "yellow", "zephyr", "arch", "bridge", "crane", "delta", "echo", "fir",
)
# fmt: on


def count_tokens(text: str) -> int:
    """Estimate the tokens of a prompt, at least 1."""
    return max(1, math.ceil(round(len(text) / CHARS_PER_TOKEN, 6)))


def kv_bytes(model: str, prompt: str) -> bytes:
    """Compute what prefill leaves behind: 32 bytes per started 16 characters, each hashing the one before."""
    link = hashlib.sha256(model.encode()).digest()
    chain = []
    for start in range(0, max(1, len(prompt)), KV_CHUNK_CHARS):
        link = hashlib.sha256(link + prompt[start : start + KV_CHUNK_CHARS].encode("utf-8", "surrogatepass")).digest()
        chain.append(link)
    return b"".join(chain)


def decode_words(prompt: str, kv: bytes, max_tokens: int) -> Iterator[str]:
    """Yield `max_tokens` words, one per decode step. Word i depends on the prompt, all KV bytes and i."""
    seed = hashlib.sha256(hashlib.sha256(prompt.encode("utf-8", "surrogatepass")).digest() + hashlib.sha256(kv).digest()).digest()
    for step in range(max_tokens):
        digest = hashlib.sha256(seed + step.to_bytes(4, "big")).digest()
        yield VOCABULARY[digest[0] % len(VOCABULARY)]


def expected_text(model: str, prompt: str, max_tokens: int) -> str:
    """Compute the only right answer: words separated by one space."""
    return " ".join(decode_words(prompt, kv_bytes(model, prompt), max_tokens))
