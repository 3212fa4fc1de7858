# SPDX-License-Identifier: Apache-2.0
"""What goes into each image. Data only; `build.py` turns it into layers.

Invariants: no shell is started by any image, the user is never root, two builds of one content have one digest.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

USER = "10001:10001"
PYTHON_ROOT = "/opt/ascend-pd"
PREFIX = "localhost/ascend-pd-"

BASE_PACKAGES = ("python3", "ca-certificates")
BASE_SUITE = "bookworm"
BASE_EXCLUDES = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/var/cache/apt/*", "/var/lib/apt/lists/*")


@dataclass(frozen=True)
class Copy:
    """Files of the checkout or of the tools, copied into the image as root, readable by all."""

    source: Path
    target: str


@dataclass(frozen=True)
class EntryPoint:
    """A command of the image: `module:function`, started by the image's Python."""

    name: str
    target: str


@dataclass(frozen=True)
class Recipe:
    """One image. `parent`: another recipe's name, `base` for the Python root file system, or None for nothing."""

    name: str
    parent: str | None
    copies: tuple[Copy, ...] = ()
    packages: tuple[str, ...] = ()
    """Python packages of this checkout."""
    entry_points: tuple[EntryPoint, ...] = ()

    @property
    def repository(self) -> str:
        """Name of the image without tag."""
        return f"{PREFIX}{self.name}"


RUNTIME_COMMANDS = ("infer_operator", "ms_controller", "etcd_bootstrap", "probe", "smoke")
SIMULATOR_COMMANDS = ("server", "coordinator", "clusterd", "node_manager", "fault")


def recipes(tools: Path) -> tuple[Recipe, ...]:
    """List the images, parents first. `tools`: folder of the built binaries."""
    runtime = tuple(EntryPoint(name.replace("_", "-"), f"controller_runtime.cli.{name}:main") for name in RUNTIME_COMMANDS)
    simulator = tuple(EntryPoint(f"sim-{name.replace('_', '-')}", f"simulator.{name}:main") for name in SIMULATOR_COMMANDS)
    binaries = tuple(Copy(tools / name, f"/usr/bin/{name}") for name in ("etcd", "etcdctl", "etcdutl"))
    return (
        Recipe("etcd", None, copies=binaries),
        Recipe("runtime", "base", packages=("controller_runtime",), entry_points=runtime),
        Recipe("simulator", "runtime", packages=("simulator",), entry_points=simulator),
    )
