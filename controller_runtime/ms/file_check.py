# SPDX-License-Identifier: Apache-2.0
"""Is a file that others mounted safe to read?

Symbolic links are followed only along the `..data` chain of a Kubernetes volume. The owner must be this
process or, as in such a volume, root with a group of ours. Seed: controller manual,
`MINDIE_CHECK_INPUTFILES_PERMISSION`; steps as the reference controller takes them.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import Final

MAX_PATH_CHARS: Final = 256
MAX_SIZE_BYTES: Final = 101 * 1024 * 1024
DATA_MODE: Final = 0o640
SECRET_MODE: Final = 0o440
KUBERNETES_DATA: Final = "..data"
_ALLOWED_CHARS: Final = re.compile(r"[a-zA-Z0-9_./~-]+")
_CLASSES: Final = (("other", 0o007), ("group", 0o070), ("owner", 0o700))


def file_problem(path: str, *, allowed_mode: int, check_permission: bool) -> str | None:
    """What makes this file unreadable for us, None when nothing does.

    `allowed_mode`: widest permission bits; with `check_permission` off neither they nor the owner count.
    """
    if not path or len(path) > MAX_PATH_CHARS:
        return f"path has {len(path)} characters, allowed 1-{MAX_PATH_CHARS}. Shorten it."
    if not _ALLOWED_CHARS.fullmatch(path) or ".." in Path(path).parts:
        return "path holds '..' or a character other than letters, digits and _ . / ~ -. Write a plain path."
    if problem := _link_problem(Path(path)):
        return problem
    try:
        facts = os.stat(path)
    except OSError as error:
        return f"cannot be read: {error.strerror}. Create it or correct the path."
    if not stat.S_ISREG(facts.st_mode):
        return "is not a regular file. Name a file."
    if facts.st_size > MAX_SIZE_BYTES:
        return f"has {facts.st_size} bytes, allowed {MAX_SIZE_BYTES}. Make it smaller."
    return _permission_problem(facts, allowed_mode) if check_permission else None


def _link_problem(path: Path) -> str | None:
    if not path.is_symlink():
        return None
    real = Path(os.path.realpath(path))
    volume = Path(os.path.realpath(path.parent))
    if volume.name.startswith(".."):
        volume = volume.parent
    if os.readlink(path) == f"{KUBERNETES_DATA}/{path.name}" and real.is_relative_to(volume):
        return None
    return "is a symbolic link. Name the file it points to."


def _permission_problem(facts: os.stat_result, allowed_mode: int) -> str | None:
    mode = stat.S_IMODE(facts.st_mode)
    for who, mask in _CLASSES:
        if mode & mask & ~allowed_mode:
            return f"has mode {mode:04o}, which gives the {who} more than {allowed_mode:04o}. Run chmod {allowed_mode:04o} on it."
    is_ours = facts.st_uid == os.getuid()
    is_volume = facts.st_uid == 0 and facts.st_gid in {os.getgid(), *os.getgroups()}
    if not (is_ours or is_volume):
        return f"belongs to user {facts.st_uid}, this process is user {os.getuid()}. Change the owner."
    return None
