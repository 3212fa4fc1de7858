# SPDX-License-Identifier: Apache-2.0
"""Pods that went or are going, noted at the moment they do: only then it is known how many others were left.

One note per controller of pods and role, the one with the fewest left. Notes live for a minute: on a standby that takes over
they tell what its predecessor did not get to; older ones concern a world that is gone. Objects in an initial list are judged
by the time of the request, because replacements may be in it already.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from controller_runtime.foundation.clock import Clock
from controller_runtime.kube.kind import Object, is_deleting
from controller_runtime.kube.store import Store
from controller_runtime.reconcilers.faults.pods import PodView, asked_to_go_at, role_key
from controller_runtime.reconcilers.ownership import OWNER_INDEX

KEPT_S = 60.0


@dataclass(frozen=True)
class LostPod:
    """`left`: pods of the same controller that were neither going nor over."""

    pod: PodView
    left: int
    noted_at_s: float


class LostPods:
    """Notes by role. `observe` is a handler of the informer of pods."""

    def __init__(self, pods: Store, clock: Clock) -> None:
        self._pods, self._clock = pods, clock
        self._notes: dict[str, dict[str, LostPod]] = {}

    def observe(self, old: Object | None, new: Object | None) -> None:
        """Note a pod whose deletion was asked for just now, or that went without notice (a deletion nobody saw included)."""
        obj = new or old
        if obj is None or not begins_to_go(old, new) or (pod := PodView.of(obj)) is None:
            return
        left = self._left(pod, asked_to_go_at(obj["metadata"]), is_listed=old is None)
        notes = self._notes.setdefault(role_key(pod.namespace, pod.service, pod.role), {})
        known = notes.get(pod.owner.uid)
        if known is None or self._is_old(known) or left < known.left:
            notes[pod.owner.uid] = LostPod(pod, left, self._clock.monotonic())

    def of(self, key: str) -> list[LostPod]:
        """The notes of a role."""
        notes = self._notes.get(key, {})
        for uid in [uid for uid, note in notes.items() if self._is_old(note)]:
            del notes[uid]
        if not notes:
            self._notes.pop(key, None)
        return list(notes.values())

    def forget(self, note: LostPod) -> None:
        """Drop a note that was judged."""
        pod = note.pod
        self._notes.get(role_key(pod.namespace, pod.service, pod.role), {}).pop(pod.owner.uid, None)

    def _left(self, pod: PodView, asked_at: datetime | None, *, is_listed: bool) -> int:
        others = (PodView.of(each) for each in self._pods.by_index(OWNER_INDEX, pod.owner.uid))
        return sum(
            other is not None
            and other.uid != pod.uid
            and other.gone_by is None
            and not other.is_over
            and not (is_listed and asked_at is not None and other.created >= asked_at)
            for other in others
        )

    def _is_old(self, note: LostPod) -> bool:
        return self._clock.monotonic() - note.noted_at_s > KEPT_S


def begins_to_go(old: Object | None, new: Object | None) -> bool:
    """Whether a change is the beginning of a pod's end."""
    return (new is None or is_deleting(new)) and not (old is not None and is_deleting(old))
