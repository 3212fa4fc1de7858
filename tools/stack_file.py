# SPDX-License-Identifier: Apache-2.0
"""The working stack file build/Pulumi.<stack>.yaml: the tracked file plus what Pulumi writes into it.

Invariants: the tracked file is never written; the working copy follows it whenever it changes; the
encryption salt and secrets that `pulumi config set` added stay as long as the tracked file does not change,
and the salt stays always, since the state is encrypted with it.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from tools.places import Places

_SALT = "encryptionsalt:"


def write_stack_file(places: Places, stack: str) -> Path:
    """Bring the working stack file up to date and return its path."""
    tracked = (places.checkout / f"Pulumi.{stack}.yaml").read_text()
    working = places.checkout / "build" / f"Pulumi.{stack}.yaml"
    mark = places.checkout / "build" / f".Pulumi.{stack}.source"
    digest = hashlib.sha256(tracked.encode()).hexdigest()
    if working.is_file() and mark.is_file() and mark.read_text() == digest:
        return working
    working.parent.mkdir(exist_ok=True)
    working.write_text(merge(tracked, working.read_text() if working.is_file() else ""))
    mark.write_text(digest)
    return working


def merge(tracked: str, working: str) -> str:
    """Return the tracked text with the salt of the working file."""
    salt = [line for line in working.splitlines() if line.startswith(_SALT)]
    return tracked.rstrip("\n") + "\n" + "".join(f"{line}\n" for line in salt[-1:])
