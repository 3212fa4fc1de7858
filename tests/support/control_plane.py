# SPDX-License-Identifier: Apache-2.0
"""A real Kubernetes control plane on loopback: etcd and kube-apiserver as processes of the test.

Fakes of an API server drift from the real one (conflicts, field ownership, expired versions), so
tests of the cluster tier talk to the real thing. Invariants: free ports, own certificates, nothing
outside the given directory, and every process ends with the test run even when that is killed.

    plane = ControlPlane(tmp_path); plane.start()      # ready in about 5 s
    KubeClient(load_config(str(plane.kubeconfig)))
"""

from __future__ import annotations

import json
import shutil
import socket
import ssl
import subprocess
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import yaml

from tests.support.binaries import binary
from tests.support.control_plane_pki import Authority, write_service_account_key

READY_WITHIN_S = 120.0
"""Generous: the machine may be building something else."""


AUDIT_POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules: [{level: Metadata}]
"""


class ControlPlane:
    """etcd + kube-apiserver, and kube-controller-manager when asked (garbage collection, workloads, namespaces).

    `url`: of the API server. `kubeconfig`: a cluster administrator's, client certificate inside.
    Logs are `<directory>/<process>.log`; with `audit` the API server also notes every request in `audit_log`.
    """

    def __init__(self, directory: Path, *, controller_manager: bool = False, audit: bool = False) -> None:
        self.directory = directory
        self.audit_log = directory / "audit.log"
        self._audit = audit
        self.kubeconfig = directory / "admin.kubeconfig"
        self._with_controller_manager = controller_manager
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._etcd_port, self._etcd_peer_port, self._api_port = free_ports(3)
        self._authority = Authority.create(directory / "pki")
        self.url = f"https://127.0.0.1:{self._api_port}"
        self.ca_file = self._authority.ca_file

    def start(self) -> None:
        """Start everything and return when the API server says it is ready."""
        pki = self._authority
        pki.issue("apiserver", server=True)
        pki.issue("kubelet-client", organization="system:masters")
        write_service_account_key(pki.directory / "sa.key", pki.directory / "sa.pub")
        self.kubeconfig.write_bytes(self.kubeconfig_for("admin", organization="system:masters"))
        self.start_etcd()
        self.start_api_server()
        if self._with_controller_manager:
            self.start_controller_manager()

    def stop(self) -> None:
        """Stop in reverse order of starting."""
        for name in reversed(list(self._processes)):
            self.kill(name)

    def start_etcd(self) -> None:
        """Start etcd without fsync: the data of a test is worth nothing."""
        client, peer = self.etcd_endpoint, f"http://127.0.0.1:{self._etcd_peer_port}"
        self._spawn(
            "etcd",
            f"--data-dir={self.directory / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",
            "--log-level=warn",
        )

    def start_api_server(self) -> None:
        """Start kube-apiserver with its default admission and wait for `/readyz`."""
        pki = self._authority.directory
        audit: list[str] = []
        if self._audit:
            policy = self.directory / "audit-policy.yaml"
            policy.write_text(AUDIT_POLICY)
            audit = [f"--audit-policy-file={policy}", f"--audit-log-path={self.audit_log}"]
        self._spawn(
            "kube-apiserver",
            *audit,
            f"--etcd-servers={self.etcd_endpoint}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            "--endpoint-reconciler-type=none",
            f"--secure-port={self._api_port}",
            f"--client-ca-file={self.ca_file}",
            f"--tls-cert-file={pki / 'apiserver.crt'}",
            f"--tls-private-key-file={pki / 'apiserver.key'}",
            f"--kubelet-client-certificate={pki / 'kubelet-client.crt'}",
            f"--kubelet-client-key={pki / 'kubelet-client.key'}",
            "--authorization-mode=Node,RBAC",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={pki / 'sa.pub'}",
            f"--service-account-signing-key-file={pki / 'sa.key'}",
            "--allow-privileged=true",
            "--etcd-compaction-interval=0",
            "--shutdown-delay-duration=0s",
        )
        self._wait_ready()

    def start_controller_manager(self) -> None:
        """Start kube-controller-manager: garbage collector, workload and namespace controllers."""
        pki = self._authority.directory
        self._spawn(
            "kube-controller-manager",
            f"--kubeconfig={self.kubeconfig}",
            "--bind-address=127.0.0.1",
            f"--secure-port={free_ports(1)[0]}",
            "--leader-elect=false",
            f"--root-ca-file={self.ca_file}",
            f"--service-account-private-key-file={pki / 'sa.key'}",
        )

    def stop_api_server(self) -> None:
        """Kill the API server; etcd keeps the data."""
        self.kill("kube-apiserver")

    def restart_api_server(self) -> None:
        """Kill the API server and start it on the same port; its watch cache starts empty."""
        self.stop_api_server()
        self.start_api_server()

    def compact(self) -> int:
        """Drop etcd's whole history: every older resource version is expired for a fresh API server. Returns the revision."""
        status = json.loads(self.etcdctl("endpoint", "status", "--write-out=json"))
        revision = int(status[0]["Status"]["header"]["revision"])
        self.etcdctl("compact", "--physical", str(revision))
        return revision

    def etcdctl(self, *arguments: str) -> str:
        """Run etcdctl against the control plane's etcd and return its output."""
        command = [str(binary("etcdctl")), f"--endpoints={self.etcd_endpoint}", *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Run kubectl as administrator and return its output."""
        command = [str(binary("kubectl")), f"--kubeconfig={self.kubeconfig}", *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120, input=stdin).stdout

    @property
    def etcd_endpoint(self) -> str:
        """Client URL of the control plane's etcd (plain http on loopback)."""
        return f"http://127.0.0.1:{self._etcd_port}"

    def kubeconfig_for(self, user: str, *, organization: str = "", server: str = "") -> bytes:
        """A kubeconfig that names certificate files for `user` in the group `organization`."""
        certificate, key = self._authority.issue(user, organization=organization)
        return kubeconfig_bytes(
            server or self.url,
            self.ca_file,
            {"client-certificate": str(certificate), "client-key": str(key)},
        )

    def kill(self, name: str) -> None:
        """End one process at once: a polite API server would first wait for its open watches."""
        process = self._processes.pop(name)
        process.kill()
        process.wait()

    def _spawn(self, name: str, *arguments: str) -> None:
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError("start control plane processes from the main thread: they end with the thread that started them")
        die_with_parent = [shutil.which("setpriv") or "/usr/bin/setpriv", "--pdeathsig", "KILL"]
        with (self.directory / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                [*die_with_parent, str(binary(name)), *arguments], stdout=log, stderr=log, cwd=self.directory
            )

    def _wait_ready(self) -> None:
        context = ssl.create_default_context(cafile=str(self.ca_file))
        pki = self._authority.directory
        context.load_cert_chain(pki / "admin.crt", pki / "admin.key")
        deadline = time.monotonic() + READY_WITHIN_S
        last = "no answer"
        while time.monotonic() < deadline:
            if self._processes["kube-apiserver"].poll() is not None:
                break
            try:
                with urllib.request.urlopen(f"{self.url}/readyz", context=context, timeout=2) as answer:
                    if answer.status == 200:
                        return
            except (OSError, urllib.error.URLError) as err:
                last = str(err)
            time.sleep(0.05)
        log = (self.directory / "kube-apiserver.log").read_text(errors="replace")[-2000:]
        raise RuntimeError(f"kube-apiserver at {self.url} is not ready ({last}). Its log ends with:\n{log}")


def kubeconfig_bytes(server: str, ca_file: Path, user: dict[str, object]) -> bytes:
    """A kubeconfig with one cluster, one user and the matching current context."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test", "namespace": "default"}}],
        "clusters": [{"name": "test", "cluster": {"server": server, "certificate-authority": str(ca_file)}}],
        "users": [{"name": "test", "user": user}],
    }
    return yaml.safe_dump(document).encode()


def free_ports(count: int) -> list[int]:
    """Ports nobody listens on now, all different."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(each.getsockname()[1]) for each in sockets]
    for each in sockets:
        each.close()
    return ports
