# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Iterator

import pytest

from controller_runtime.rules.certainty import NotKnown, NotKnownError, certain_first, known


def part(*items: object) -> Iterator[object]:
    for item in items:
        yield known(item)


def test_everything_certain_comes_before_the_first_unknown() -> None:
    seen: list[object] = []
    with pytest.raises(NotKnownError, match="first is not known yet"):
        seen.extend(certain_first([part(1), part(2, NotKnown("first"), 3), part(NotKnown("second")), part(4)]))

    assert seen == [1, 2, 4]


def test_nothing_unknown_raises_nothing() -> None:
    assert list(certain_first([part(1), part(), part(2)])) == [1, 2]


def test_an_unknown_in_the_list_of_parts_itself_comes_last_too() -> None:
    def parts() -> Iterator[Iterator[object]]:
        yield part(1)
        raise NotKnownError(NotKnown("more"))

    seen: list[object] = []
    with pytest.raises(NotKnownError, match="more"):
        seen.extend(certain_first(parts()))

    assert seen == [1]
