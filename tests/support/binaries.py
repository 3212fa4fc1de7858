# SPDX-License-Identifier: Apache-2.0
"""Where tests find the real binaries: the links that `make tools` leaves in `.tools`.

A missing binary is a failure with the remedy in it, never a skipped test.
"""

from __future__ import annotations

import os
from pathlib import Path

from tools.catalogue import CATALOGUE
from tools.links import linked_path
from tools.places import Places

PLACES = Places.of_user(os.environ)


class MissingBinaryError(AssertionError):
    """A test needs a binary that was not built."""


def binary(name: str) -> Path:
    """Return the path of a built binary, a resource plugin included, by its name in the tools' table."""
    scripts = {script: row for row in CATALOGUE for script in row.scripts}
    row = next((row for row in CATALOGUE if row.name == name), scripts.get(name))
    if row is None:
        raise MissingBinaryError(f"{name} is not in the table of tools/catalogue.py. Add it there or correct the name.")
    path = linked_path(row, PLACES).with_name(name)
    if not os.access(path, os.X_OK):
        raise MissingBinaryError(f"{path} is missing. Run `make tools`.")
    return path


def kwok_stages() -> Path:
    """Return the file of stages that makes pods on kwok's nodes Ready (`kwok --config`)."""
    path = PLACES.share / "kwok-stages.yaml"
    if not path.is_file():
        raise MissingBinaryError(f"{path} is missing. Run `make tools`.")
    return path
