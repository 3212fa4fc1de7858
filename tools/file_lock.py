# SPDX-License-Identifier: Apache-2.0
"""A lock between processes, released by the kernel when its holder dies."""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def locked(path: Path, *, shared: bool = False, on_wait: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Hold `path` for the body. `on_wait` is called once when another process has to finish first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    with path.open("a") as file:
        try:
            fcntl.flock(file, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            on_wait()
            fcntl.flock(file, kind)
        yield


@contextmanager
def locked_if_free(path: Path) -> Iterator[bool]:
    """Hold `path` alone for the body when nobody else does; the value says whether it is held."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
