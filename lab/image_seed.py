# SPDX-License-Identifier: Apache-2.0
"""Give new nodes their images in half a second: import once, hard-link into each.

A throw-away containerd imports the archives; its folder is cached per set of archives and cloned by hard
links. Safe because overlay lower layers and content blobs are never written in place; only the `*.db` files
are, and those are real copies. The cache must lie on the same file system as the labs.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Sequence
from pathlib import Path

from lab.commands import run
from lab.images import identity, import_script, missing_on, note_imported
from lab.state import BASE, Lab
from lab.topology import NodeSpec

SEEDS = BASE / "image-seeds"
_KEPT = 3
_SOCKET = "/run/seed/containerd.sock"


def ensure_seed(archives: Sequence[Path], seeds: Path = SEEDS) -> Path:
    """Return a containerd root that holds the archives. Keeps the three most recent sets."""
    content = "\n".join([*(identity(archive) for archive in archives), import_script(archives)])
    key = hashlib.sha256(content.encode()).hexdigest()[:12]
    final = seeds / key
    if not final.exists():
        working = seeds / f"{key}.tmp"
        shutil.rmtree(working, ignore_errors=True)
        working.mkdir(parents=True, mode=0o700)
        _import(working, archives)
        working.rename(final)
    final.touch()
    oldest_first = sorted((path for path in seeds.iterdir() if path.suffix != ".tmp"), key=lambda path: path.stat().st_mtime)
    for path in oldest_first[:-_KEPT]:
        shutil.rmtree(path)
    return final / "root"


def plant(lab: Lab, node: NodeSpec, root: Path, archives: Sequence[Path]) -> None:
    """Make the node's containerd folder from the seed, unless the node has one already."""
    target = lab.node_folder(node) / "var" / "lib" / "containerd"
    if target.exists():
        return
    partial = target.with_name("containerd.tmp")
    shutil.rmtree(partial, ignore_errors=True)
    partial.parent.mkdir(parents=True, exist_ok=True)
    run("cp", "-al", root, partial)
    for database in partial.rglob("*.db"):
        content = database.read_bytes()
        database.unlink()
        database.write_bytes(content)
    partial.rename(target)
    note_imported(lab, node, archives)


def needs_seed(lab: Lab) -> bool:
    """True when a node is new and has no images at all."""
    return any(not (lab.node_folder(node) / "var" / "lib" / "containerd").exists() and missing_on(lab, node) for node in lab.nodes)


def _import(folder: Path, archives: Sequence[Path]) -> None:
    config = folder / "containerd.toml"
    config.write_text(
        f"""version = 2
root = "{folder}/root"
state = "/run/seed"
disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.internal.v1.opt"]
[grpc]
  address = "{_SOCKET}"
"""
    )
    script = f"""set -e
mount -t tmpfs tmpfs /run
mkdir /run/seed
containerd -c {config} >{folder}/log 2>&1 &
until [ -S {_SOCKET} ]; do sleep 0.05; done
{import_script(archives, _SOCKET)}
kill %1
wait || true
sync -f {folder}
"""
    own_world = ("unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child=SIGKILL", "--mount-proc")
    run(*own_world, "bash", "-c", script)
