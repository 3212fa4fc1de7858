# SPDX-License-Identifier: Apache-2.0
"""Whether Pulumi knows the dev stack.

`pulumi stack init` writes a stack file beside Pulumi.yaml whatever its options say, which would change a
tracked file; it therefore runs in a folder of its own that holds nothing but the project's name.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tools.errors import ToolsError
from tools.places import PRODUCT, Places

_OWN_OPTIONS = ("PULUMI_OPTION_CONFIG_FILE", "PULUMI_OPTION_POLICY_PACK", "PULUMI_STACK")


def ensure_stack(places: Places, stack: str, environ: Mapping[str, str]) -> None:
    """Create the stack in the backend unless it is there.

    Raises:
        ToolsError: Pulumi refused.
    """
    if _state_file(places, stack).is_file():
        return
    with tempfile.TemporaryDirectory() as scratch:
        Path(scratch, "Pulumi.yaml").write_text(f"name: {PRODUCT}\nruntime: python\n")
        command = ["pulumi", "stack", "init", stack, "--no-select", "--non-interactive"]
        clean = {name: value for name, value in environ.items() if name not in _OWN_OPTIONS}
        done = subprocess.run(command, cwd=scratch, env=clean, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ToolsError(f"pulumi stack init {stack}: {done.stderr.strip()}")


def drop_dead_locks(places: Places, stack: str) -> None:
    """Remove locks of the stack whose process on this machine has died: a killed `pulumi` leaves its own behind."""
    for path in (places.pulumi_state / ".pulumi" / "locks").glob(f"**/{PRODUCT}/{stack}/*.json"):
        holder = json.loads(path.read_text())
        if holder["hostname"] == socket.gethostname() and not _is_alive(int(holder["pid"])):
            path.unlink()


def forget_stack(places: Places, stack: str) -> None:
    """Remove state, backups and locks of the stack; its passphrase stays."""
    folder = places.pulumi_state / ".pulumi"
    for kind in ("stacks", "backups", "history", "locks"):
        for path in folder.glob(f"{kind}/**/{PRODUCT}/{stack}*"):
            if path.name.partition(".")[0] != stack:
                continue
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def _state_file(places: Places, stack: str) -> Path:
    return places.pulumi_state / ".pulumi" / "stacks" / PRODUCT / f"{stack}.json"


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
