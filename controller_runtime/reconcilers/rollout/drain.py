# SPDX-License-Identifier: Apache-2.0
"""Drain: before a ready instance is removed or replaced its workload says so, and whoever runs in it answers or time runs out.

The moment of the request stands on the workload and nowhere else, so a restart of the operator neither forgets a drain nor
lengthens it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from controller_runtime.api.labels import DRAIN_REQUESTED, DRAINED
from controller_runtime.reconcilers.rollout.decision import Drain

ANSWERED = "true"


def drain_of(annotations: Mapping[str, str], timeout_s: int, now: datetime) -> Drain:
    """How far a workload's drain is. A time that cannot be read, or not yet have come, was never asked."""
    left_s = seconds_left(annotations, timeout_s, now)
    if left_s is None:
        return Drain.NOT_ASKED
    return Drain.OVER if annotations.get(DRAINED) == ANSWERED or left_s <= 0 else Drain.ASKED


def seconds_left(annotations: Mapping[str, str], timeout_s: int, now: datetime) -> float | None:
    """How long a drain may still take, None when none was asked for."""
    asked = _moment(annotations.get(DRAIN_REQUESTED))
    if asked is None or (asked - now).total_seconds() > timeout_s:
        return None
    return timeout_s - (now - asked).total_seconds()


def stale_marks(annotations: Mapping[str, str]) -> list[str]:
    """Marks that a workload which stays must not carry: its next drain would be over at once."""
    return [key for key in (DRAIN_REQUESTED, DRAINED) if key in annotations]


def _moment(text: str | None) -> datetime | None:
    try:
        found = datetime.fromisoformat(text) if text else None
    except ValueError:
        return None
    return found if found is not None and found.tzinfo is not None else None
