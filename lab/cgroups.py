# SPDX-License-Identifier: Apache-2.0
"""Control groups of the machines, on both kernel layouts.

Each machine has `<prefix>/<machine>`; its daemons live in the leaf `sys`, its pods in what the kubelet makes
beside it. The groups also answer "which processes belong to this machine" after any crash, with no pid file.
On version 1 every hierarchy carries the same tree; on version 2 there is one tree whose inner groups hold no
process (kernel rule: only leaves may, once controllers are delegated). The lab has run on version 1 only.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from lab.errors import LabError

MOUNT = Path("/sys/fs/cgroup")
_REMOVE_TIMEOUT_S = 5.0


class CgroupTree(Protocol):
    """The operations that differ between the two kernel layouts. `path`: relative, such as `apd0/node1`."""

    def roots(self) -> list[Path]:
        """Mount points of all hierarchies in which groups of a machine can be."""
        ...

    def join_files(self, path: str) -> list[Path]:
        """Files to which a machine's pid 1 writes 0 to join the leaf `sys`."""
        ...

    def create(self, path: str) -> None:
        """Make the group of a machine and its leaf `sys`, ready for a kubelet."""
        ...

    def anonymous_bytes(self, path: str) -> int:
        """Anonymous memory of everything below."""
        ...


class CgroupV1:
    """One tree per controller (`/sys/fs/cgroup/memory`, ...). In hybrid mode runc makes groups in `unified` too."""

    def __init__(self, mount: Path = MOUNT) -> None:
        self._mount = mount

    def roots(self) -> list[Path]:
        """Every hierarchy; links such as `cpu -> cpu,cpuacct` once."""
        return [p for p in sorted(self._mount.iterdir()) if p.is_dir() and not p.is_symlink()]

    def join_files(self, path: str) -> list[Path]:
        """One per controller."""
        return [root / path / "sys" / "cgroup.procs" for root in self._controllers()]

    def create(self, path: str) -> None:
        """Make `path` and `path/sys` in each hierarchy; a new cpuset is empty until copied down."""
        for root in self._controllers():
            for folder in _chain(root, f"{path}/sys"):
                folder.mkdir(exist_ok=True)
                if (root / "cpuset.cpus").exists():
                    for name in ("cpuset.cpus", "cpuset.mems"):
                        (folder / name).write_text((folder.parent / name).read_text())

    def anonymous_bytes(self, path: str) -> int:
        """`total_rss` of the memory controller."""
        return _memory_stat(self._mount / "memory" / path, "total_rss")

    def _controllers(self) -> list[Path]:
        return [root for root in self.roots() if root.name != "unified"]


class CgroupV2:
    """The unified tree. Controllers are delegated down to the machine's group, so that its kubelet can divide them."""

    def __init__(self, mount: Path = MOUNT) -> None:
        self._mount = mount

    def roots(self) -> list[Path]:
        """The one mount."""
        return [self._mount]

    def join_files(self, path: str) -> list[Path]:
        """The one leaf."""
        return [self._mount / path / "sys" / "cgroup.procs"]

    def create(self, path: str) -> None:
        """Make `path` and `path/sys`; every group above `sys` hands all its controllers on.

        Raises:
            LabError: the kernel refuses, as in a container whose own group holds processes.
        """
        folders = list(_chain(self._mount, f"{path}/sys"))
        for parent, folder in zip([self._mount, *folders], folders, strict=False):
            wanted = set((parent / "cgroup.controllers").read_text().split())
            missing = sorted(wanted - set((parent / "cgroup.subtree_control").read_text().split()))
            try:
                if missing:
                    (parent / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in missing))
            except OSError as err:
                raise LabError(f"{parent}: cannot delegate {', '.join(missing)} ({err.strerror}). Run on the machine itself.") from err
            folder.mkdir(exist_ok=True)

    def anonymous_bytes(self, path: str) -> int:
        """`anon`, hierarchical."""
        return _memory_stat(self._mount / path, "anon")


def detect(mount: Path = MOUNT) -> CgroupTree:
    """Choose by what the kernel has mounted."""
    return CgroupV2(mount) if (mount / "cgroup.controllers").exists() else CgroupV1(mount)


def pids(tree: CgroupTree, path: str) -> set[int]:
    """Processes of a machine, in this process's pid namespace."""
    found: set[int] = set()
    for root in tree.roots():
        for file in (root / path).rglob("cgroup.procs"):
            try:
                found.update(int(word) for word in file.read_text().split())
            except OSError:
                continue  # the group went away between listing and reading
    return found - {0}


def kill(tree: CgroupTree, path: str) -> None:
    """SIGKILL whatever is in the group now."""
    for pid in pids(tree, path):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def machines(tree: CgroupTree, prefix: str) -> list[str]:
    """Names of machines that have a group, whether or not anything runs in it."""
    names = {child.name for root in tree.roots() for child in _folders(root / prefix)}
    return sorted(names)


def remove(tree: CgroupTree, path: str) -> None:
    """Remove the group and all below. A group left from a dead pod would cost the next kubelet 3 s each.

    Raises:
        LabError: a process is still in it.
    """
    for root in tree.roots():
        top = root / path
        if not top.is_dir():
            continue
        below = sorted((Path(folder) for folder, _, _ in os.walk(top)), key=lambda p: -len(p.parts))
        for folder in below:
            _remove_one(folder)


def _remove_one(folder: Path) -> None:
    deadline = time.monotonic() + _REMOVE_TIMEOUT_S
    while True:
        try:
            folder.rmdir()
            return
        except FileNotFoundError:
            return
        except OSError as err:
            if time.monotonic() > deadline:
                raise LabError(f"{folder}: cannot be removed ({err.strerror}). Look for processes in its cgroup.procs.") from err
            time.sleep(0.05)


def _chain(root: Path, path: str) -> Iterator[Path]:
    folder = root
    for part in path.split("/"):
        folder = folder / part
        yield folder


def _folders(folder: Path) -> list[Path]:
    return [p for p in folder.iterdir() if p.is_dir()] if folder.is_dir() else []


def _memory_stat(folder: Path, key: str) -> int:
    try:
        lines = (folder / "memory.stat").read_text().splitlines()
    except FileNotFoundError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.split()[0] == key), 0)
