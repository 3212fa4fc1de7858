# SPDX-License-Identifier: Apache-2.0
"""What must survive a restart: rebuilds already counted, and whose pods are still to be removed.

Kept as an annotation of the InstanceSet, written before the workload is deleted. A fault concerns the workload of one uid, so
after a crash the record tells whether this very rebuild was counted. An annotation that cannot be read counts as none.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field, ValidationError

from controller_runtime.api.base import KubeModel
from controller_runtime.api.labels import FAULT_RECORD
from controller_runtime.foundation.log import get_logger

log = get_logger(__name__)


class InstanceRecord(KubeModel):
    """One instance."""

    used: int = 0
    """Rebuilds because of the business inside, of `fault-retry-times`."""
    counted: str = ""
    """Uid of the workload whose rebuild was the last one counted."""
    exhausted: str = ""
    """Uid of the workload whose fault was told and left alone, because no rebuild was left."""
    removing: tuple[str, ...] = ()
    """Uids of what controlled the pods that this operator removes itself."""


class FaultRecord(KubeModel):
    """What is remembered of an InstanceSet."""

    instances: dict[int, InstanceRecord] = Field(default_factory=dict)
    """By index; only instances with something to remember."""
    makes_room: bool = False
    """After a rebuild: less important roles are still to give way."""

    @classmethod
    def read(cls, annotations: Mapping[str, str]) -> FaultRecord:
        """The record of an InstanceSet with these annotations."""
        text = annotations.get(FAULT_RECORD)
        if text is None:
            return cls()
        try:
            return cls.model_validate_json(text)
        except ValidationError as err:
            log.warning("fault record unreadable, retries are counted anew", err=err)
            return cls()

    def of(self, index: int) -> InstanceRecord:
        """What is remembered of one instance."""
        return self.instances.get(index, InstanceRecord())

    def text(self) -> str:
        """The annotation."""
        return self.model_dump_json(by_alias=True, exclude_defaults=True)
