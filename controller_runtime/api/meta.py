# SPDX-License-Identifier: Apache-2.0
"""What the three kinds of the Infer Operator share: group and version, metadata, owner, condition.

The models are also the source of the CRD schemas (`crds.py`): a constraint written here is refused by
the API server, a docstring written here is what `kubectl explain` shows.
Seed: operator RFC, 6.1.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from controller_runtime.api.base import KubeModel

GROUP = "mindcluster.huawei.com"
VERSION = "v1"
API_VERSION = f"{GROUP}/{VERSION}"

JsonObject = dict[str, Any]
"""A part of a Kubernetes object that the operator carries without interpreting it, as decoded from JSON."""

DNS_LABEL = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
DNS_LABEL_MAX = 63
"""Longest label value, Service name and host name."""

ATOMIC: JsonObject = {"x-kubernetes-map-type": "atomic"}
"""The whole map has one owner: applying it also removes what somebody else added to it."""

Int32 = Annotated[int, Field(ge=0, le=2**31 - 1, json_schema_extra={"format": "int32"})]
DnsLabel = Annotated[str, Field(pattern=DNS_LABEL, min_length=1, max_length=DNS_LABEL_MAX)]


class SchemaModel(KubeModel):
    """A model whose docstrings become descriptions in the CRD."""

    model_config = ConfigDict(use_attribute_docstrings=True)


class Metadata(SchemaModel):
    """Labels and annotations for the objects made from a template."""

    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)


class OwnerReference(KubeModel):
    """One owner of an object. The garbage collector deletes an object whose owners are gone."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool = False
    block_owner_deletion: bool = False


class ObjectMeta(KubeModel):
    """The metadata the reconcilers read."""

    name: str
    namespace: str = ""
    uid: str = ""
    generation: int = 0
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)
    owner_references: tuple[OwnerReference, ...] = ()
    deletion_timestamp: str | None = None

    @property
    def controller(self) -> OwnerReference | None:
        """The managing owner; Kubernetes allows at most one."""
        return next((owner for owner in self.owner_references if owner.controller), None)


class Condition(SchemaModel):
    """One observed fact about an object."""

    type: Annotated[str, Field(max_length=316)]
    status: Literal["True", "False", "Unknown"]
    reason: Annotated[str, Field(min_length=1, max_length=1024, pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")]
    """The cause in one word, for programs."""
    message: Annotated[str, Field(max_length=32768)]
    """The cause in a sentence, for people."""
    last_transition_time: Annotated[str, Field(json_schema_extra={"format": "date-time"})]
    """When `status` last changed."""


class Status(SchemaModel):
    """Progress of an object. Zero counts are written, so that columns of `kubectl get` are never empty."""

    observed_generation: Annotated[int, Field(json_schema_extra={"format": "int64"})] = 0
    """Generation of the spec these numbers belong to."""
    replicas: Int32 = 0
    ready_replicas: Int32 = 0
    conditions: Annotated[
        list[Condition],
        Field(json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}),
    ] = Field(default_factory=list)

    def condition(self, kind: str) -> Condition | None:
        """The condition of that type, None when it was never written."""
        return next((each for each in self.conditions if each.type == kind), None)
