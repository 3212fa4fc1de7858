# SPDX-License-Identifier: Apache-2.0
"""The `infer-operator` as a process of its own, to be stopped, killed and frozen."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
import urllib.error
import urllib.request
from pathlib import Path

from tests.support.control_plane import free_ports

ROOT = Path(__file__).parents[2]


class OperatorProcess:
    """One replica. Its lease names it after its log file. Started again, it goes on with the same log."""

    def __init__(self, kubeconfig: Path, namespace: str, log: Path) -> None:
        self.health, self.metrics = free_ports(2)
        self.log = log
        self.arguments = [
            f"--kubeconfig={kubeconfig}",
            f"--namespace={namespace}",
            "-enable-healthz=true",
            f"--healthz-address=127.0.0.1:{self.health}",
            f"--logFile={log.with_suffix('.copy')}",
        ]
        self.process: asyncio.subprocess.Process | None = None

    async def start(self, *more: str) -> None:
        """Start it. It ends with the test run, even when that is killed."""
        setpriv = shutil.which("setpriv") or "/usr/bin/setpriv"
        command = [setpriv, "--pdeathsig", "KILL", sys.executable, "-m", "controller_runtime.cli.infer_operator", *self.arguments, *more]
        environment = {**os.environ, "POD_NAME": self.log.stem}
        with self.log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(*command, stdout=log, stderr=log, cwd=ROOT, env=environment)

    @property
    def runs(self) -> bool:
        """Whether it was started and has not ended."""
        return self.process is not None and self.process.returncode is None

    def has_lease(self, holder: str) -> bool:
        """Whether the `holder` that a lease names is this replica."""
        return holder.rpartition("_")[0] == self.log.stem

    def send(self, number: signal.Signals) -> None:
        """Send a signal if it runs."""
        if self.process is not None and self.process.returncode is None:
            self.process.send_signal(number)

    async def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal and return the exit code."""
        assert self.process is not None
        self.send(number)
        return await asyncio.wait_for(self.process.wait(), 30)

    def status(self, path: str) -> int:
        """Status of a plain GET, 0 when nobody answers."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.health}{path}", timeout=2) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            with error:
                return error.code
        except OSError:
            return 0

    async def ready(self) -> bool:
        """Whether /readyz says so."""
        return await asyncio.to_thread(self.status, "/readyz") == 200

    def events(self) -> list[str]:
        """Messages of its log so far."""
        lines = self.log.read_text().splitlines()
        return [json.loads(line)["event"] for line in lines if line.startswith("{")]
