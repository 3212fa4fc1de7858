# SPDX-License-Identifier: Apache-2.0
"""A node: its disk, its daemons, and how it is switched on and off.

The disk (`/var`) outlives a power loss, `/run` does not, as on a real machine. Processes that die inside are
restarted by the node's pid 1.
"""

from __future__ import annotations

import shlex

from lab import binaries, network, node_config
from lab.machines import Machine, daemon
from lab.state import CHECKOUT, Lab
from lab.topology import NPU_RESOURCE, NodeSpec

_DISK_FOLDERS = ("lib/kubelet", "lib/containerd", "lib/cni", "lib/lab-volumes", "log/pods", "log/containers", "tmp")


def machine(lab: Lab, node: NodeSpec) -> Machine:
    """The machine of a node."""
    return Machine(lab, node.name, lab.addresses.namespace(node.name))


def power_off(lab: Lab, node: NodeSpec) -> None:
    """Pull the cable, then kill everything at once. The other way round its kernel would still answer with resets."""
    if network.is_plugged(lab, node):
        network.set_cable(lab, node, False)
    machine(lab, node).halt()
    network.detach(lab, node)


def power_on(lab: Lab, node: NodeSpec) -> None:
    """Boot with the disk as it was and a fresh network."""
    target = machine(lab, node)
    target.halt()
    network.attach(lab, node)
    _write_files(lab, node)
    target.boot(script(lab, node))


def script(lab: Lab, node: NodeSpec) -> str:
    """Body of the node's pid 1."""
    folder = lab.node_folder(node)
    kubeconfig = lab.certificates / f"{node.name}.kubeconfig"
    kubelet = [
        f"--config={folder}/kubelet.yaml",
        f"--kubeconfig={kubeconfig}",
        "--root-dir=/var/lib/kubelet",
        "--cert-dir=/var/lib/kubelet/pki",
        f"--hostname-override={node.name}",
        f"--node-ip={lab.addresses.node_ip(node.index)}",
        "--node-labels=" + ",".join(f"{key}={value}" for key, value in node.labels.items()),
        "--v=1",
    ]
    router = [
        f"--kubeconfig={lab.certificates}/router.kubeconfig",
        f"--hostname-override={node.name}",
        "--run-firewall=true",
        "--run-router=false",
        "--run-service-proxy=false",
        f"--service-cluster-ip-range={lab.addresses.service_cidr}",
        "--health-port=0",
    ]
    lines = [
        _own_disk(lab, node),
        daemon("containerd", "containerd", "-c", folder / "containerd.toml", "--log-level", "warn"),
        f"until [ -S {node_config.CONTAINERD_SOCKET} ]; do sleep 0.05; done",
        daemon("kubelet", lab.binaries / "kubelet", *kubelet),
        daemon("kube-proxy", lab.binaries / "kube-proxy", f"--config={folder}/proxy.yaml"),
        daemon("kube-router", lab.binaries / "kube-router", *router),
    ]
    if node.npus:
        plugin = [str(binaries.interpreter()), "-m", "simulator.npu_plugin", "--resource", NPU_RESOURCE, "--count", str(node.npus)]
        lines += [f"cd {shlex.quote(str(CHECKOUT))}", daemon("npu-plugin", *plugin)]
    return "\n".join(lines)


def _own_disk(lab: Lab, node: NodeSpec) -> str:
    """Give the node its own /run and /var; what its daemons need from the real /var stays where it was.

    Mounts become shared last: made earlier, every pod volume would show up once more below each bind.
    """
    kept = [shlex.quote(str(path)) for path in binaries.outside_var(lab)]
    lines = ["mount -t tmpfs -o mode=755 tmpfs /run", "mkdir -p /run/netns /run/lock"]
    for number, path in enumerate(kept):
        lines += [f"mkdir -p /run/lab-keep/{number}", f"mount --bind {path} /run/lab-keep/{number}"]
    lines += [f"mount --bind {shlex.quote(str(lab.node_folder(node) / 'var'))} /var"]
    for number, path in enumerate(kept):
        lines += [f"mkdir -p {path}", f"mount --bind /run/lab-keep/{number} {path}", f"umount /run/lab-keep/{number}"]
    return "\n".join([*lines, "mount --make-rshared /"])


def _write_files(lab: Lab, node: NodeSpec) -> None:
    folder, at = lab.node_folder(node), lab.addresses
    for name in _DISK_FOLDERS:
        (folder / "var" / name).mkdir(parents=True, exist_ok=True)
    run_link = folder / "var" / "run"
    if not run_link.is_symlink():
        run_link.symlink_to("/run")
    (folder / "cni").mkdir(exist_ok=True)
    (folder / "cni" / "10-lab.conflist").write_text(node_config.pod_network(at, node.index))
    (folder / "containerd.toml").write_text(node_config.containerd(binaries.network_plugins(), folder / "cni"))
    (folder / "kubelet.yaml").write_text(node_config.kubelet(lab, node))
    (folder / "proxy.yaml").write_text(node_config.proxy(lab, node))
    (folder / "resolv.conf").write_text(node_config.resolver(at))
