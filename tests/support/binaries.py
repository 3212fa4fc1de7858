# SPDX-License-Identifier: Apache-2.0
"""Where tests find the real binaries: `.tools/bin` of the checkout, filled by `make tools`.

`ASCEND_PD_TOOLS_BIN` names another folder, for machines that bring their own.
"""

from __future__ import annotations

import os
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]


def binary(name: str) -> Path:
    """Path of an executable, for example `binary("etcd")`.

    Raises:
        FileNotFoundError: it is not built; the message names the command that builds it.
    """
    folder = Path(os.environ.get("ASCEND_PD_TOOLS_BIN") or CHECKOUT / ".tools" / "bin")
    path = folder / name
    if not os.access(path, os.X_OK):
        raise FileNotFoundError(f"{name} is not in {folder}. Run `make tools`.")
    return path
