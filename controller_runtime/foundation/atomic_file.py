# SPDX-License-Identifier: Apache-2.0
"""Files that a reader sees whole: the old content or the new one, never a mixture, also after a power cut.

Write to a temporary file in the same directory, flush it to the disk, rename it over the target, flush the directory.
Seed: controller manual, process and cluster status files are read back after a crash.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def write_atomic(path: Path, data: bytes, mode: int = 0o640) -> None:
    """Replace the content of `path`. Blocks on the disk: inside an event loop call it through `asyncio.to_thread`.

    The file ends with exactly `mode`, whatever the umask. A symbolic link at `path` is replaced, not followed.

    Raises:
        OSError: no space, no permission, no such directory. The old content is untouched and nothing is left behind.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with open(fd, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(fd, mode)
            os.fsync(fd)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _flush_directory(path.parent)


def _flush_directory(directory: Path) -> None:
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
