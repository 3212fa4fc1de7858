# SPDX-License-Identifier: Apache-2.0
"""A machine: its own pid, mount, host name and IPC namespaces, its cgroup, and a pid 1 that restarts daemons.

`kill -9` of that pid 1 is a power loss: the kernel kills every process of the pid namespace at once and the
mounts vanish with the mount namespace. Whether a machine runs is asked of its cgroup, not of a pid file, so
stale files after a crash or a reboot do no harm. `nsenter --net` is used rather than `ip netns exec`, which
would remount /sys and hide the cgroups.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lab import cgroups
from lab.commands import wait_until
from lab.errors import LabError
from lab.state import Lab

_ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root"}
"""All that daemons get. A proxy setting of the user would send their traffic for the API server elsewhere."""


@dataclass(frozen=True)
class Machine:
    """A machine of a lab. `namespace`: network namespace, None for the host's own."""

    lab: Lab
    name: str
    namespace: str | None

    @property
    def cgroup(self) -> str:
        """Its group below each hierarchy's root."""
        return f"{self.lab.addresses.prefix}/{self.name}"

    @property
    def logs(self) -> Path:
        """One file a daemon."""
        return self.lab.root / "log" / self.name

    @property
    def _pid_file(self) -> Path:
        return self.lab.root / f"{self.name}.pid"

    def pids(self) -> set[int]:
        """Every process that runs in it."""
        return cgroups.pids(cgroups.detect(), self.cgroup)

    def is_alive(self) -> bool:
        """True while its pid 1 runs."""
        return self._init() is not None

    def boot(self, script: str) -> None:
        """Start it with `script` (bash) as the body of its pid 1; see `daemon` for the lines that belong in it.

        Raises:
            LabError: pid 1 did not appear.
        """
        self.halt()
        tree = cgroups.detect()
        tree.create(self.cgroup)
        self.logs.mkdir(parents=True, exist_ok=True)
        init = self.lab.root / f"{self.name}.init"
        init.write_text(_init_script(self, tree.join_files(self.cgroup), script))
        enter_network = ["nsenter", f"--net=/run/netns/{self.namespace}"] if self.namespace else []
        new_machine = ["unshare", "--mount", "--propagation", "private", "--uts", "--ipc", "--pid", "--fork"]
        end_together = ["--kill-child=SIGKILL", "--mount-proc", "bash", str(init)]
        with (self.logs / "init.log").open("a") as log:
            outer = subprocess.Popen(
                [*enter_network, *new_machine, *end_together],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                cwd="/",
                env=_ENVIRONMENT,
            )
        hint = f"Read {self.logs}/init.log."
        children: list[str] = []

        def has_child() -> bool:
            children[:] = _children(outer.pid)
            return bool(children)

        wait_until(f"{self.name} starts", has_child, 20, hint, 0.02)
        self._pid_file.write_text(children[0])
        wait_until(f"{self.name} joins its cgroup", self.is_alive, 20, hint, 0.02)

    def halt(self) -> None:
        """Kill it as a power loss does and remove its cgroups. Does nothing when it is dead already."""
        tree = cgroups.detect()
        init = self._init()
        if init is not None:
            os.kill(init, signal.SIGKILL)
        self._pid_file.unlink(missing_ok=True)

        def is_empty() -> bool:
            cgroups.kill(tree, self.cgroup)
            return not self.pids()

        wait_until(f"{self.name} is dead", is_empty, 20, period_s=0.02)
        cgroups.remove(tree, self.cgroup)

    def enter(self, command: Sequence[str]) -> list[str]:
        """Words that run `command` inside the machine.

        Raises:
            LabError: it is down.
        """
        init = self._init()
        if init is None:
            raise LabError(f"{self.name} is down. Run `python -m lab --name {self.lab.name} start-node {self.name}`.")
        return ["nsenter", "-t", str(init), "-m", "-u", "-i", "-n", "-p", "--", *command]

    def stop_daemon(self, daemon: str) -> None:
        """Kill one daemon and keep it from being restarted."""
        self._hold_file(daemon).touch()
        for pid in self.pids():
            if _command_name(pid) == daemon[:15]:
                os.kill(pid, signal.SIGKILL)

    def start_daemon(self, daemon: str) -> None:
        """Let a stopped daemon run again."""
        self._hold_file(daemon).unlink(missing_ok=True)

    def _hold_file(self, daemon: str) -> Path:
        return self.logs / f"{daemon}.hold"

    def _init(self) -> int | None:
        try:
            init = int(self._pid_file.read_text())
        except (FileNotFoundError, ValueError):
            return None
        return init if init in self.pids() else None


def daemon(name: str, *command: str | Path) -> str:
    """Line of a machine's script: run `command` for ever, half a second between two lives, output in its log."""
    return f"supervise {name} {shlex.join(str(word) for word in command)}"


def _init_script(machine: Machine, cgroup_files: Sequence[Path], body: str) -> str:
    join = "\n".join(f"echo 0 > {shlex.quote(str(file))}" for file in cgroup_files)
    return f"""#!/bin/bash
{join}
LOGS={shlex.quote(str(machine.logs))}
supervise() {{
  local name=$1; shift
  (while :; do [ -e "$LOGS/$name.hold" ] || "$@" >>"$LOGS/$name.log" 2>&1 </dev/null; sleep 0.5; done) &
}}
hostname {machine.name}
{body}
while :; do wait; sleep 1; done
"""


def _children(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except FileNotFoundError:
        return []


def _command_name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except FileNotFoundError:
        return ""
