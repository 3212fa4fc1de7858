# SPDX-License-Identifier: Apache-2.0
"""Base classes of all models."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class Model(BaseModel):
    """A file or setting of ours: frozen, unknown keys refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)


class WireModel(BaseModel):
    """What another system sends: frozen, unknown keys ignored. Wire names are aliases."""

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)


class KubeModel(BaseModel):
    """A Kubernetes object of ours: camelCase on the wire, unknown keys ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True, alias_generator=to_camel)
