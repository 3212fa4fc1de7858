# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller_runtime.etcd.values import prefix_end


@pytest.mark.parametrize(("prefix", "end"), [("/a/", b"/a0"), ("", b"\0"), ("a", b"b")])
def test_the_end_is_the_first_key_behind_the_prefix(prefix: str, end: bytes) -> None:
    assert prefix_end(prefix) == end


@given(st.text(min_size=1), st.text(), st.text())
def test_exactly_the_keys_with_the_prefix_lie_in_the_range(prefix: str, tail: str, other: str) -> None:
    low, high = prefix.encode(), prefix_end(prefix)

    assert low <= (prefix + tail).encode() < high
    assert (low <= other.encode() < high) == other.encode().startswith(low)
