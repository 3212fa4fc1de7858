# SPDX-License-Identifier: Apache-2.0
"""From abilities, or a given ratio, or hardware, to counts of prefill and decode instances; and from counts to groups.

Ties go to prefill. Seed: controller manual, `default_p_rate`, `default_d_rate`, `is_heterogeneous`, rank table
`hardware_type`. Reference only: the greedy fill. Ours: more than one group.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd
from typing import Final, NamedTuple

from controller_runtime.api.rank_table import HARDWARE_DECODE, HARDWARE_PREFILL
from controller_runtime.api.roles import GROUP_LIMIT, MAX_RATE, Role
from controller_runtime.ms.role_decision.digs import EPSILON

ROLE_OF_HARDWARE: Final = {HARDWARE_PREFILL.lower(): Role.PREFILL, HARDWARE_DECODE.lower(): Role.DECODE}


class Split(NamedTuple):
    """Counts of instances."""

    prefill: int
    decode: int

    def __str__(self) -> str:
        return f"{self.prefill}P:{self.decode}D"


def best_split(prefill: float, decode: float, instances: int) -> Split:
    """Split `instances` so that the slower side is as fast as possible.

    `prefill`, `decode`: requests per second of one instance in that role. With both positive and at least two
    instances each side gets one. With a rate that is not positive there is nothing to balance: halves, prefill first.
    """
    if prefill <= 0 or decode <= 0:
        return Split(instances - instances // 2, instances // 2)
    fill = Split(0, 0)
    for _ in range(instances):
        if prefill * fill.prefill <= decode * fill.decode:
            fill = Split(fill.prefill + 1, fill.decode)
        else:
            fill = Split(fill.prefill, fill.decode + 1)
    return fill


def given_split(prefill_rate: int, decode_rate: int, instances: int) -> Split:
    """Split `instances` as close to the given ratio as whole instances allow.

    Exact for multiples of the ratio; other counts round in favour of prefill. Integers, so equal products are ties.
    """
    return best_split(decode_rate, prefill_rate, instances)


def expected_ratio(prefill: float, decode: float, limit: int = GROUP_LIMIT) -> Split:
    """The ratio within one group whose sides differ least, smallest numbers first. Information: nothing is assigned from it."""
    best, best_gap = Split(1, 1), float("inf")
    for prefills in range(1, limit):
        row, row_gap = Split(prefills, 1), float("inf")
        for decodes in range(1, limit - prefills + 1):
            gap = abs(prefills * prefill - decodes * decode)
            if gap < row_gap - EPSILON:
                row, row_gap = Split(prefills, decodes), gap
        if row_gap < best_gap - EPSILON:
            best, best_gap = row, row_gap
    return best


def hardware_role(hardware_type: str) -> Role:
    """Role that a hardware type means in a heterogeneous cluster; `UNDEFINED` for a type the manual does not name."""
    return ROLE_OF_HARDWARE.get(hardware_type.lower(), Role.UNDEFINED)


def split_by_hardware(hardware_types: Iterable[str]) -> Split:
    """Counts that the hardware dictates, one type per instance. Unknown types count on neither side."""
    roles = [hardware_role(hardware_type) for hardware_type in hardware_types]
    return Split(roles.count(Role.PREFILL), roles.count(Role.DECODE))


def reduced(split: Split) -> Split:
    """The same ratio in small numbers, each at most 15: for logs and reports."""
    small = _lowest_terms(split)
    if max(small) > MAX_RATE:
        small = _lowest_terms(Split(min(small.prefill, MAX_RATE), min(small.decode, MAX_RATE)))
    return small


def group_splits(split: Split, limit: int = GROUP_LIMIT) -> tuple[Split, ...]:
    """Deal instances into as few groups of at most `limit` as possible, sizes of a role differing by at most one.

    Every group holds both roles, so a scarce role lowers the number of groups and they then exceed `limit`.
    Empty when a role has no instance: such a cluster cannot serve.
    """
    count = min(-(-sum(split) // limit), *split)
    if count < 1:
        return ()
    return tuple(
        Split(_dealt(split.prefill, count, turn), _dealt(split.decode, count, (turn - split.prefill) % count)) for turn in range(count)
    )


def _dealt(cards: int, players: int, turn: int) -> int:
    return (cards - turn + players - 1) // players


def _lowest_terms(split: Split) -> Split:
    divisor = gcd(*split) or 1
    return Split(split.prefill // divisor, split.decode // divisor)
