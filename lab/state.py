# SPDX-License-Identifier: Apache-2.0
"""What a lab remembers on disk: its number, its nodes, where its binaries are; and who may change it now.

The folder `/var/lib/ascend-pd/lab/<name>/` exists exactly as long as the lab is up (or died without `down`).
`lab.json` is written by rename, so an interrupted `up` leaves either no record or a whole one.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lab.addresses import Addresses, number_of
from lab.errors import LabError
from lab.topology import NodeSpec

BASE = Path("/var/lib/ascend-pd")
CHECKOUT = Path(__file__).resolve().parent.parent
CONTROL_PLANE = "cp"
_NAME = re.compile(r"[a-z][a-z0-9-]{0,30}")


@dataclass(frozen=True)
class Lab:
    """One lab as it was asked for. `binaries`: folder of the Kubernetes programs it was started with."""

    name: str
    number: int
    nodes: tuple[NodeSpec, ...]
    fake_nodes: int
    binaries: Path
    base: Path = BASE

    @property
    def addresses(self) -> Addresses:
        return Addresses(self.number)

    @property
    def root(self) -> Path:
        return state_folder(self.name, self.base)

    @property
    def certificates(self) -> Path:
        return self.root / "pki"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's, self-contained."""
        return self.root / "kubeconfig"

    def node_folder(self, node: NodeSpec) -> Path:
        return self.root / node.name

    def node(self, name: str) -> NodeSpec:
        """Find a node by name.

        Raises:
            LabError: there is none.
        """
        for node in self.nodes:
            if node.name == name:
                return node
        raise LabError(f"lab {self.name} has no node {name}. It has {', '.join(n.name for n in self.nodes)}.")

    def save(self) -> None:
        """Write `lab.json`."""
        self.root.mkdir(parents=True, exist_ok=True)
        record = {
            "name": self.name,
            "number": self.number,
            "nodes": [node.class_name for node in self.nodes],
            "fake_nodes": self.fake_nodes,
            "binaries": str(self.binaries),
        }
        temporary = self.root / "lab.json.tmp"
        temporary.write_text(json.dumps(record, indent=1))
        temporary.rename(self.root / "lab.json")


def state_folder(name: str, base: Path = BASE) -> Path:
    """Folder of the lab `name`.

    Raises:
        LabError: the name is not lower-case letters, digits and dashes.
    """
    if not _NAME.fullmatch(name):
        raise LabError(f"lab name {name!r} is not allowed. Use up to 31 lower-case letters, digits and dashes, a letter first.")
    return base / "lab" / name


def load(name: str, base: Path = BASE) -> Lab | None:
    """Read the record of the lab `name`; None when it is not there."""
    try:
        record = json.loads((state_folder(name, base) / "lab.json").read_text())
    except FileNotFoundError:
        return None
    nodes = tuple(NodeSpec(index, class_name) for index, class_name in enumerate(record["nodes"], start=1))
    return Lab(name, record["number"], nodes, record["fake_nodes"], Path(record["binaries"]), base)


def require(name: str) -> Lab:
    """Read the record of a lab that must be up.

    Raises:
        LabError: it is not.
    """
    lab = load(name)
    if lab is None:
        raise LabError(f"lab {name} is not up. Run `python -m lab --name {name} up`.")
    return lab


def known(base: Path = BASE) -> list[Lab]:
    """Every lab that has a record, by name."""
    names = sorted(path.parent.name for path in (base / "lab").glob("*/lab.json"))
    return [lab for lab in (load(name, base) for name in names) if lab is not None]


def choose_number(name: str, number: int | None, base: Path = BASE) -> int:
    """Number of a lab: the recorded one, else fixed by its name, else the given one.

    Raises:
        LabError: none is known, or another lab has it.
    """
    recorded = load(name, base)
    if recorded is not None and number in (None, recorded.number):
        return recorded.number
    chosen = number_of(name, number)
    Addresses(chosen)
    for other in known(base):
        if other.number == chosen and other.name != name:
            raise LabError(f"lab number {chosen} is in use by lab {other.name}. Choose another --number or take {other.name} down.")
    return chosen


@contextmanager
def exclusive(name: str, base: Path = BASE) -> Iterator[None]:
    """Hold the lab against other commands that change it; waits for its turn. Leaves no file when the lab is gone."""
    path = state_folder(name, base).with_name(f".{name}.lock")
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"waiting for another command on {name}", flush=True)
            fcntl.flock(handle, fcntl.LOCK_EX)
        if path.exists() and path.stat().st_ino == os.fstat(handle).st_ino:
            break
        os.close(handle)
    try:
        yield
    finally:
        if not state_folder(name, base).exists():
            path.unlink()
        os.close(handle)
