# SPDX-License-Identifier: Apache-2.0
"""The checkout's view of the binaries: links in `.tools`, replaced atomically.

Layout: `bin/` for what goes on PATH, `pulumi/plugins/resource-<name>-v<version>/` for resource plugins
(the engine warns on each use of one it finds on PATH), `share/` for data files. A plugin folder must be
a real folder: the engine passes over folders that are links. Pulumi and its language host are hard links
or copies, because the engine resolves its own path and expects the host beside it.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterable
from pathlib import Path

from tools.catalogue import Binary
from tools.places import Places


def link_binary(binary: Binary, target: Path, places: Places, *, is_installed: bool = False) -> None:
    """Link one binary, its scripts and its data files; `target` is the binary, the rest lies beside it.

    An installed one is only pointed at: what it needs beside it is where it was installed.
    """
    if binary.plugin:
        _link(places.pulumi_home / "plugins" / binary.plugin_folder / binary.name, target)
        return
    place = _duplicate if binary.bundled and not is_installed else _link
    for name in (binary.name, *binary.scripts):
        place(places.bin / name, target.parent / name)
    for file in binary.module_files:
        _link(places.share / file.target, target.parent / file.target)


def linked_path(binary: Binary, places: Places) -> Path:
    """Return where `link_binary` puts the binary."""
    if binary.plugin:
        return places.pulumi_home / "plugins" / binary.plugin_folder / binary.name
    return places.bin / binary.name


def is_same_content(link: Path, target: Path) -> bool:
    """Tell whether `link` is `target`, or a copy that `link_binary` made of it."""
    found, wanted = link.stat(), target.stat()
    return os.path.samestat(found, wanted) or (found.st_size, found.st_mtime_ns) == (wanted.st_size, wanted.st_mtime_ns)


def remove_strangers(catalogue: Iterable[Binary], places: Places) -> None:
    """Remove what lies in `.tools/bin` that no row of the table owns any more, so that nothing stale runs."""
    owned = {name for binary in catalogue if not binary.plugin for name in (binary.name, *binary.scripts)}
    for path in places.bin.glob("*"):
        if path.name not in owned and not path.name.startswith("."):
            path.unlink()


def _duplicate(copy: Path, target: Path) -> None:
    if copy.is_file() and not copy.is_symlink() and is_same_content(copy, target):
        return
    fresh = _fresh_name(copy)
    try:
        os.link(target, fresh)
    except OSError:  # the cache is on another file system
        shutil.copy2(target, fresh)
    fresh.replace(copy)


def _link(link: Path, target: Path) -> None:
    if link.is_symlink() and Path(os.readlink(link)) == target:
        return
    fresh = _fresh_name(link)
    fresh.symlink_to(target)
    fresh.replace(link)


def _fresh_name(path: Path) -> Path:
    """Return a free name in the folder of `path`, from which it can be replaced in one step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{threading.get_native_id()}")
    fresh.unlink(missing_ok=True)
    return fresh
