# SPDX-License-Identifier: Apache-2.0
"""Kernel settings that kubelets change for the whole machine: remembered before the first lab, put back after the last.

One record serves all labs, since a second lab would otherwise remember what the first one's kubelets wrote.
"""

from __future__ import annotations

import json
from pathlib import Path

SETTINGS = (
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
)
PROC = Path("/proc/sys")
_BOOT_ID = "kernel/random/boot_id"


def remember(record: Path, proc: Path = PROC) -> None:
    """Write the present values to `record`, unless it holds those of this boot already."""
    boot_id = (proc / _BOOT_ID).read_text().strip()
    if record.exists() and json.loads(record.read_text())["boot_id"] == boot_id:
        return
    values = {name: (proc / name).read_text().strip() for name in SETTINGS if (proc / name).exists()}
    record.parent.mkdir(parents=True, exist_ok=True)
    temporary = record.with_suffix(".tmp")
    temporary.write_text(json.dumps({"boot_id": boot_id, "values": values}))
    temporary.rename(record)


def restore(record: Path, proc: Path = PROC) -> None:
    """Put the values back and delete the record. A record of an earlier boot is only deleted."""
    if not record.exists():
        return
    content = json.loads(record.read_text())
    if content["boot_id"] == (proc / _BOOT_ID).read_text().strip():
        for name, value in content["values"].items():
            (proc / name).write_text(value)
    record.unlink()
