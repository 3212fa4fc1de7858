# SPDX-License-Identifier: Apache-2.0
"""What a Coordinator knows about Servers, and how it picks a pair. No I/O.

Everything comes from the last refresh: a Server that is not in it is not used. A pair is a prefill and
a decode Server that name each other as peers. The least loaded prefill Server is taken, then its least
loaded peer; equal loads go to the one that was used longest ago. A Server that just failed a request is
the last choice for `cooldown_s`.
Seed: controller manual, Coordinator interfaces.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from controller_runtime.api.coordinator_api import Instance, InstancesRefresh, ScheduleInfo
from controller_runtime.api.roles import Role
from controller_runtime.api.server_api import MAX_SLOTS
from controller_runtime.foundation.clock import Clock

UNKNOWN_TASKS = -1
"""Task count of a Server that is not known. Seed: controller manual, tasks interface."""


class Pair(NamedTuple):
    """The two Servers of one request."""

    prefill: Instance
    decode: Instance

    @property
    def key(self) -> tuple[int, int]:
        """Ids of both."""
        return self.prefill.id, self.decode.id


@dataclass
class Assignment:
    """One request on one pair. The prefill side is let go as soon as the KV bytes have moved."""

    pair: Pair
    tokens: int
    holds_prefill: bool = field(default=True)


class Fleet:
    """The Servers of the last refresh and the requests in work on them."""

    def __init__(self, clock: Clock, cooldown_s: float) -> None:
        self._clock = clock
        self._cooldown_s = cooldown_s
        self._instances: dict[int, Instance] = {}
        self._offline: set[int] = set()
        self._work: dict[int, Assignment] = {}
        self._tickets = itertools.count()
        self._last_used: Counter[int] = Counter()
        self._suspect_until: dict[int, float] = {}

    def refresh(self, body: InstancesRefresh) -> bool:
        """Replace all Servers. True when the set of ids or links changed."""
        before = {id_: instance.dynamic_info.peers for id_, instance in self._instances.items()}
        self._instances = {instance.id: instance for instance in body.instances}
        self._offline &= self._instances.keys()
        return before != {id_: instance.dynamic_info.peers for id_, instance in self._instances.items()}

    def set_offline(self, ids: Iterable[int]) -> None:
        """Start nothing new on these Servers. Ends with `set_online` or when a Server leaves the refresh body."""
        self._offline |= set(ids) & self._instances.keys()

    def set_online(self, ids: Iterable[int]) -> None:
        """Undo `set_offline`."""
        self._offline -= set(ids)

    def is_known(self, id_: int) -> bool:
        """True for a Server of the last refresh."""
        return id_ in self._instances

    @property
    def known(self) -> int:
        """Number of Servers in the last refresh."""
        return len(self._instances)

    def pairs(self) -> list[Pair]:
        """All linked pairs whose Servers are online."""
        usable = [one for id_, one in self._instances.items() if id_ not in self._offline]
        decodes = {one.id: one for one in usable if one.static_info.role in (Role.DECODE, Role.FLEX)}
        return [
            Pair(prefill, decodes[peer])
            for prefill in usable
            if prefill.static_info.role in (Role.PREFILL, Role.FLEX)
            for peer in prefill.dynamic_info.peers or ()
            if peer in decodes and prefill.id in (decodes[peer].dynamic_info.peers or ())
        ]

    def pick(self, failed: Collection[tuple[int, int]] = ()) -> Pair | None:
        """Choose a pair that is not in `failed`; None when there is none left."""
        candidates = [pair for pair in self.pairs() if pair.key not in failed]
        return min(candidates, key=self._cost, default=None)

    def _cost(self, pair: Pair) -> tuple[bool, float, float, int, int]:
        now = self._clock.monotonic()
        is_suspect = any(self._suspect_until.get(id_, -math.inf) > now for id_ in pair.key)
        prefill, decode = (self.load(one) for one in pair)
        return is_suspect, prefill, decode, self._last_used[pair.prefill.id], self._last_used[pair.decode.id]

    def load(self, instance: Instance) -> float:
        """Requests in work through this Coordinator per slot of the Server."""
        return self.tasks(instance.id) / max(1, instance.static_info.total_slots_num)

    def suspect(self, ids: Iterable[int]) -> None:
        """Make these Servers the last choice for a while."""
        until = self._clock.monotonic() + self._cooldown_s
        self._suspect_until.update(dict.fromkeys(ids, until))

    @contextmanager
    def assigned(self, pair: Pair, tokens: int) -> Iterator[Assignment]:
        """Account one request of `tokens` tokens to a pair."""
        ticket = next(self._tickets)
        for id_ in pair.key:
            self._last_used[id_] = ticket + 1
        self._work[ticket] = Assignment(pair, tokens)
        try:
            yield self._work[ticket]
        finally:
            del self._work[ticket]

    @property
    def running(self) -> int:
        """Requests in work."""
        return len(self._work)

    def tasks(self, id_: int) -> int:
        """Requests that still need this Server; -1 when it is not known and has none."""
        count = sum(1 for work in self._work.values() if self._needs(work, id_))
        return count if count or id_ in self._instances else UNKNOWN_TASKS

    def is_pair_idle(self, prefill_id: int, decode_id: int) -> bool:
        """True when no KV bytes are on their way between these two."""
        return not any(work.holds_prefill and work.pair.key == (prefill_id, decode_id) for work in self._work.values())

    def schedule_info(self) -> tuple[ScheduleInfo, ...]:
        """Load of each known Server, in the order of the refresh body."""
        return tuple(self._schedule_entry(instance) for instance in self._instances.values())

    def _schedule_entry(self, instance: Instance) -> ScheduleInfo:
        works = [work for work in self._work.values() if self._needs(work, instance.id)]
        blocks = sum(math.ceil(work.tokens / max(1, instance.static_info.block_size)) for work in works)
        return ScheduleInfo(id=instance.id, allocated_slots=min(len(works), MAX_SLOTS), allocated_blocks=blocks)

    @staticmethod
    def _needs(work: Assignment, id_: int) -> bool:
        return work.pair.decode.id == id_ or (work.holds_prefill and work.pair.prefill.id == id_)
