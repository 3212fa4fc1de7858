# SPDX-License-Identifier: Apache-2.0
"""Checks everything the other commands need and says how to put right what is missing.

A check changes nothing on the machine. One that cannot be made (the kernel without root) is reported as
not checked and counts as a failure, because nothing vouches for it.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from tools import OLDEST_PYTHON
from tools.builder import DISK_NEEDED_BYTES, Builder
from tools.catalogue import select
from tools.errors import ToolsError
from tools.go_command import Go, highest_required_version, version_tuple
from tools.kernel import FEATURES, cgroup_version, try_feature
from tools.packages import NEEDED, install_command, missing_packages
from tools.places import Places
from tools.virtual_environment import is_current

# The dev stack with three nodes takes about 5 GiB; linking kube-apiserver about 3.
MEMORY_NEEDED_BYTES = 8 * 10**9
# Images, nodes' disks and Pulumi state, once every binary is there.
DISK_FOR_LAB_BYTES = 10 * 10**9
_OTHER_CLUSTER = "set KUBECONFIG to a cluster you have"


@dataclass(frozen=True)
class Check:
    """One line: `found` is the fact, `fix` the remedy (empty when ok). `ok` is None when it was not checked."""

    name: str
    ok: bool | None
    found: str
    fix: str = ""


def run_checks(places: Places, environ: Mapping[str, str]) -> list[Check]:
    """Return every check, machine first, then what is installed, then what this checkout made."""
    return [
        *_machine(),
        *_memory_and_disk(places, environ),
        *_kernel(environ),
        _packages(environ),
        _go(places, environ),
        _binaries(places, environ),
        _virtual_environment(places),
    ]


def render_text(checks: list[Check]) -> str:
    """Return the report for people: one line a check, its remedy below it."""
    width = max(len(check.name) for check in checks)
    lines = []
    for check in checks:
        mark = {True: "ok", False: "FAIL", None: "?"}[check.ok]
        lines.append(f"{mark:<5} {check.name:<{width}}  {check.found}")
        if check.fix:
            lines.append(f"{'':<5} {'':<{width}}  fix: {check.fix}")
    failed = sum(1 for check in checks if not check.ok)
    lines.append(f"{failed} of {len(checks)} checks need attention" if failed else f"all {len(checks)} checks passed")
    return "\n".join(lines)


def render_json(checks: list[Check]) -> str:
    """Return `{"ok": bool, "checks": [{"name", "ok", "found", "fix"}]}`."""
    return json.dumps({"ok": all(check.ok for check in checks), "checks": [asdict(check) for check in checks]}, indent=2)


def _machine() -> Iterator[Check]:
    is_linux = platform.system() == "Linux"
    fix = "" if is_linux else f"Use a Linux machine, or {_OTHER_CLUSTER}. Unit tests and previews run here."
    yield Check("linux", is_linux, f"{platform.system()} {platform.release()} {platform.machine()}", fix)
    is_root = os.geteuid() == 0
    fix = "" if is_root else f"Run as root (nodes are made of namespaces, mounts and cgroups), or {_OTHER_CLUSTER}."
    yield Check("root", is_root, f"uid {os.geteuid()}", fix)
    is_new = sys.version_info[:2] >= OLDEST_PYTHON
    needed = ".".join(map(str, OLDEST_PYTHON))
    fix = "" if is_new else f"Install Python {needed} or newer."
    yield Check("python", is_new, f"{platform.python_version()} at {sys.executable}", fix)


def _memory_and_disk(places: Places, environ: Mapping[str, str]) -> Iterator[Check]:
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    is_enough = total >= MEMORY_NEEDED_BYTES
    fix = "" if is_enough else f"Give the machine {MEMORY_NEEDED_BYTES / 1e9:.0f} GB of memory."
    yield Check("memory", is_enough, f"{total / 1e9:.0f} GB", fix)
    builds = any(Builder(places, environ).find(binary) is None for binary in select([]))
    needed = DISK_NEEDED_BYTES if builds else DISK_FOR_LAB_BYTES
    folder = _existing(places.cache)
    free = shutil.disk_usage(folder).free
    why = "binaries have to be built" if builds else "images and nodes"
    fix = "" if free >= needed else f"Free space, or set XDG_CACHE_HOME to a larger disk: {needed / 1e9:.0f} GB are needed ({why})."
    yield Check("disk", free >= needed, f"{free / 1e9:.0f} GB free at {folder}", fix)


def _kernel(environ: Mapping[str, str]) -> Iterator[Check]:
    version = cgroup_version()
    yield Check("cgroups", version > 0, f"version {version}" if version else "none", "" if version else "Mount cgroups at /sys/fs/cgroup.")
    for feature in FEATURES:
        name = f"kernel {feature.name}"
        if os.geteuid() != 0:
            yield Check(name, None, "not checked without root", "Run `make doctor` as root.")
            continue
        problem = try_feature(feature, environ)
        fix = f"Run `modprobe {feature.module}`; in a container, allow it to use the feature. Packages below may be missing too."
        yield Check(name, not problem, problem or "works", fix if problem else "")


def _packages(environ: Mapping[str, str]) -> Check:
    missing = missing_packages(environ)
    if missing:
        return Check("packages", False, f"missing: {' '.join(missing)}", f"Run `make setup`, or as root: {install_command(missing)}")
    return Check("packages", True, " ".join(NEEDED))


def _go(places: Places, environ: Mapping[str, str]) -> Check:
    needed = highest_required_version(places.go_sources)
    try:
        go = Go.find(environ, places)
    except ToolsError as error:
        return Check("go", False, "not usable", str(error))
    is_new = version_tuple(go.version) >= version_tuple(needed)
    return Check("go", is_new, f"{go.version} at {go.executable}", "" if is_new else f"Install Go {needed} or newer.")


def _binaries(places: Places, environ: Mapping[str, str]) -> Check:
    builder = Builder(places, environ)
    rows = select([])
    missing = [binary.name for binary in rows if not builder.is_ready(binary)]
    if missing:
        return Check(
            "binaries", False, f"missing or not current: {' '.join(missing)}", "Run `make tools` (about 25 minutes when nothing is cached)."
        )
    return Check("binaries", True, f"{len(rows)} current in {places.links}")


def _virtual_environment(places: Places) -> Check:
    if is_current(places):
        return Check("venv", True, f"{places.venv} matches {places.dev_lock.name}")
    found = "does not match the lock or the project file" if places.venv_python.exists() else "is missing"
    return Check("venv", False, f"{places.venv} {found}", "Run `make setup`.")


def _existing(folder: Path) -> Path:
    """Return the nearest folder that exists: its file system is the one that will be filled."""
    return next(path for path in (folder, *folder.parents) if path.is_dir())
