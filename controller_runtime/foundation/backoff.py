# SPDX-License-Identifier: Apache-2.0
"""The one place that computes how long to wait before trying again.

Exponential with jitter: many clients that lost the same peer must not come back in the same instant.
"""

from __future__ import annotations

import random as _random
from collections.abc import Callable

_MAX_DOUBLINGS = 62


class Backoff:
    """Waiting times of one retry sequence: `base_s`, twice that, ..., never above `cap_s`.

    `jitter` in 0..1 is the share of each wait that is random: the n-th wait lies in
    `((1 - jitter) * w, w]` with `w = min(cap_s, base_s * 2**n)`. `random` returns a float in [0, 1).
    """

    def __init__(self, base_s: float, cap_s: float, jitter: float = 0.5, random: Callable[[], float] = _random.random) -> None:
        if not (0 < base_s <= cap_s and 0 <= jitter <= 1):
            raise ValueError(f"backoff needs 0 < base_s <= cap_s and 0 <= jitter <= 1, got {base_s}, {cap_s}, {jitter}")
        self._base_s = base_s
        self._cap_s = cap_s
        self._jitter = jitter
        self._random = random
        self._failures = 0

    @property
    def failures(self) -> int:
        """How often `next_s` was asked since the last `reset`."""
        return self._failures

    def next_s(self) -> float:
        """Return the seconds to wait before the next try and count this failure."""
        whole_s = min(self._cap_s, self._base_s * float(2 ** min(self._failures, _MAX_DOUBLINGS)))
        self._failures += 1
        return whole_s * (1 - self._jitter * self._random())

    def reset(self) -> None:
        """Start over after a success."""
        self._failures = 0
