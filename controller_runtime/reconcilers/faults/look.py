# SPDX-License-Identifier: Apache-2.0
"""One look at one InstanceSet: what fault handling reads, and what it hands back to the reconciler."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from controller_runtime.api.meta import JsonObject
from controller_runtime.api.names import workload_name
from controller_runtime.kube.kind import Kind, Object
from controller_runtime.kube.store import Store
from controller_runtime.kube.workqueue import Request
from controller_runtime.reconcilers.apply import WriteError
from controller_runtime.reconcilers.faults.pods import role_key
from controller_runtime.reconcilers.role_view import RoleView
from controller_runtime.reconcilers.workloads import WorkloadHandler


@dataclass(frozen=True)
class FaultCaches:
    """What fault handling reads."""

    pods: Store
    instance_sets: Store
    infer_services: Store
    sets: Store
    workloads: Mapping[Kind, Store]


@dataclass
class Look:
    """One look at one InstanceSet. `workloads`: of the role's kind, by name, kept up to date by what is done to them.

    `failures`: reads and writes that went wrong. `again_s`: when another look is due, None when nothing is.
    """

    obj: Object
    view: RoleView
    handler: WorkloadHandler
    workloads: dict[str, Object]
    failures: list[tuple[JsonObject, WriteError]] = field(default_factory=list)
    again_s: float | None = None

    @property
    def request(self) -> Request:
        """Of the InstanceSet."""
        return Request(self.view.instance_set.metadata.namespace, self.view.instance_set.metadata.name)

    def name_of(self, index: int) -> str:
        """Name of the workload of an instance."""
        return workload_name(self.view.service, self.view.role, index)

    @property
    def is_served(self) -> bool:
        """Whether every instance is ready, by its workload."""
        names = (self.name_of(index) for index in range(self.view.replicas))
        return all((found := self.workloads.get(name)) is not None and self.handler.is_ready(found) for name in names)

    @property
    def key(self) -> str:
        """Of the pods of the role."""
        return role_key(self.request.namespace, self.view.service, self.view.role)

    def again(self, seconds: float | None) -> None:
        """Ask for another look."""
        if seconds is not None:
            self.again_s = seconds if self.again_s is None else min(self.again_s, seconds)
