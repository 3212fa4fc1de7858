# SPDX-License-Identifier: Apache-2.0
"""What a lab is doing: for people as lines, for programs as one JSON document."""

from __future__ import annotations

from pathlib import Path
from typing import TypedDict

from lab import cgroups, control_plane, network, node
from lab.api_client import ApiClient
from lab.lifecycle import ready_nodes
from lab.machines import Machine
from lab.state import Lab

_MIB = 2**20


class Endpoint(TypedDict):
    """An address and port as packets carry them after translation, so as NetworkPolicy sees them."""

    ip: str
    port: int


class MachineStatus(TypedDict):
    """One machine. `ready` is what the API server says of the node; the control plane has none."""

    name: str
    pool: str
    alive: bool
    plugged: bool
    ready: bool
    npus: int
    ip: str


class MachineMemory(TypedDict):
    """Anonymous memory of a machine and resident memory of its largest programs, in MiB."""

    name: str
    anonymous_mib: float
    resident_mib: dict[str, float]


class LabStatus(TypedDict):
    """The whole lab. CIDRs are those to allow in NetworkPolicies."""

    name: str
    number: int
    kubeconfig: str
    api_url: str
    api: Endpoint
    dns: Endpoint
    pod_cidr: str
    node_cidr: str
    service_cidr: str
    fake_nodes: int
    machines: list[MachineStatus]


def lab_status(lab: Lab) -> LabStatus:
    """Collect the status; works while parts are down."""
    at = lab.addresses
    control = control_plane.machine(lab)
    ready = ready_nodes(ApiClient(lab)) if control.is_alive() else set()
    machines: list[MachineStatus] = [
        {
            "name": control.name,
            "pool": "control-plane",
            "alive": control.is_alive(),
            "plugged": True,
            "ready": bool(ready),
            "npus": 0,
            "ip": at.host_ip,
        }
    ]
    for spec in lab.nodes:
        machines.append(
            {
                "name": spec.name,
                "pool": spec.class_name,
                "alive": node.machine(lab, spec).is_alive(),
                "plugged": network.is_plugged(lab, spec),
                "ready": spec.name in ready,
                "npus": spec.npus,
                "ip": at.node_ip(spec.index),
            }
        )
    return {
        "name": lab.name,
        "number": lab.number,
        "kubeconfig": str(lab.kubeconfig),
        "api_url": at.api_url,
        "api": {"ip": at.host_ip, "port": at.api_port},
        "dns": {"ip": at.host_ip, "port": at.dns_port},
        "pod_cidr": at.pod_cidr,
        "node_cidr": at.node_cidr,
        "service_cidr": at.service_cidr,
        "fake_nodes": lab.fake_nodes,
        "machines": machines,
    }


def status_lines(status: LabStatus) -> list[str]:
    """The status for people."""
    lines = [
        f"lab {status['name']} (number {status['number']}), KUBECONFIG={status['kubeconfig']}",
        f"API {status['api_url']}, DNS {status['dns']['ip']}:{status['dns']['port']}",
        f"pods {status['pod_cidr']}, nodes {status['node_cidr']}, services {status['service_cidr']}, {status['fake_nodes']} fake nodes",
    ]
    for machine in status["machines"]:
        words = ["up" if machine["alive"] else "DOWN", "ready" if machine["ready"] else "NOT READY"]
        words += [] if machine["plugged"] else ["cable pulled"]
        words += [f"{machine['npus']} NPUs"] if machine["npus"] else []
        lines.append(f"{machine['name']:<6} {machine['ip']:<13} {machine['pool']:<14} {', '.join(words)}")
    return lines


def memory(lab: Lab) -> list[MachineMemory]:
    """Memory of each machine, control plane first."""
    tree = cgroups.detect()
    machines = [control_plane.machine(lab), *(node.machine(lab, spec) for spec in lab.nodes)]
    return [
        {
            "name": machine.name,
            "anonymous_mib": round(tree.anonymous_bytes(machine.cgroup) / _MIB, 1),
            "resident_mib": _resident(machine),
        }
        for machine in machines
    ]


def memory_lines(machines: list[MachineMemory]) -> list[str]:
    """Memory for people; the last line is the sum that the lab must keep under 1 GiB when idle."""
    lines = []
    for machine in machines:
        largest = sorted(machine["resident_mib"].items(), key=lambda item: -item[1])[:8]
        programs = ", ".join(f"{name} {size:.0f}" for name, size in largest)
        lines.append(f"{machine['name']:<6} anonymous {machine['anonymous_mib']:.0f} MiB; resident MiB: {programs}")
    return [*lines, f"anonymous memory of the whole lab: {sum(machine['anonymous_mib'] for machine in machines):.0f} MiB"]


def _resident(machine: Machine) -> dict[str, float]:
    sizes: dict[str, float] = {}
    for pid in machine.pids():
        try:
            name = Path(f"/proc/{pid}/comm").read_text().strip()
            pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
        sizes[name] = round(sizes.get(name, 0.0) + pages * 4096 / _MIB, 1)
    return sizes
