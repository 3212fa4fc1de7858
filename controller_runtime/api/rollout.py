# SPDX-License-Identifier: Apache-2.0
"""How a changed template reaches the instances of a role, and how far it has come.

Defaults live here and not in the schema: a field the user leaves out stays out of what the user wrote.
Seed: operator RFC, 7.1 ("update"); fields named and counted as those of StatefulSet and LeaderWorkerSet.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from controller_runtime.api.meta import Int32, SchemaModel

SURGE_MAX = 256
DEADLINE_MAX_S = 7 * 24 * 3600
DRAIN_MAX_S = 24 * 3600

CAN_MOVE = {
    "rule": "!has(self.maxUnavailable) || self.maxUnavailable > 0 || (has(self.maxSurge) && self.maxSurge > 0)",
    "message": "maxUnavailable and maxSurge cannot both be 0: no instance could ever be updated",
}


class RolloutStrategy(SchemaModel):
    """How instances are brought to a changed template."""

    max_unavailable: Int32 = 1
    """Instances that may be missing from service because of an update. Absent means 1."""
    max_surge: Annotated[int, Field(ge=0, le=SURGE_MAX, json_schema_extra={"format": "int32"})] = 0
    """Instances beyond `replicas` that run while an update is under way. Absent means 0."""
    partition: Int32 = 0
    """Instances with a lower index keep their old template. Absent means 0: none does."""
    progress_deadline_seconds: Annotated[int, Field(ge=1, le=DEADLINE_MAX_S, json_schema_extra={"format": "int32"})] = 600
    """An update that gets no further for this long is reported as stuck. Absent means 600."""

    @property
    def can_move(self) -> bool:
        """Whether it lets any instance be updated."""
        return self.max_unavailable > 0 or self.max_surge > 0


class RolloutStatus(SchemaModel):
    """How far the present template has come. Complete: `step` equals `steps`."""

    revision: str = ""
    """Content hash of the template that is wanted now."""
    new_instances: Int32 = 0
    """Of the instances asked for, those of this revision."""
    old_instances: Int32 = 0
    """Of the instances asked for, those of another one."""
    step: Int32 = 0
    """Instances that were to be updated and now serve with this revision."""
    steps: Int32 = 0
    """Instances to be updated."""
    message: str = ""
    """What happens now or what is waited for."""
    last_progress_time: Annotated[str, Field(json_schema_extra={"format": "date-time"})] | None = None
    """While it is under way: when it last got further."""

    @property
    def is_complete(self) -> bool:
        """Whether nothing is left to update."""
        return self.step >= self.steps
