# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from simulator.server.kv_cache import CacheFullError, KvCache, UnknownReferenceError
from tests.support.manual_clock import ManualClock

READER, OTHER = 7, 8


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def cache(clock: ManualClock) -> KvCache:
    return KvCache(capacity_blocks=10, ttl_s=5.0, clock=clock)


def test_bytes_are_handed_out_once(cache: KvCache) -> None:
    reference = cache.put(b"kv", 1, READER)

    assert cache.take(reference, READER) == b"kv"
    with pytest.raises(UnknownReferenceError):
        cache.take(reference, READER)


def test_an_invented_reference_is_refused(cache: KvCache) -> None:
    cache.put(b"kv", 1, READER)

    with pytest.raises(UnknownReferenceError):
        cache.take("0" * 32, READER)


def test_another_reader_gets_nothing_and_takes_nothing_away(cache: KvCache) -> None:
    reference = cache.put(b"kv", 1, READER)

    with pytest.raises(UnknownReferenceError):
        cache.take(reference, OTHER)
    assert cache.take(reference, READER) == b"kv"


def test_an_entry_expires_and_frees_its_blocks(cache: KvCache, clock: ManualClock) -> None:
    reference = cache.put(b"kv", 4, READER)
    assert (cache.held, cache.free_blocks) == (1, 6)

    clock.advance(5.0)

    assert (cache.held, cache.free_blocks) == (0, 10)
    with pytest.raises(UnknownReferenceError):
        cache.take(reference, READER)


def test_a_full_cache_refuses_until_an_entry_is_taken(cache: KvCache) -> None:
    reference = cache.put(b"kv", 10, READER)

    with pytest.raises(CacheFullError):
        cache.put(b"more", 1, READER)
    cache.take(reference, READER)

    assert cache.put(b"more", 1, READER)


def test_references_never_repeat(cache: KvCache) -> None:
    assert len({cache.put(b"kv", 0, READER) for _ in range(100)}) == 100
