# SPDX-License-Identifier: Apache-2.0
"""A copy of standard output in a file that rotates by size and forgets by age and number.

Invariants: a line is never split over two files; standard output gets every line even when the file cannot be written.
Seed: operator RFC, 8.3 (`--logFile`, `--maxAge`, `--maxBackups`, `--isCompress`).
"""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from controller_runtime.errors import ConfigError

ROTATE_BYTES = 20 * 2**20
FILE_MODE, BACKUP_MODE, DIRECTORY_MODE = 0o640, 0o440, 0o750
DAY_S = 86400.0


@dataclass(frozen=True)
class LogFileSettings:
    """Where the copy goes and how much of the past is kept."""

    path: Path
    max_age_days: int
    max_backups: int
    compress: bool
    rotate_bytes: int = ROTATE_BYTES


class LogFile(io.TextIOBase):
    """A text stream over standard output and the file. Made for `contextlib.redirect_stdout`."""

    def __init__(self, settings: LogFileSettings, terminal: TextIO) -> None:
        """Open the file, or raise ConfigError when it cannot be written."""
        self._settings = settings
        self._terminal = terminal
        path = settings.path
        if not path.is_absolute() or ".." in path.parts:
            raise ConfigError(f"--logFile {path}: is no absolute path without '..'. Give one.")
        try:
            path.parent.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
            self._file = self._open()
        except OSError as error:
            raise ConfigError(f"--logFile {path}: cannot be written ({error.strerror}). Mount a writable volume there.") from error

    def write(self, text: str) -> int:
        """Write to both. A full disk costs the copy, not the line."""
        self._terminal.write(text)
        try:
            if self._file.tell() > 0 and self._file.tell() + len(text) > self._settings.rotate_bytes:
                self._rotate()
            self._file.write(text.encode())
        except OSError as error:
            self._terminal.write(f'{{"level":"error","event":"log file not written","err":"{error.strerror}"}}\n')
        return len(text)

    def flush(self) -> None:
        """Flush standard output; the file is not buffered."""
        self._terminal.flush()

    def writable(self) -> bool:
        """Always."""
        return True

    def close(self) -> None:
        """Close the file; standard output stays open."""
        self._file.close()
        super().close()

    def _open(self) -> io.FileIO:
        descriptor = os.open(self._settings.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, FILE_MODE)
        file = io.FileIO(descriptor, "w")
        file.seek(0, os.SEEK_END)
        return file

    def _rotate(self) -> None:
        path = self._settings.path
        backup = path.with_name(f"{path.stem}-{time.strftime('%Y-%m-%dT%H-%M-%S')}.{time.time_ns() % 10**9:09d}{path.suffix}")
        with contextlib.suppress(FileNotFoundError):
            path.rename(backup)
        full, self._file = self._file, self._open()
        full.close()
        if not backup.exists():
            return
        if self._settings.compress:
            backup = _compress(backup)
        backup.chmod(BACKUP_MODE)
        self._forget()

    def _forget(self) -> None:
        path = self._settings.path
        backups = sorted(path.parent.glob(f"{path.stem}-*{path.suffix}*"), key=lambda each: each.name, reverse=True)
        oldest = time.time() - self._settings.max_age_days * DAY_S
        for place, backup in enumerate(backups):
            if place >= self._settings.max_backups or backup.stat().st_mtime < oldest:
                backup.unlink(missing_ok=True)


def _compress(plain: Path) -> Path:
    packed = plain.with_name(f"{plain.name}.gz")
    with plain.open("rb") as source, gzip.open(packed, "wb") as target:
        shutil.copyfileobj(source, target)
    plain.unlink()
    return packed
