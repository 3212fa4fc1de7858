# SPDX-License-Identifier: Apache-2.0
"""A real etcd cluster on loopback as the stack runs it: own CA for clients and for peers, client revocation list, users by CN.

    with EtcdCluster(tmp_path, members=3) as etcd:
        client = EtcdClient(etcd.endpoints, etcd.identity("root"))

Free ports, nothing outside the given directory, and every process ends with the test run.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Collection
from pathlib import Path
from types import TracebackType
from typing import Self

from controller_runtime.foundation.tls import TlsFiles, TlsIdentity
from tests.support.binaries import binary
from tests.support.control_plane import free_ports
from tests.support.pki import Authority, Leaf, publish_crl, write_identity

READY_WITHIN_S = 60.0
CLIENT_SAN = "etcd.client.local"


class EtcdCluster:
    """`members` processes. `endpoints`: one URL each, member order. Logs are `<directory>/etcd-<n>.log`."""

    def __init__(self, directory: Path, members: int = 1) -> None:
        self.directory = directory
        self.members = members
        self.authority = Authority("etcd")
        self.peer_authority = Authority("etcd-peer")
        ports = free_ports(3 * members)
        self._client_ports, self._peer_ports, self._metrics_ports = ports[:members], ports[members : 2 * members], ports[2 * members :]
        self.endpoints = [f"https://127.0.0.1:{port}" for port in self._client_ports]
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._leaves: dict[str, Leaf] = {}
        names = ["localhost"]
        self.server_leaf = self.authority.issue("etcd-server", sans=names, ips=["127.0.0.1"], usages=["server"])
        peer = self.peer_authority.issue("etcd-peer", sans=names, ips=["127.0.0.1"])
        self._server_dir = write_identity(directory / "tls" / "etcd-server", self.authority, self.server_leaf)
        self._peer_dir = write_identity(directory / "tls" / "etcd-peer", self.peer_authority, peer)

    def __enter__(self) -> Self:
        for index in range(self.members):
            self.start(index)
        self.wait_ready()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for index in list(self._processes):
            self.kill(index)

    def identity_directory(self, common_name: str) -> Path:
        """Return the mounted files of a client whose user is `common_name`; issued on first use."""
        directory = self.directory / "tls" / common_name
        if common_name not in self._leaves:
            self._leaves[common_name] = self.authority.issue(common_name, sans=[CLIENT_SAN], usages=["client"])
            write_identity(directory, self.authority, self._leaves[common_name])
        return directory

    def identity(self, common_name: str) -> TlsIdentity:
        """Return a client identity whose user is `common_name`."""
        return TlsIdentity(TlsFiles.in_directory(self.identity_directory(common_name)))

    def revoke(self, common_names: Collection[str]) -> None:
        """Publish a revocation list with exactly these clients to the members."""
        publish_crl(self._server_dir, self.authority, [self._leaves[name] for name in common_names])

    def start(self, index: int) -> None:
        """Start or restart one member on its old data."""
        peers = [f"etcd-{n}=https://127.0.0.1:{port}" for n, port in enumerate(self._peer_ports)]
        peer_url, client_url = f"https://127.0.0.1:{self._peer_ports[index]}", self.endpoints[index]
        arguments = [
            f"--name=etcd-{index}",
            f"--data-dir={self.directory / f'data-{index}'}",
            f"--listen-client-urls={client_url}",
            f"--advertise-client-urls={client_url}",
            f"--listen-peer-urls={peer_url}",
            f"--initial-advertise-peer-urls={peer_url}",
            f"--initial-cluster={','.join(peers)}",
            f"--listen-metrics-urls=http://127.0.0.1:{self._metrics_ports[index]}",
            f"--cert-file={self._server_dir / 'tls.crt'}",
            f"--key-file={self._server_dir / 'tls.key'}",
            f"--trusted-ca-file={self._server_dir / 'ca.crt'}",
            "--client-cert-auth",
            f"--client-crl-file={self._server_dir / 'crl.der'}",
            f"--client-cert-allowed-hostname={CLIENT_SAN}",
            f"--peer-cert-file={self._peer_dir / 'tls.crt'}",
            f"--peer-key-file={self._peer_dir / 'tls.key'}",
            f"--peer-trusted-ca-file={self._peer_dir / 'ca.crt'}",
            "--peer-client-cert-auth",
            f"--peer-crl-file={self._peer_dir / 'crl.der'}",
            "--enable-grpc-gateway=false",
            "--tls-min-version=TLS1.3",
            "--watch-progress-notify-interval=5s",
            "--unsafe-no-fsync",
            "--log-level=warn",
        ]
        die_with_parent = [shutil.which("setpriv") or "/usr/bin/setpriv", "--pdeathsig", "KILL"]
        with (self.directory / f"etcd-{index}.log").open("ab") as log:
            self._processes[index] = subprocess.Popen([*die_with_parent, str(binary("etcd")), *arguments], stdout=log, stderr=log)

    def kill(self, index: int) -> None:
        """End a member without any goodbye."""
        process = self._processes.pop(index)
        process.kill()
        process.wait()

    def pause(self, index: int) -> None:
        """Freeze a member: its sockets stay open and silent."""
        self._processes[index].send_signal(signal.SIGSTOP)

    def resume(self, index: int) -> None:
        """End `pause`."""
        self._processes[index].send_signal(signal.SIGCONT)

    def log_of(self, index: int) -> str:
        """Return what a member logged."""
        return (self.directory / f"etcd-{index}.log").read_text(errors="replace")

    def wait_ready(self) -> None:
        """Return when all running members answer linearizable reads."""
        deadline = time.monotonic() + READY_WITHIN_S
        for index in self._processes:
            while not self._is_ready(index):
                if self._processes[index].poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"etcd-{index} is not ready. Its log ends with:\n{self.log_of(index)[-2000:]}")
                time.sleep(0.05)

    def _is_ready(self, index: int) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._metrics_ports[index]}/readyz", timeout=2) as answer:
                return bool(answer.status == 200)
        except (OSError, urllib.error.URLError):
            return False
