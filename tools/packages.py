# SPDX-License-Identifier: Apache-2.0
"""System packages: which are missing, and installing them on Debian.

A package counts as present when the file or command needed from it is there, whoever provided it, so
other distributions and vendor builds of containerd pass too.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tools.errors import ToolsError

# Debian's name of the package -> what is needed from it: a command, or a file when it starts with a slash.
NEEDED: Mapping[str, str] = {
    "containerd": "containerd",
    "runc": "runc",
    "containernetworking-plugins": "/usr/lib/cni/ptp",
    "buildah": "buildah",
    "mmdebstrap": "mmdebstrap",
    "iptables": "iptables",
    "nftables": "nft",
    "conntrack": "conntrack",
    "ipset": "ipset",
    "iproute2": "ip",
    "socat": "socat",
    "ethtool": "ethtool",
    "openssl": "openssl",
}
VENV_PACKAGE = "python3-venv"
OS_RELEASE = Path("/etc/os-release")
# Daemons' folders are missing from PATH in many shells of ordinary users.
_SYSTEM_FOLDERS = ("/usr/local/sbin", "/usr/sbin", "/sbin")


def find_command(name: str, environ: Mapping[str, str]) -> str | None:
    """Return the path of a command, also from the folders for system commands."""
    return shutil.which(name, path=os.pathsep.join((environ.get("PATH", ""), *_SYSTEM_FOLDERS)))


def missing_packages(environ: Mapping[str, str], needed: Mapping[str, str] = NEEDED) -> list[str]:
    """Return Debian's names of the packages that this machine lacks."""
    missing = [
        package for package, what in needed.items() if not (Path(what).exists() if what.startswith("/") else find_command(what, environ))
    ]
    if importlib.util.find_spec("ensurepip") is None:
        missing.append(VENV_PACKAGE)
    return missing


def install_command(packages: Sequence[str]) -> str:
    """Return the command a person can paste as root."""
    return f"apt-get update && apt-get install -y --no-install-recommends {' '.join(packages)}"


def is_debian(os_release: Path = OS_RELEASE) -> bool:
    """Tell whether apt-get and Debian's package names apply."""
    if not os_release.is_file():
        return False
    families = re.findall(r'^ID(?:_LIKE)?="?([^"\n]*)', os_release.read_text(), re.MULTILINE)
    return any("debian" in family.split() for family in families)


def install_packages(packages: Sequence[str], environ: Mapping[str, str], say: Callable[[str], None]) -> None:
    """Install `packages` with apt-get, saying so first.

    Raises:
        ToolsError: SETUP_APT=0, not root, not Debian, or apt-get failed; the text has the exact command.
    """
    command = install_command(packages)
    obstacle = _obstacle(environ)
    if obstacle:
        raise ToolsError(f"missing packages: {' '.join(packages)}. {obstacle}, so install them yourself, as root:\n  {command}")
    say(f"installing missing packages: {' '.join(packages)}")
    for step in (["update", "-q"], ["install", "-y", "-q", "--no-install-recommends", *packages]):
        answer = subprocess.run(
            ["apt-get", *step], env={**environ, "DEBIAN_FRONTEND": "noninteractive"}, capture_output=True, text=True, check=False
        )
        if answer.returncode:
            raise ToolsError(f"{answer.stdout}{answer.stderr}\napt-get {step[0]} failed. Put right what it says, then run:\n  {command}")


def _obstacle(environ: Mapping[str, str]) -> str:
    if environ.get("SETUP_APT") == "0":
        return "SETUP_APT=0 is set"
    if not is_debian():
        return "This system is not Debian (the names are Debian's)"
    if os.geteuid() != 0:
        return "This user is not root"
    return ""
