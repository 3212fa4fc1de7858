# SPDX-License-Identifier: Apache-2.0
"""Command line of the lab: `python -m lab [--name NAME] COMMAND`."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from lab import binaries, images, lifecycle, network, node, state, status
from lab.addresses import MAX_NUMBER
from lab.errors import LabError
from lab.state import Lab
from lab.topology import DEFAULT_COUNTS, nodes_of, parse_counts

_NO_LAB_HERE = (
    "the lab needs root on Linux, because it makes namespaces, links and cgroups. Run it as root, "
    "or use a cluster you have: set KUBECONFIG to its kubeconfig and leave the lab out."
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code. Errors are one message on standard error."""
    own, foreign = split_words(sys.argv[1:] if argv is None else argv)
    arguments = parser().parse_args(own)
    arguments.words = foreign
    if sys.platform != "linux" or os.geteuid() != 0:
        print(_NO_LAB_HERE, file=sys.stderr)
        return 1
    try:
        code: int = arguments.command(arguments)
    except LabError as err:
        print(err, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"interrupted. `python -m lab --name {arguments.name} up` goes on from here, `down` removes all.", file=sys.stderr)
        return 130
    return code


def split_words(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split off the words that belong to another program: all after `kubectl`, all after `exec NODE`.

    argparse would take a leading `-n` for its own.
    """
    words = list(argv)
    position = 0
    while position < len(words) and words[position].startswith("-"):
        position += 1 if "=" in words[position] else 2
    own = position + {"kubectl": 1, "exec": 2}.get(words[position] if position < len(words) else "", len(words))
    foreign = words[own:]
    return words[:own], foreign[1:] if foreign[:1] == ["--"] else foreign


def parser() -> argparse.ArgumentParser:
    """All commands and options."""
    top = argparse.ArgumentParser(prog="python -m lab", description="A Kubernetes cluster of real nodes on this machine.")
    top.add_argument("--name", default="dev", help="name of the lab (default dev)")
    top.add_argument("--number", type=int, help=f"2-{MAX_NUMBER}: subnets and ports of a lab that is neither dev (0) nor test (1)")
    commands = top.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, function: object, text: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text, description=text)
        command.set_defaults(command=function)
        return command

    add("check", _check, "say whether this machine can run a lab at all")
    command = add("up", _up, "start the lab, or whatever of it is down, and wait until it is ready")
    command.add_argument("--nodes", help="classes and counts, default " + ",".join(f"{k}={v}" for k, v in DEFAULT_COUNTS.items()))
    for class_name in DEFAULT_COUNTS:
        command.add_argument(f"--{class_name}", type=int, metavar="N", help=f"number of {class_name} nodes, changes --nodes")
    command.add_argument("--fake-nodes", type=int, metavar="N", help="nodes that exist only as objects, for many pods (default 0)")
    folder = images.cache_folder() / "archives"
    command.add_argument("--images", type=Path, metavar="DIR", help=f"folder of image archives (default {folder})")

    add("down", _down, "remove every trace of the lab; does nothing when it is not up")
    command = add("status", _status, "show machines and addresses")
    command.add_argument("--json", action="store_true", help="one JSON document")
    command.add_argument("--memory", action="store_true", help="memory of each machine instead")
    for name, function, text in (
        ("kill-node", _kill_node, "power loss: pull the cable, kill everything at once; the disk is kept"),
        ("start-node", _start_node, "power a node on again"),
        ("cut", _cut, "pull a node's network cable; it keeps running"),
        ("join", _join, "plug the cable in again"),
    ):
        add(name, function, text).add_argument("node", help="node1, node2, ...")
    for name, function, text in (
        ("stop-daemon", _stop_daemon, "kill one daemon of a node and hold it"),
        ("start-daemon", _start_daemon, "let a held daemon run again"),
    ):
        command = add(name, function, text)
        command.add_argument("node", help="node1, node2, ...")
        command.add_argument("daemon", help="kubelet, containerd, kube-proxy, kube-router or npu-plugin")
    command = add("exec", _exec, "run a command inside a node: exec NODE CMD...")
    command.add_argument("node", help="node1, node2, ...")
    add("kubeconfig", _kubeconfig, "print the path of the administrator's kubeconfig")
    command = add("load", _load, "import image archives into every node")
    command.add_argument("archives", nargs="+", type=Path, metavar="TAR")
    add("kubectl", _kubectl, "kubectl as administrator: kubectl ARG...")
    return top


def _check(_arguments: argparse.Namespace) -> int:
    return 0


def _up(arguments: argparse.Namespace) -> int:
    recorded = state.load(arguments.name)
    number = state.choose_number(arguments.name, arguments.number)
    chosen = {name: count for name in DEFAULT_COUNTS if (count := getattr(arguments, name)) is not None}
    counts = {**(parse_counts(arguments.nodes) if arguments.nodes else DEFAULT_COUNTS), **chosen}
    nodes = nodes_of(counts)
    fake_nodes = arguments.fake_nodes
    if recorded is not None:
        if (chosen or arguments.nodes) and nodes != recorded.nodes:
            raise LabError(f"lab {recorded.name} is up with other nodes. Run `down` first, or leave the node options out.")
        if fake_nodes not in (None, recorded.fake_nodes):
            raise LabError(f"lab {recorded.name} is up with {recorded.fake_nodes} fake nodes. Run `down` first, or leave --fake-nodes out.")
        nodes, fake_nodes = recorded.nodes, recorded.fake_nodes
    folder = binaries.find_folder(recorded.binaries if recorded else None)
    lab = Lab(arguments.name, number, nodes, fake_nodes or 0, folder)
    lifecycle.up(lab, _archives(arguments.images))
    return 0


def _archives(given: Path | None) -> list[Path]:
    """The default folder may be missing: a lab without the project's images is of use, too."""
    if given is not None and not given.is_dir():
        raise LabError(f"--images: {given} is no folder. Name one with image archives.")
    return sorted((given or images.cache_folder() / "archives").glob("*.tar"))


def _down(arguments: argparse.Namespace) -> int:
    if state.load(arguments.name) is None and arguments.number is None and arguments.name not in ("dev", "test"):
        print(f"lab {arguments.name} is not up")
        return 0
    left = lifecycle.down(arguments.name, state.choose_number(arguments.name, arguments.number))
    if left:
        raise LabError("could not be removed:\n" + "\n".join(left))
    return 0


def _status(arguments: argparse.Namespace) -> int:
    lab = state.require(arguments.name)
    if arguments.memory:
        machines = status.memory(lab)
        print(json.dumps(machines, indent=1) if arguments.json else "\n".join(status.memory_lines(machines)))
        return 0
    found = status.lab_status(lab)
    print(json.dumps(found, indent=1) if arguments.json else "\n".join(status.status_lines(found)))
    return 0


def _kill_node(arguments: argparse.Namespace) -> int:
    lifecycle.kill_node(state.require(arguments.name), arguments.node)
    return 0


def _start_node(arguments: argparse.Namespace) -> int:
    lifecycle.start_node(state.require(arguments.name), arguments.node)
    return 0


def _cut(arguments: argparse.Namespace) -> int:
    lab = state.require(arguments.name)
    network.set_cable(lab, lab.node(arguments.node), False)
    return 0


def _join(arguments: argparse.Namespace) -> int:
    lab = state.require(arguments.name)
    network.set_cable(lab, lab.node(arguments.node), True)
    return 0


def _stop_daemon(arguments: argparse.Namespace) -> int:
    lab = state.require(arguments.name)
    node.machine(lab, lab.node(arguments.node)).stop_daemon(arguments.daemon)
    return 0


def _start_daemon(arguments: argparse.Namespace) -> int:
    lab = state.require(arguments.name)
    node.machine(lab, lab.node(arguments.node)).start_daemon(arguments.daemon)
    return 0


def _exec(arguments: argparse.Namespace) -> int:
    lab = state.require(arguments.name)
    command = node.machine(lab, lab.node(arguments.node)).enter(arguments.words or ["bash"])
    os.execvp(command[0], command)


def _kubeconfig(arguments: argparse.Namespace) -> int:
    print(state.require(arguments.name).kubeconfig)
    return 0


def _load(arguments: argparse.Namespace) -> int:
    lifecycle.load_images(state.require(arguments.name), arguments.archives)
    return 0


def _kubectl(arguments: argparse.Namespace) -> int:
    lab = state.require(arguments.name)
    program = str(binaries.find_folder(lab.binaries) / "kubectl")
    os.execv(program, ["kubectl", f"--kubeconfig={lab.kubeconfig}", *arguments.words])


if __name__ == "__main__":
    sys.exit(main())
