# SPDX-License-Identifier: Apache-2.0
"""The instances of one InstanceSet as a rollout sees them, read from their workloads.

An instance is the workload of its index, of whatever kind: one of a kind that the role has left is outdated like any other,
and its successor is made when it is gone. What carries an index but not the name of its instance is a stray.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from controller_runtime.api.labels import INSTANCE_INDEX, ROLLOUT_WAITS_FOR
from controller_runtime.api.meta import JsonObject
from controller_runtime.api.names import decimal, workload_name
from controller_runtime.kube.kind import Kind, Object, is_deleting, name_of
from controller_runtime.reconcilers.ownership import label_of
from controller_runtime.reconcilers.role_view import RoleView
from controller_runtime.reconcilers.rollout.decision import Instance, Step, Wish, decide
from controller_runtime.reconcilers.rollout.drain import drain_of, seconds_left
from controller_runtime.reconcilers.rollout.revision import is_current, marked, revision_of
from controller_runtime.reconcilers.workloads import HANDLERS, WorkloadHandler

WorkloadsByKind = Mapping[Kind, Mapping[str, Object]]


@dataclass(frozen=True)
class RoleRollout:
    """One role's rollout: the wish, what is there, and the next step."""

    view: RoleView
    handler: WorkloadHandler
    revision: str
    wish: Wish
    live: Mapping[int, Object]
    """The workload of each instance that exists."""
    strays: tuple[Object, ...]
    """Workloads that belong to no instance."""
    instances: tuple[Instance, ...]
    step: Step

    @classmethod
    def of(cls, view: RoleView, handler: WorkloadHandler, workloads: WorkloadsByKind, now: datetime) -> RoleRollout:
        """Read the instances and decide."""
        revision = revision_of(handler.desired(view, 0))
        wish = wish_of(view)
        live, strays = _by_index(view, handler.kind, workloads)
        instances = tuple(_instance(view, handler, revision, index, live[index], now) for index in sorted(live))
        return cls(view, handler, revision, wish, live, tuple(strays), instances, decide(wish, instances))

    def desired(self, index: int) -> JsonObject:
        """The workload that an instance is to have, with its revision."""
        return marked(self.handler.desired(self.view, index), self.revision)

    @property
    def at_rest(self) -> frozenset[int]:
        """Instances that stay as they are for now: outdated ones, and those that drain."""
        return self.step.hold | self.step.ask | self.step.draining

    @property
    def present(self) -> frozenset[int]:
        """Indices that have an instance after this step."""
        return frozenset(range(self.wish.replicas)) | self.step.surge | self.at_rest

    @property
    def due(self) -> list[int]:
        """Instances to bring to their desired state now."""
        return sorted(self.present - self.at_rest)

    def drain_left_s(self, now: datetime) -> float | None:
        """When the next drain is over at the latest."""
        asked = [self.live[index]["metadata"].get("annotations", {}) for index in self.step.draining]
        return min((left for each in asked if (left := seconds_left(each, _drain_timeout(self.view), now)) is not None), default=None)


def wish_of(view: RoleView) -> Wish:
    """What the role asks for, as the decision takes it."""
    is_paused = ROLLOUT_WAITS_FOR in view.instance_set.metadata.annotations
    return Wish(view.replicas, view.instance_set.spec.rollout, _drain_timeout(view) > 0, is_paused)


def is_instance_ready(workload: Object) -> bool:
    """Whether a workload of any kind is ready and stays."""
    kind = (workload.get("apiVersion"), workload.get("kind"))
    handlers = [each for each in HANDLERS if (each.kind.api_version, each.kind.kind) == kind]
    return not is_deleting(workload) and any(each.is_ready(workload) for each in handlers)


def _instance(view: RoleView, handler: WorkloadHandler, revision: str, index: int, live: Object, now: datetime) -> Instance:
    return Instance(
        index=index,
        is_new=is_current(live, handler.kind, revision, lambda: handler.desired(view, index)),
        is_ready=is_instance_ready(live),
        drain=drain_of(live["metadata"].get("annotations", {}), _drain_timeout(view), now),
        is_going=is_deleting(live),
    )


def _by_index(view: RoleView, kind: Kind, workloads: WorkloadsByKind) -> tuple[dict[int, Object], list[Object]]:
    live: dict[int, Object] = {}
    strays: list[Object] = []
    for index, each in _numbered(kind, workloads):
        if index < 0 or index in live or name_of(each) != workload_name(view.service, view.role, index):
            strays.append(each)
        else:
            live[index] = each
    return live, strays


def _numbered(kind: Kind, workloads: WorkloadsByKind) -> Iterator[tuple[int, Object]]:
    """Every workload with a number, those of the role's kind first."""
    for of in sorted(workloads, key=lambda each: each != kind):
        for each in workloads[of].values():
            if (index := decimal(label_of(each, INSTANCE_INDEX))) is not None:
                yield index, each


def _drain_timeout(view: RoleView) -> int:
    return view.instance_set.spec.drain_timeout_seconds or 0
