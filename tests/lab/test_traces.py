# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import cgroups, network
from tests.support.real_lab import CHECKOUT, RealLab, pod, until

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900), pytest.mark.xdist_group("lab")]
NUMBER = 7
PREFIX = f"apd{NUMBER}"


@pytest.fixture
def small_lab() -> Iterator[RealLab]:
    """A second lab beside the first, not yet up."""
    lab = RealLab("tidy", NUMBER)
    lab.run("down")
    yield lab
    lab.run("down")


def test_two_labs_run_at_once_and_down_leaves_nothing(lab: RealLab, small_lab: RealLab, archives: Path, image: str) -> None:
    before = _traces()

    small_lab.run("up", "--nodes", "infra=1,decode=1", "--fake-nodes", "2", "--images", str(archives))
    assert {machine["name"] for machine in small_lab.status()["machines"] if machine["alive"]} == {"cp", "node1", "node2"}
    assert all(machine["ready"] for machine in lab.status()["machines"])
    small_lab.apply(pod("default", "real", image))
    small_lab.wait_pod("default", "real")
    _run_on_a_fake_node(small_lab, image)
    assert _traces() != before

    small_lab.run("down")

    assert sorted(set(_traces()) ^ set(before)) == []
    assert not Path("/var/lib/ascend-pd/lab/tidy").exists()
    assert small_lab.run("down") == "lab tidy is not up\n"
    assert all(machine["ready"] for machine in lab.status()["machines"])


@pytest.mark.parametrize("after", ["certificates", "API server ready"])
def test_an_interrupted_up_is_taken_up_again(small_lab: RealLab, archives: Path, after: str) -> None:
    words = ["--name", "tidy", "--number", str(NUMBER), "up", "--nodes", "infra=1", "--images", str(archives)]
    process = subprocess.Popen(
        [sys.executable, "-m", "lab", *words],
        cwd=CHECKOUT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=_as_in_a_terminal,
    )
    assert process.stdout is not None
    assert any(after in line for line in process.stdout)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors

    small_lab.run("up", "--images", str(archives))

    assert all(machine["ready"] for machine in small_lab.status()["machines"])


def test_a_lab_survives_a_reboot_of_the_machine(small_lab: RealLab, archives: Path) -> None:
    small_lab.run("up", "--nodes", "infra=1", "--images", str(archives))
    small_lab.kubectl("create", "namespace", "kept")
    _lose_everything_but_the_disk()

    started = small_lab.run("up", "--images", str(archives))

    assert "started cp, node1" in started
    assert small_lab.is_ready("node1")
    assert small_lab.get("namespace", "kept")["status"]["phase"] == "Active"


def _lose_everything_but_the_disk() -> None:
    """What a reboot takes: processes, links, groups. A pid file then names a process of somebody else."""
    tree = cgroups.detect()
    state = Path("/var/lib/ascend-pd/lab/tidy")
    for file in state.glob("*.pid"):
        os.kill(int(file.read_text()), signal.SIGKILL)
        file.write_text(str(os.getpid()))
    until("all processes are gone", lambda: not cgroups.pids(tree, PREFIX))
    network.remove(PREFIX)
    cgroups.remove(tree, PREFIX)


def _run_on_a_fake_node(lab: RealLab, image: str) -> None:
    fake = {"key": "kwok.x-k8s.io/node", "operator": "Exists"}
    lab.apply(pod("default", "fake", image, nodeSelector={"type": "kwok"}, tolerations=[fake]))
    lab.wait_pod("default", "fake")
    assert lab.get("pod", "fake")["spec"]["nodeName"].startswith("fake")
    until("fake nodes offer devices", lambda: lab.get("node", "fake1")["status"]["allocatable"]["huawei.com/Ascend910"] == "8")


def _traces() -> list[str]:
    """Everything a lab could leave on the machine, without what the other labs are changing meanwhile."""
    found = Path("/proc/mounts").read_text().splitlines()
    for command in (
        ("ip", "-o", "link"),
        ("ip", "route", "show", "table", "all"),
        ("ip", "rule"),
        ("ip", "netns", "list"),
        ("nft", "list", "ruleset"),
        ("iptables-save",),
        ("ipset", "list"),
        ("sysctl", "-a"),
    ):
        found += subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    groups = [str(path) for path in Path("/sys/fs/cgroup").rglob("*") if path.is_dir()]
    running = [path.name for path in Path("/proc").iterdir() if path.name.isdigit() and PREFIX in _cgroup_of(path)]
    return sorted(line for line in [*found, *groups, *running] if not _changes_anyway(line))


def _changes_anyway(line: str) -> bool:
    """Other labs' groups, and counters."""
    other_group = line.startswith("/sys/fs/cgroup") and PREFIX not in line
    counters = ("fs.dentry-state", "fs.file-nr", "fs.quota.", "fs.inode-", "kernel.random.", "kernel.ns_last_pid", "kernel.pty.nr")
    networks = ("net.netfilter.nf_conntrack_count", "net.core.", "# Generated", "# Completed")
    return other_group or line.startswith((*counters, *networks))


def _cgroup_of(process: Path) -> str:
    try:
        return (process / "cgroup").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _as_in_a_terminal() -> None:
    """A shell that runs the tests in the background makes them deaf to Ctrl-C, and their children with them."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
