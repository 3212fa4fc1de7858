# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from components.field_manager import AWAITED
from tests.support.pulumi_mocks import Inventory

MANAGER = "pulumi.com/patchFieldManager"


def test_every_awaited_workload_is_written_under_one_name_and_nothing_else_is(dev: Inventory) -> None:
    signed: set[tuple[str, str]] = set()
    unsigned: set[str] = set()
    for one in dev.resources:
        kind = one.type.rpartition(":")[2]
        if one.is_object and MANAGER in (one.metadata.get("annotations") or {}):
            signed.add((kind, one.metadata["annotations"][MANAGER]))
        elif one.is_object:
            unsigned.add(kind)

    assert signed == {(kind, "ascend-pd") for kind in AWAITED}
    assert not unsigned & {"Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob", "InferServiceSet", "Pod"}
