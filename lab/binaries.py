# SPDX-License-Identifier: Apache-2.0
"""Where the programs are: ours from the checkout's `.tools/bin`, the container runtime's from the system."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from lab.errors import LabError
from lab.state import CHECKOUT, Lab

REQUIRED = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubectl",
    "kubelet",
    "kube-proxy",
    "kube-router",
    "coredns",
)
SYSTEM = ("containerd", "runc", "ctr", "ip", "nsenter", "unshare", "nft", "iptables", "ipset", "conntrack", "openssl")
_NETWORK_PLUGINS = (Path("/usr/lib/cni"), Path("/opt/cni/bin"))


def find_folder(recorded: Path | None = None) -> Path:
    """Folder of the Kubernetes programs: `LAB_BIN`, else `.tools/bin`, else the one the lab was started with.

    Raises:
        LabError: no folder has all of them; names what is missing.
    """
    given = os.environ.get("LAB_BIN")
    candidates = [Path(given)] if given else [CHECKOUT / ".tools" / "bin", *([recorded] if recorded else [])]
    for folder in candidates:
        if not missing(folder):
            return folder.absolute()
    absent = ", ".join(missing(candidates[0]))
    raise LabError(f"{candidates[0]}: without {absent}. Run `make tools`, or name a folder that has them in LAB_BIN.")


def missing(folder: Path) -> list[str]:
    """Required programs that `folder` lacks."""
    return [name for name in REQUIRED if not os.access(folder / name, os.X_OK)]


def check_system() -> None:
    """Make sure that what the distribution provides is installed.

    Raises:
        LabError: names the missing programs.
    """
    absent = [name for name in SYSTEM if shutil.which(name) is None]
    if absent:
        raise LabError(f"not installed: {', '.join(absent)}. Run `make setup`, which installs the Debian packages.")
    network_plugins()


def network_plugins() -> Path:
    """Folder of the CNI plugins.

    Raises:
        LabError: none has `ptp`.
    """
    for folder in _NETWORK_PLUGINS:
        if (folder / "ptp").exists():
            return folder
    raise LabError("the CNI plugin ptp is not installed. Run `make setup` (Debian package containernetworking-plugins).")


def interpreter() -> Path:
    """Python with the project's packages, for the NPU plugin; falls back to the one that runs the lab."""
    own = CHECKOUT / ".venv" / "bin" / "python"
    return own if own.exists() else Path(sys.executable)


def outside_var(lab: Lab) -> list[Path]:
    """Folders the daemons of a node read although they may lie under /var, which each node has for itself."""
    python_home = Path(sys.base_prefix)
    real = {lab.binaries, CHECKOUT, python_home, interpreter().resolve().parent.parent}
    real |= {(lab.binaries / name).resolve().parent for name in REQUIRED}
    hidden = sorted(path for path in real if path.is_relative_to("/var"))
    return [lab.root, *hidden]
