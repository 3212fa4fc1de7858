# SPDX-License-Identifier: Apache-2.0
"""InstanceSet: the instances of one role. Its spec is also one entry of an InferService's roles.

One instance is one workload object (Deployment or StatefulSet). `replicas` counts instances, the
workload's own `spec.replicas` counts pods per instance; the pods of a role are their product.
Seed: operator RFC, 6.1.3.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from controller_runtime.api.meta import ATOMIC, DNS_LABEL_MAX, DnsLabel, Int32, JsonObject, Metadata, ObjectMeta, SchemaModel, Status
from controller_runtime.api.rollout import CAN_MOVE, DRAIN_MAX_S, RolloutStatus, RolloutStrategy

KIND = "InstanceSet"

HPA = "HPA"
SERVICES_PER_ROLE_MAX = 16

SERVICE_NAME = r"^[a-z]([-a-z0-9]*[a-z0-9])?$"
UNIQUE_SERVICES = {"rule": "self.all(a, self.exists_one(b, b.name == a.name))", "message": "service names must be unique in a role"}
PORT = {"type": "integer", "format": "int32", "minimum": 1, "maximum": 65535}
SERVICE_SPEC_SCHEMA = {
    "type": "object",
    "x-kubernetes-preserve-unknown-fields": True,
    "properties": {
        "type": {"type": "string", "enum": ["", "ClusterIP", "NodePort", "LoadBalancer", "ExternalName"]},
        "clusterIP": {"type": "string"},
        "selector": {"type": "object", "additionalProperties": {"type": "string"}},
        "ports": {
            "type": "array",
            "maxItems": 64,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["port", "protocol"],
            "items": {
                "type": "object",
                "required": ["port"],
                "x-kubernetes-preserve-unknown-fields": True,
                "properties": {
                    "name": {"type": "string"},
                    "port": PORT,
                    "protocol": {"type": "string", "enum": ["TCP", "UDP", "SCTP"], "default": "TCP"},
                    "nodePort": {**PORT, "minimum": 0},
                    "targetPort": {"x-kubernetes-int-or-string": True},
                },
            },
        },
    },
}
"""The parts of a core/v1 ServiceSpec that are checked when written; the rest is carried as it is."""
PRESERVED = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


class WorkloadRef(SchemaModel):
    """Which kind of workload carries an instance, for example apps/v1 StatefulSet."""

    api_version: Annotated[str, Field(min_length=1)]
    kind: Annotated[str, Field(min_length=1)]


class ServiceTemplate(SchemaModel):
    """A Service in front of a role: one per InferService, named `<name>-<inferservice>-<role>`."""

    name: Annotated[str, Field(pattern=SERVICE_NAME, min_length=1, max_length=DNS_LABEL_MAX)]
    """Starts with a letter, because the Service's own name starts with it."""
    metadata: Metadata = Field(default_factory=Metadata)
    spec: Annotated[JsonObject, Field(json_schema_extra=SERVICE_SPEC_SCHEMA)]
    """A core/v1 ServiceSpec. Without a selector it selects the pods of the role."""


class ScalingPolicy(SchemaModel):
    """Who changes the number of instances."""

    type: str = ""
    """`HPA` is the only known type."""
    spec: Annotated[JsonObject, Field(json_schema_extra=PRESERVED)] = Field(default_factory=dict)
    """An autoscaling/v2 HorizontalPodAutoscalerSpec without scaleTargetRef."""


class InstanceSetSpec(SchemaModel):
    """One role."""

    name: DnsLabel
    """Name of the role, unique in its InferService."""
    replicas: Int32 | None = None
    """Instances. 0 switches the role off. Must be given."""
    workload: WorkloadRef | None = None
    """Must be given; apps/v1 Deployment or StatefulSet."""
    metadata: Metadata = Field(default_factory=Metadata)
    """Labels and annotations of the InstanceSet and its workloads, not of pods."""
    spec: Annotated[JsonObject | None, Field(json_schema_extra=PRESERVED)] = None
    """A DeploymentSpec or StatefulSetSpec. Its `replicas` (pods per instance) defaults to 1; its selector to the instance."""
    services: Annotated[
        list[ServiceTemplate],
        Field(max_length=SERVICES_PER_ROLE_MAX, json_schema_extra={"x-kubernetes-validations": [UNIQUE_SERVICES]}),
    ] = Field(default_factory=list)
    scaling_policy: ScalingPolicy | None = None
    priority: Annotated[int, Field(json_schema_extra={"format": "int32"})] | None = None
    """Strategy Priority only: 1 to 32, lower starts earlier."""
    rollout_strategy: Annotated[RolloutStrategy | None, Field(json_schema_extra={"x-kubernetes-validations": [CAN_MOVE]})] = None
    """How instances are brought to a changed template. Absent means one after the other."""
    drain_timeout_seconds: Annotated[int, Field(ge=0, le=DRAIN_MAX_S, json_schema_extra={"format": "int32"})] | None = None
    """How long an instance may take to finish its requests before it is removed or replaced. Absent or 0: it is not asked to."""

    @property
    def rollout(self) -> RolloutStrategy:
        """The rollout strategy with its defaults."""
        return self.rollout_strategy or RolloutStrategy()

    @property
    def is_autoscaled(self) -> bool:
        """Whether a HorizontalPodAutoscaler decides the number of instances."""
        return self.scaling_policy is not None and self.scaling_policy.type == HPA


class ScalingResourceStatus(SchemaModel):
    """The object that carries out the scaling policy."""

    type: str = ""
    name: str = ""
    ready: bool = False
    message: str = ""


class InstanceSetStatus(Status):
    """`replicas`: instances asked for; `readyReplicas`: of these, with all their pods ready."""

    label_selector: str = ""
    """Selects the role's pods; the scale subresource hands it to autoscalers."""
    scaling_resource_status: ScalingResourceStatus | None = None
    rollout: RolloutStatus | None = None


class InstanceSet(SchemaModel):
    """The instances of one role of an InferService."""

    api_version: Literal["mindcluster.huawei.com/v1"] = "mindcluster.huawei.com/v1"
    kind: Literal["InstanceSet"] = "InstanceSet"
    metadata: ObjectMeta
    spec: Annotated[InstanceSetSpec, Field(json_schema_extra=ATOMIC)]
    status: InstanceSetStatus = Field(default_factory=InstanceSetStatus)
