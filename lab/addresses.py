# SPDX-License-Identifier: Apache-2.0
"""Every name, subnet and port of a lab follows from its number, so two labs never meet.

Invariants: subnets of different numbers are disjoint; ports lie below the NodePort range (30000) and the
ephemeral range (32768); link names stay under the kernel's 15 characters.
"""

from __future__ import annotations

from dataclasses import dataclass

from lab.errors import LabError

MAX_NUMBER = 31
MAX_NODES = 200
NUMBER_OF_NAME = {"dev": 0, "test": 1}
SERVICE_DOMAIN = "cluster.local"


@dataclass(frozen=True)
class Addresses:
    """Where things are in the lab with this number (0..31)."""

    number: int

    def __post_init__(self) -> None:
        if not 0 <= self.number <= MAX_NUMBER:
            raise LabError(f"lab number is {self.number}, allowed 0-{MAX_NUMBER}. Choose a free number in that range.")

    @property
    def prefix(self) -> str:
        """Start of every link, network namespace and cgroup name."""
        return f"apd{self.number}"

    @property
    def host_link(self) -> str:
        """The machine's own cable to the switch."""
        return f"{self.prefix}h"

    def namespace(self, machine: str) -> str:
        """Network namespace of a machine, or of the switch (`sw`)."""
        return f"{self.prefix}-{machine}"

    @property
    def node_cidr(self) -> str:
        return f"10.99.{self.number}.0/24"

    @property
    def host_ip(self) -> str:
        """Address of the control plane and of DNS, as nodes and pods reach them after translation."""
        return f"10.99.{self.number}.1"

    def node_ip(self, index: int) -> str:
        """Address of node `index` (1-based)."""
        return f"10.99.{self.number}.{10 + index}"

    def node_mac(self, index: int) -> str:
        """Fixed, so that a node which comes back is found at once in its neighbours' ARP tables."""
        return f"02:00:0a:63:{self.number:02x}:{10 + index:02x}"

    @property
    def pod_cidr(self) -> str:
        return f"10.{128 + self.number}.0.0/16"

    def node_pod_cidr(self, index: int) -> str:
        """Pods of node `index` (1-based)."""
        return f"10.{128 + self.number}.{index}.0/24"

    @property
    def fake_pod_cidr(self) -> str:
        """Addresses that pods of fake nodes report. Nothing answers there."""
        return f"10.{192 + self.number}.0.1/16"

    @property
    def service_cidr(self) -> str:
        return f"10.96.{self.number}.0/24"

    @property
    def api_service_ip(self) -> str:
        return f"10.96.{self.number}.1"

    @property
    def dns_service_ip(self) -> str:
        return f"10.96.{self.number}.10"

    def _port(self, offset: int) -> int:
        return 26000 + 100 * self.number + offset

    @property
    def api_port(self) -> int:
        return self._port(43)

    @property
    def api_url(self) -> str:
        return f"https://{self.host_ip}:{self.api_port}"

    @property
    def etcd_port(self) -> int:
        return self._port(79)

    @property
    def etcd_peer_port(self) -> int:
        return self._port(80)

    @property
    def controller_manager_port(self) -> int:
        return self._port(57)

    @property
    def scheduler_port(self) -> int:
        return self._port(59)

    @property
    def dns_port(self) -> int:
        return self._port(53)

    @property
    def dns_health_port(self) -> int:
        return self._port(54)

    @property
    def dns_ready_port(self) -> int:
        return self._port(55)

    @property
    def fake_node_port(self) -> int:
        """Where kwok serves its own health page (loopback)."""
        return self._port(47)


def number_of(name: str, number: int | None) -> int:
    """Return the number of the lab `name`: fixed for `dev` and `test`, else the given one.

    Raises:
        LabError: the name has no fixed number and none was given, or the two differ.
    """
    fixed = NUMBER_OF_NAME.get(name)
    if fixed is None and number is None:
        raise LabError(f"lab {name} has no number. Give one with --number (2-{MAX_NUMBER}); dev is 0, test is 1.")
    if fixed is not None and number is not None and number != fixed:
        raise LabError(f"lab {name} always has number {fixed}, not {number}. Leave --number out.")
    if fixed is None and number in NUMBER_OF_NAME.values():
        raise LabError(f"lab number {number} belongs to dev or test. Choose one of 2-{MAX_NUMBER}.")
    return fixed if fixed is not None else int(number or 0)
