# SPDX-License-Identifier: Apache-2.0
"""Values that a preview does not know yet.

A rule must neither pass nor fail on them, and one of them must not hide what is certain elsewhere in the object.
So an unknown value is a `NotKnown` in the object, reading it raises `NotKnownError`, and `certain_first` lets
everything certain be reported before the first such error goes on to the caller.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from controller_runtime.errors import AscendPdError

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class NotKnown:
    """Stands where a value will be. `cause`: the caller's own error for it, if any."""

    place: str
    cause: Exception | None = None


class NotKnownError(AscendPdError):
    """The verdict depends on a value that is not known yet."""

    def __init__(self, value: NotKnown) -> None:
        self.value = value
        super().__init__(f"{value.place} is not known yet")


def known(value: object) -> object:
    """Return the value. Raises NotKnownError when there is none yet."""
    if isinstance(value, NotKnown):
        raise NotKnownError(value)
    return value


def certain_first(parts: Iterable[Iterable[Item]]) -> Iterator[Item]:
    """Chain the parts. A part that meets an unknown value ends there; the others go on; the first error is raised last."""
    first: NotKnownError | None = None
    remaining = iter(parts)
    while True:
        try:
            part = next(remaining, None)
            if part is None:
                break
            yield from part
        except NotKnownError as err:
            first = first or err
    if first is not None:
        raise first
