# SPDX-License-Identifier: Apache-2.0
"""Which instances to rebuild, as pure functions on what is known of pods and workloads.

A fault is a pod that says so. A loss is a pod of a gang that somebody else removed: its instance had fewer pods left than it
asks for, and the pod was of the newest template. Scale-in leaves enough pods, a roll-out removes pods of older templates,
and a rebuild or a removed instance leaves no workload of that uid; so what we caused ourselves is never a loss.
As the reference operator decides; there a rebuild counted as the next loss.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Any

from controller_runtime.kube.kind import DEPLOYMENT, STATEFUL_SET, uid_of
from controller_runtime.reconcilers.faults.pods import PodView, moment
from controller_runtime.reconcilers.faults.record import FaultRecord, InstanceRecord
from controller_runtime.reconcilers.workloads.base import is_current, pods_of

UNHEALTHY, BUSINESS = "Unhealthy", "pod-failed"
DEPLOYMENT_REVISION = "deployment.kubernetes.io/revision"


class Verdict(Enum):
    """What a lost pod means for its instance."""

    REBUILD = "rebuild"
    WAIT = "wait"
    """The workload's controller has not acted on its spec yet: the pod may go because of it."""
    NOTHING = "nothing"


@dataclass(frozen=True)
class Ancestry:
    """Where a pod comes from: the uid of its workload, and the revision of the template it was made from ("": not known)."""

    workload: str
    revision: str = ""


@dataclass(frozen=True)
class Instance:
    """One workload object, as it is now."""

    index: int
    kind: str
    name: str
    uid: str
    created: datetime
    pods: int
    is_settled: bool
    revision: str
    """Of its newest template, "" when its kind does not tell."""

    @classmethod
    def of(cls, index: int, workload: Mapping[str, Any]) -> Instance:
        """Read a workload."""
        metadata, status = workload["metadata"], workload.get("status", {})
        revisions = {
            DEPLOYMENT.kind: metadata.get("annotations", {}).get(DEPLOYMENT_REVISION, ""),
            STATEFUL_SET.kind: status.get("updateRevision", ""),
        }
        return cls(
            index=index,
            kind=workload["kind"],
            name=metadata["name"],
            uid=uid_of(dict(workload)),
            created=moment(metadata["creationTimestamp"]),
            pods=pods_of(workload),
            is_settled=is_current(workload),
            revision=revisions.get(workload["kind"], ""),
        )


@dataclass(frozen=True)
class Fault:
    """A reason to rebuild an instance. `retries`: how often it may be one in the life of the instance; None: always."""

    index: int
    what: str
    retries: int | None = None


@dataclass(frozen=True)
class Rebuild:
    """Make one instance anew."""

    index: int
    what: str


@dataclass(frozen=True)
class Plan:
    """`exhausted`: instances that stay as they are because no retry is left, not told before. `record`: to be kept first."""

    rebuilds: tuple[Rebuild, ...] = ()
    exhausted: tuple[Fault, ...] = ()
    record: FaultRecord = field(default_factory=FaultRecord)


def fault_of(pod: PodView) -> Fault | None:
    """The fault a pod tells of itself; None when it is healthy, on its way out, or not to be rebuilt."""
    if pod.gone_by is not None or not pod.says.startswith(UNHEALTHY):
        return None
    what = f"pod {pod.name} says {pod.says}"
    if not pod.says.endswith(BUSINESS):
        return Fault(pod.index, what)
    text = pod.retry_times or ""
    return Fault(pod.index, what, int(text)) if text.isascii() and text.isdigit() else None


def belongs(pod: PodView, ancestry: Ancestry, instance: Instance) -> bool:
    """Whether a pod is one of this very workload, not of a predecessor of the same name.

    Kinds that make pods through objects of their own leave no trace of their uid; then the time of creation decides.
    """
    if instance.kind in (DEPLOYMENT.kind, STATEFUL_SET.kind):
        return ancestry.workload == instance.uid
    return ancestry.workload == instance.uid or pod.created >= instance.created


def judge_loss(left: int, ancestry: Ancestry, instance: Instance) -> Verdict:
    """Judge a pod of the instance that is gone or going, with `left` others of the same template at that moment."""
    if not instance.is_settled:
        return Verdict.WAIT
    is_old = bool(ancestry.revision and instance.revision) and ancestry.revision != instance.revision
    return Verdict.NOTHING if is_old or left >= instance.pods else Verdict.REBUILD


def plan(
    faults: Sequence[Fault],
    instances: Mapping[int, Instance],
    record: FaultRecord,
    removed_by_us: Mapping[int, Sequence[str]],
    replicas: int,
) -> Plan:
    """Decide what to rebuild. `faults` concern the workloads in `instances`.

    `removed_by_us`: of the instances whose pods this operator removes, who controls these pods, earlier ones included. What
    is remembered of instances that are no longer asked for (`replicas`) is dropped. The caller keeps the record, then deletes.
    """
    rebuilds: list[Rebuild] = []
    exhausted: list[Fault] = []
    entries = {index: entry for index, entry in record.instances.items() if index < replicas}
    for index, instance in sorted(instances.items()):
        own = [fault for fault in faults if fault.index == index]
        entry = record.of(index)
        free = next((fault for fault in own if fault.retries is None), None)
        chosen = free or max(own, key=lambda fault: fault.retries or 0, default=None)
        if chosen is None:
            continue
        if chosen.retries is not None and entry.counted != instance.uid:
            if entry.used >= chosen.retries:
                if entry.exhausted != instance.uid:
                    exhausted.append(chosen)
                    entries[index] = entry.model_copy(update={"exhausted": instance.uid})
                continue
            entry = entry.model_copy(update={"used": entry.used + 1, "counted": instance.uid})
        if index in removed_by_us:
            entry = entry.model_copy(update={"removing": tuple(removed_by_us[index])})
        rebuilds.append(Rebuild(index, chosen.what))
        if entry != InstanceRecord():
            entries[index] = entry
    return Plan(tuple(rebuilds), tuple(exhausted), record.model_copy(update={"instances": entries}))
