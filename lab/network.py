# SPDX-License-Identifier: Apache-2.0
"""Cables and routes: a switch in its own network namespace, one cable to the host and one to each node.

The switch is apart from the host so that the host's firewall never sees frames between nodes (a FORWARD
policy of DROP, as Docker sets, would cut them). All pod traffic is routed: every node, and the host, has a
static route to the pods of every other node. Each function may be called again at any time.
"""

from __future__ import annotations

import ipaddress
import json
import os
from pathlib import Path

from lab.commands import run
from lab.errors import LabError
from lab.state import Lab
from lab.topology import NodeSpec

_SWITCH = "sw"
_NAMESPACES = Path("/run/netns")
_BRIDGE_FILTERS = ("iptables", "ip6tables", "arptables")


def ensure_switch(lab: Lab) -> None:
    """Make the switch and the host's cable. When either is missing, the nodes' cables are removed too.

    Raises:
        LabError: the machine already uses one of the lab's subnets.
    """
    if not _namespace_exists(lab.addresses.namespace(_SWITCH)) or not _host_link_is_up(lab):
        _make_switch(lab)


def ensure_host_routes(lab: Lab) -> None:
    """Let the host reach the pods of every node."""
    at = lab.addresses
    present = run("ip", "route", "show", "dev", at.host_link)
    for node in lab.nodes:
        if f"{at.node_pod_cidr(node.index)} " not in present:
            run("ip", "route", "replace", at.node_pod_cidr(node.index), "via", at.node_ip(node.index))


def attach(lab: Lab, node: NodeSpec) -> None:
    """Give the node a fresh network namespace, its cable plugged in."""
    detach(lab, node)
    at = lab.addresses
    namespace, switch = at.namespace(node.name), at.namespace(_SWITCH)
    run("ip", "netns", "add", namespace)
    cable = ("link", "add", "eth0", "address", at.node_mac(node.index), "type", "veth", "peer", "name", node.name, "netns", switch)
    run("ip", "-n", namespace, *cable)
    run("ip", "-n", switch, "link", "set", node.name, "master", "br0", "up")
    run("ip", "-n", namespace, "link", "set", "lo", "up")
    _sysctl(namespace, "net.ipv4.ip_forward=1", "net.ipv4.conf.all.rp_filter=0")
    run("ip", "-n", namespace, "addr", "add", f"{at.node_ip(node.index)}/24", "dev", "eth0")
    run("ip", "-n", namespace, "link", "set", "eth0", "up")
    for other in lab.nodes:
        if other != node:
            run("ip", "-n", namespace, "route", "add", at.node_pod_cidr(other.index), "via", at.node_ip(other.index))
    run("ip", "-n", namespace, "route", "add", "default", "via", at.host_ip)


def detach(lab: Lab, node: NodeSpec) -> None:
    """Take the node's network away, with all packet filter rules its daemons made."""
    run("ip", "-n", lab.addresses.namespace(_SWITCH), "link", "del", node.name, check=False)
    _delete_namespace(lab.addresses.namespace(node.name))


def set_cable(lab: Lab, node: NodeSpec, plugged: bool) -> None:
    """Plug the node's cable in or pull it; the node itself keeps running."""
    run("ip", "-n", lab.addresses.namespace(_SWITCH), "link", "set", node.name, "up" if plugged else "down")


def is_plugged(lab: Lab, node: NodeSpec) -> bool:
    """False when the cable was pulled or the node has none."""
    links = run("ip", "-n", lab.addresses.namespace(_SWITCH), "-j", "link", "show", "dev", node.name, check=False)
    return bool(links) and "UP" in json.loads(links)[0]["flags"]


def is_attached(lab: Lab, node: NodeSpec) -> bool:
    """True when the node has its whole network: `attach` makes the default route last."""
    namespace = lab.addresses.namespace(node.name)
    return _namespace_exists(namespace) and "default" in run("ip", "-n", namespace, "route", "show", "default", check=False)


def remove(prefix: str) -> None:
    """Delete every namespace and link whose name starts with the lab's prefix."""
    run("ip", "link", "del", f"{prefix}h", check=False)
    for namespace in namespaces(prefix):
        _delete_namespace(namespace)


def namespaces(prefix: str) -> list[str]:
    """Network namespaces of the lab with this prefix."""
    return sorted(path.name for path in _NAMESPACES.glob(f"{prefix}-*"))


def overlapping_route(routes: list[str], wanted: list[str]) -> tuple[str, str] | None:
    """First pair (existing route, wanted subnet) that overlaps. Default routes do not count."""
    for route in routes:
        if route == "default":
            continue
        network = ipaddress.ip_network(route, strict=False)
        for subnet in wanted:
            if network.version == 4 and network.overlaps(ipaddress.ip_network(subnet)):
                return route, subnet
    return None


def _make_switch(lab: Lab) -> None:
    at = lab.addresses
    remove(at.prefix)
    routes = [route["dst"] for route in json.loads(run("ip", "-j", "-4", "route", "show", "table", "main") or "[]")]
    taken = overlapping_route(routes, [at.node_cidr, at.pod_cidr, at.service_cidr])
    if taken is not None:
        raise LabError(
            f"subnet {taken[1]} of lab {lab.name} overlaps the route {taken[0]} of this machine. Use another --name and --number."
        )
    switch = at.namespace(_SWITCH)
    run("ip", "netns", "add", switch)
    run("ip", "-n", switch, "link", "add", "br0", "type", "bridge")
    _sysctl(switch, *(f"net.bridge.bridge-nf-call-{name}=0" for name in _BRIDGE_FILTERS))
    run("ip", "-n", switch, "link", "set", "br0", "up")
    run("ip", "link", "add", at.host_link, "type", "veth", "peer", "name", "host", "netns", switch)
    run("ip", "-n", switch, "link", "set", "host", "master", "br0", "up")
    run("ip", "addr", "add", f"{at.host_ip}/24", "dev", at.host_link)
    run("ip", "link", "set", at.host_link, "up")


def _host_link_is_up(lab: Lab) -> bool:
    return lab.addresses.host_ip in run("ip", "-br", "addr", "show", "dev", lab.addresses.host_link, "up", check=False)


def _namespace_exists(name: str) -> bool:
    return os.path.ismount(_NAMESPACES / name)


def _delete_namespace(name: str) -> None:
    if _namespace_exists(name):
        run("ip", "netns", "del", name)
    else:
        (_NAMESPACES / name).unlink(missing_ok=True)


def _sysctl(namespace: str, *settings: str) -> None:
    run("nsenter", f"--net={_NAMESPACES / namespace}", "sysctl", "-e", "-q", "-w", *settings)
