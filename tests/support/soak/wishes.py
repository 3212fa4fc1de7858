# SPDX-License-Identifier: Apache-2.0
"""What users want, as values: services with their roles, and the objects they write for them."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from controller_runtime.api.labels import FAULT_RETRY_TIMES, FAULT_SCHEDULING, GANG_SCHEDULE
from controller_runtime.kube.kind import INFER_SERVICE, INFER_SERVICE_SET, Kind, Object
from tests.support.infer import API_VERSION

CPU = 1
"""Requested by the container of each pod."""
SHARED = {"app": "soak"}
"""Selector of all workloads that have one of the user's."""
DEFECTS = ("kind", "selector", "replicas", "node port")
"""Ways in which a role can be written wrongly so that only the operator notices."""


@dataclass(frozen=True)
class Role:
    """One role. `bounds`: of an autoscaler, None without one. `defect`: what is wrong with it, "" if nothing is."""

    name: str
    kind: str = "Deployment"
    replicas: int = 1
    pods: int = 1
    image: str = "example/good:1"
    services: tuple[str, ...] = ()
    node_port: int | None = None
    gang: bool = False
    priority: int | None = None
    bounds: tuple[int, int] | None = None
    surge: int = 0
    drain_s: int = 0
    fault_scheduling: str = ""
    retries: str = ""
    shares_selector: bool = False
    defect: str = ""

    def __str__(self) -> str:
        rest = (each for each in fields(self)[5:] if getattr(self, each.name) != each.default)
        more = "".join(f", {each.name} {getattr(self, each.name)}" for each in rest)
        return f"{self.name} {self.replicas} {self.kind} of {self.pods} {self.image}{more}"

    @property
    def pod_labels(self) -> dict[str, str]:
        """Labels of its pods that the user writes."""
        given = {FAULT_SCHEDULING: self.fault_scheduling, FAULT_RETRY_TIMES: self.retries}
        return {key: value for key, value in given.items() if value} | (SHARED if self.shares_selector else {})

    @property
    def metadata_labels(self) -> dict[str, str]:
        """Labels of the role that the user writes."""
        return {GANG_SCHEDULE: "true"} if self.gang else {}

    def written(self) -> Object:
        """As the user writes it."""
        container = {"name": "infer", "image": self.image, "resources": {"requests": {"cpu": str(CPU)}}}
        template = {"metadata": {"labels": self.pod_labels}, "spec": {"containers": [container], "terminationGracePeriodSeconds": 1}}
        spec: Object = {"replicas": "many" if self.defect == "replicas" else self.pods, "template": template}
        if self.shares_selector:
            spec["selector"] = {"matchLabels": SHARED}
        if self.defect == "selector":
            spec["selector"] = {"matchLabels": {"app": "nobody"}}
        made: Object = {
            "name": self.name,
            "replicas": self.replicas,
            "workload": {"apiVersion": "apps/v1", "kind": "Job" if self.defect == "kind" else self.kind},
            "spec": spec,
        }
        if self.metadata_labels:
            made["metadata"] = {"labels": self.metadata_labels}
        if services := self._services():
            made["services"] = services
        if self.bounds is not None:
            made["scalingPolicy"] = {"type": "HPA", "spec": {"minReplicas": self.bounds[0], "maxReplicas": self.bounds[1]}}
        if self.priority is not None:
            made["priority"] = self.priority
        if self.surge:
            made["rolloutStrategy"] = {"maxSurge": self.surge}
        if self.drain_s:
            made["drainTimeoutSeconds"] = self.drain_s
        return made

    def _services(self) -> list[Object]:
        plain = [{"name": name, "spec": {"ports": [{"port": 8000}]}} for name in self.services]
        if self.node_port is None and self.defect != "node port":
            return plain
        port: Object = {"port": 8000} | ({"nodePort": self.node_port} if self.defect != "node port" else {})
        return [*plain, {"name": "outside", "spec": {"type": "NodePort", "ports": [port]}}]


@dataclass(frozen=True)
class Wish:
    """One service of a user: a set of `copies`, or with None an InferService that stands alone."""

    name: str
    roles: tuple[Role, ...]
    copies: int | None = 1
    strategy: str = "Parallel"

    def __str__(self) -> str:
        return f"{self.name} x {self.copies}, {self.strategy}: {'; '.join(map(str, self.roles))}"

    @property
    def kind(self) -> Kind:
        """Of the object the user writes."""
        return INFER_SERVICE if self.copies is None else INFER_SERVICE_SET

    @property
    def services(self) -> tuple[str, ...]:
        """Names of its InferServices."""
        return (self.name,) if self.copies is None else tuple(f"{self.name}-{index}" for index in range(self.copies))

    def spec(self) -> Object:
        """As the user writes it."""
        template: Object = {"roles": [role.written() for role in self.roles]}
        if self.strategy != "Parallel":
            template["schedulingStrategy"] = {"type": self.strategy}
        return template if self.copies is None else {"replicas": self.copies, "template": template}

    def written(self, namespace: str) -> Object:
        """The object as the user writes it."""
        metadata: dict[str, Any] = {"name": self.name, "namespace": namespace}
        return {"apiVersion": API_VERSION, "kind": self.kind.kind, "metadata": metadata, "spec": self.spec()}
