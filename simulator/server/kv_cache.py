# SPDX-License-Identifier: Apache-2.0
"""KV bytes that a prefill Server holds until a decode Server fetches them.

An entry has one reader, is handed out once and expires: a prefill Server never waits for a decode
Server that does not come. References are random, so knowing one means having been told.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from controller_runtime.errors import AscendPdError
from controller_runtime.foundation.clock import Clock


class UnknownReferenceError(AscendPdError):
    """No such KV bytes: never existed, fetched already, expired, or meant for another Server."""


class CacheFullError(AscendPdError):
    """No block is free for another prompt."""


@dataclass(frozen=True, slots=True)
class _Entry:
    reader: int
    data: bytes
    blocks: int
    expires_at: float


class KvCache:
    """Bounded store of KV bytes. `capacity_blocks` counts cache blocks, `ttl_s` the life of an entry."""

    def __init__(self, capacity_blocks: int, ttl_s: float, clock: Clock) -> None:
        self._capacity_blocks = capacity_blocks
        self._ttl_s = ttl_s
        self._clock = clock
        self._entries: dict[str, _Entry] = {}

    def put(self, data: bytes, blocks: int, reader: int) -> str:
        """Keep `data` for the Server with id `reader` and return its reference.

        Raises:
            CacheFullError: fewer than `blocks` blocks are free.
        """
        if blocks > self.free_blocks:
            raise CacheFullError(f"KV cache: {blocks} blocks needed, {self.free_blocks} free. Use another Server.")
        reference = secrets.token_hex(16)
        self._entries[reference] = _Entry(reader, data, blocks, self._clock.monotonic() + self._ttl_s)
        return reference

    def take(self, reference: str, reader: int) -> bytes:
        """Hand out the bytes and forget them.

        Raises:
            UnknownReferenceError: unknown, used, expired, or kept for another reader. An entry of another reader stays.
        """
        self._drop_expired()
        entry = self._entries.get(reference)
        if entry is None or entry.reader != reader:
            raise UnknownReferenceError(
                f"KV reference {reference[:8]}... of reader {reader}: not held here. It was never given out, was fetched, or expired."
            )
        del self._entries[reference]
        return entry.data

    def clear(self) -> None:
        """Forget everything, as an engine does that changes its role."""
        self._entries.clear()

    @property
    def held(self) -> int:
        """Entries that wait for their reader."""
        self._drop_expired()
        return len(self._entries)

    @property
    def free_blocks(self) -> int:
        """Blocks not taken by waiting entries."""
        self._drop_expired()
        return self._capacity_blocks - sum(entry.blocks for entry in self._entries.values())

    def _drop_expired(self) -> None:
        now = self._clock.monotonic()
        for reference in [key for key, entry in self._entries.items() if entry.expires_at <= now]:
            del self._entries[reference]
