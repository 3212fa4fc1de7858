# SPDX-License-Identifier: Apache-2.0
"""The checkout's view of the binaries: links in `.tools`, replaced atomically.

Layout: `bin/` for what goes on PATH, `pulumi/plugins/resource-<name>-v<version>/` for resource plugins
(the engine warns on each use of one it finds on PATH), `share/` for data files. A plugin folder must be
a real folder: the engine passes over folders that are links.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from tools.catalogue import Binary
from tools.places import Places


def link_binary(binary: Binary, target: Path, places: Places) -> None:
    """Link one binary, its scripts and its data files; `target` is the binary, the rest lies beside it."""
    if binary.plugin:
        _link(places.pulumi_home / "plugins" / binary.plugin_folder / binary.name, target)
        return
    for name in (binary.name, *binary.scripts):
        _link(places.bin / name, target.parent / name)
    for file in binary.module_files:
        _link(places.share / file.target, target.parent / file.target)


def linked_path(binary: Binary, places: Places) -> Path:
    """Return where `link_binary` puts the binary."""
    if binary.plugin:
        return places.pulumi_home / "plugins" / binary.plugin_folder / binary.name
    return places.bin / binary.name


def remove_strangers(catalogue: Iterable[Binary], places: Places) -> None:
    """Remove links in `.tools/bin` that no row of the table owns any more, so that nothing stale runs."""
    owned = {name for binary in catalogue if not binary.plugin for name in (binary.name, *binary.scripts)}
    for path in places.bin.glob("*"):
        if path.is_symlink() and path.name not in owned:
            path.unlink()


def _link(link: Path, target: Path) -> None:
    if link.is_symlink() and Path(os.readlink(link)) == target:
        return
    link.parent.mkdir(parents=True, exist_ok=True)
    fresh = link.with_name(f".{link.name}.{os.getpid()}")
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(target)
    fresh.replace(link)
