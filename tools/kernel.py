# SPDX-License-Identifier: Apache-2.0
"""What the kernel must be able to do for lab nodes, tried for real in throw-away namespaces.

Configuration files and module lists lie (built in, loadable, forbidden in a container); doing the thing
once does not. Nothing outlives a probe: its namespaces go with its process.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

PROBE_TIMEOUT_S = 20
CGROUPS = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Feature:
    """`namespace`: flag of unshare; `script`: what to do inside; `module`: what to load when it fails."""

    name: str
    namespace: str
    script: str
    module: str


FEATURES = (
    Feature("veth", "--net", "ip link add probe0 type veth peer name probe1", "veth"),
    Feature("bridge", "--net", "ip link add probe0 type bridge", "bridge"),
    Feature("nf_tables", "--net", "nft add table inet probe", "nf_tables"),
    Feature("iptables", "--net", "iptables -w 5 -t nat -N PROBE", "iptable_nat"),
    Feature("ipset", "--net", "ipset create probe hash:ip", "ip_set_hash_ip"),
    Feature(
        "overlay",
        "--mount",
        "mount -t tmpfs probe /tmp && cd /tmp && mkdir lower upper work both && "
        "mount -t overlay probe -o lowerdir=lower,upperdir=upper,workdir=work both",
        "overlay",
    ),
)


def try_feature(feature: Feature, environ: Mapping[str, str]) -> str:
    """Use the feature once, as root; return what went wrong, empty when it works."""
    path = f"{environ.get('PATH', '')}:/usr/sbin:/sbin"
    try:
        answer = subprocess.run(
            ["unshare", feature.namespace, "sh", "-c", feature.script],
            env={**environ, "PATH": path},
            capture_output=True,
            text=True,
            timeout=PROBE_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if answer.returncode == 0:
        return ""
    lines = (answer.stderr or answer.stdout).strip().splitlines()
    return lines[0] if lines else f"exit code {answer.returncode}"


def cgroup_version(root: Path = CGROUPS) -> int:
    """Return 2 for the unified hierarchy, 1 for separate controllers, 0 when none is mounted."""
    if (root / "cgroup.controllers").is_file():
        return 2
    return 1 if (root / "memory").is_dir() else 0
