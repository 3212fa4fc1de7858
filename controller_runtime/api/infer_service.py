# SPDX-License-Identifier: Apache-2.0
"""InferService: one inference service of several roles, for example prefill, decode and router.

Seed: operator RFC, 6.1.2.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from controller_runtime.api.instance_set import InstanceSetSpec
from controller_runtime.api.meta import ATOMIC, ObjectMeta, SchemaModel, Status
from controller_runtime.api.rollout import RolloutStatus

KIND = "InferService"

ROLES_MAX = 32
PRIORITY_MIN, PRIORITY_MAX = 1, 32

UNIQUE_NAMES = {"rule": "self.all(a, self.exists_one(b, b.name == a.name))", "message": "role names must be unique"}
PRIORITY_RANGE = {
    "rule": (
        "!has(self.schedulingStrategy) || !has(self.schedulingStrategy.type) || self.schedulingStrategy.type != 'Priority'"
        " || !has(self.roles)"
        f" || self.roles.all(r, !has(r.priority) || (r.priority >= {PRIORITY_MIN} && r.priority <= {PRIORITY_MAX}))"
    ),
    "message": f"with strategy Priority a role's priority must be {PRIORITY_MIN} to {PRIORITY_MAX}",
}


class SchedulingStrategy(SchemaModel):
    """In which order the roles of a service start."""

    type: Literal["", "Parallel", "Priority"] = ""
    """Empty means Parallel."""

    @property
    def effective(self) -> str:
        """`Parallel` or `Priority`."""
        return self.type or "Parallel"


class InferServiceSpec(SchemaModel):
    """The roles of a service."""

    roles: Annotated[list[InstanceSetSpec], Field(max_length=ROLES_MAX, json_schema_extra={"x-kubernetes-validations": [UNIQUE_NAMES]})] = (
        Field(default_factory=list)
    )
    scheduling_strategy: SchedulingStrategy = Field(default_factory=SchedulingStrategy)


class InferServiceStatus(Status):
    """`replicas`: roles; `readyReplicas`: roles whose InstanceSet is Ready."""

    rollout: RolloutStatus | None = None
    """Sums over all roles."""


class InferService(SchemaModel):
    """An inference service of several cooperating roles."""

    api_version: Literal["mindcluster.huawei.com/v1"] = "mindcluster.huawei.com/v1"
    kind: Literal["InferService"] = "InferService"
    metadata: ObjectMeta
    spec: Annotated[InferServiceSpec, Field(json_schema_extra={**ATOMIC, "x-kubernetes-validations": [PRIORITY_RANGE]})]
    status: InferServiceStatus = Field(default_factory=InferServiceStatus)
