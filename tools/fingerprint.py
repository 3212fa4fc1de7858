# SPDX-License-Identifier: Apache-2.0
"""The content hash of a binary: equal inputs, equal hash, so a cached binary is known to be current.

Inputs: every file of the family (go.mod, go.sum, mains, scripts), the flags, the fixed environment
and the Go version with its platform. Hidden files are left out: editors make them.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from tools.catalogue import Binary
from tools.errors import ToolsError
from tools.go_command import FIXED_ENVIRONMENT, Go, build_flags

LENGTH = 20


def fingerprint(binary: Binary, source: Path, go: Go) -> str:
    """Return the name of the binary's cache folder.

    Raises:
        ToolsError: the family has no go.mod.
    """
    if not (source / "go.mod").is_file():
        raise ToolsError(f"{source}: no go.mod for {binary.name}. The checkout is incomplete: restore the folder with git.")
    inputs = {
        "go": [go.version, go.platform],
        "environment": FIXED_ENVIRONMENT,
        "name": binary.name,
        "package": binary.package,
        "flags": build_flags(binary),
        "module_files": [[file.module, *file.paths, file.target] for file in binary.module_files],
        "files": {
            path.relative_to(source).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(source.rglob("*"))
            if path.is_file() and not path.name.startswith(".")
        },
    }
    return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()[:LENGTH]
