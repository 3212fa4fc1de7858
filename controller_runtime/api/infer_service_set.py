# SPDX-License-Identifier: Apache-2.0
"""InferServiceSet: equal copies of one InferService.

Seed: operator RFC, 6.1.1.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from controller_runtime.api.infer_service import PRIORITY_RANGE, InferServiceSpec
from controller_runtime.api.meta import ObjectMeta, SchemaModel, Status
from controller_runtime.api.rollout import RolloutStatus

KIND = "InferServiceSet"

SERVICES_MIN, SERVICES_MAX = 1, 64


class InferServiceSetSpec(SchemaModel):
    """How many copies of which service."""

    replicas: Annotated[int, Field(ge=SERVICES_MIN, le=SERVICES_MAX, json_schema_extra={"format": "int32"})] | None = None
    """InferServices. Absent means 1 and stays absent."""
    template: Annotated[InferServiceSpec, Field(json_schema_extra={"x-kubernetes-validations": [PRIORITY_RANGE]})]

    @property
    def services(self) -> int:
        """How many InferServices there must be."""
        return 1 if self.replicas is None else self.replicas


class InferServiceSetStatus(Status):
    """`replicas`: InferServices asked for; `readyReplicas`: of these, Ready."""

    rollout: RolloutStatus | None = None
    """Sums over all services."""


class InferServiceSet(SchemaModel):
    """A set of equal InferServices, named `<set>-<index>`."""

    api_version: Literal["mindcluster.huawei.com/v1"] = "mindcluster.huawei.com/v1"
    kind: Literal["InferServiceSet"] = "InferServiceSet"
    metadata: ObjectMeta
    spec: InferServiceSetSpec
    status: InferServiceSetStatus = Field(default_factory=InferServiceSetStatus)
