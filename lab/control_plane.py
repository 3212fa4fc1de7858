# SPDX-License-Identifier: Apache-2.0
"""The control plane: one machine in the host's network with etcd, API server, controllers, scheduler, DNS, volumes.

Times are shorter than the defaults so that a lost node is noticed in about 20 s. etcd does not fsync: the lab
survives a crash of any process, not of the real machine's power.
"""

from __future__ import annotations

from pathlib import Path

from lab import binaries, fake_nodes
from lab.addresses import SERVICE_DOMAIN
from lab.machines import Machine, daemon
from lab.state import CHECKOUT, CONTROL_PLANE, Lab


def machine(lab: Lab) -> Machine:
    """The control plane's machine."""
    return Machine(lab, CONTROL_PLANE, None)


def boot(lab: Lab) -> None:
    """Write its configuration and start it."""
    folder = lab.root / CONTROL_PLANE
    (folder / "etcd").mkdir(parents=True, exist_ok=True, mode=0o700)
    (folder / "scheduler.yaml").write_text(scheduler_config(_kubeconfig(lab, "scheduler")))
    (folder / "Corefile").write_text(corefile(lab))
    machine(lab).boot(script(lab, folder))


def script(lab: Lab, folder: Path) -> str:
    """Body of its pid 1. Clients of the API server start once it is ready, which spares their backoff."""
    at, bin_folder = lab.addresses, lab.binaries
    ready = f"curl -sf --cacert {lab.certificates}/ca.crt --cert {lab.certificates}/admin.crt --key {lab.certificates}/admin.key"
    lines = [
        daemon("etcd", bin_folder / "etcd", *_etcd_flags(lab, folder)),
        daemon("kube-apiserver", bin_folder / "kube-apiserver", *_api_server_flags(lab)),
        f"until {ready} {at.api_url}/readyz >/dev/null; do sleep 0.2; done",
        daemon("kube-controller-manager", bin_folder / "kube-controller-manager", *_controller_manager_flags(lab)),
        daemon("kube-scheduler", bin_folder / "kube-scheduler", *_scheduler_flags(lab, folder)),
        daemon("coredns", bin_folder / "coredns", "-conf", folder / "Corefile"),
        f"cd {CHECKOUT}",
        daemon("volumes", binaries.interpreter(), "-m", "lab.volumes", lab.name),
    ]
    if lab.fake_nodes:
        lines.append(daemon("kwok", *fake_nodes.command(lab)))
    return "\n".join(lines)


def scheduler_config(kubeconfig: Path) -> str:
    """Two profiles: pods that name `volcano` (gang workloads) are scheduled without Volcano, one by one."""
    return f"""apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {{kubeconfig: {kubeconfig}, qps: 200, burst: 400}}
leaderElection: {{leaderElect: false}}
profiles:
- schedulerName: default-scheduler
- schedulerName: volcano
"""


def corefile(lab: Lab) -> str:
    """Cluster names only; other names are refused and the resolver goes on."""
    at = lab.addresses
    return f""".:{at.dns_port} {{
  bind {at.host_ip}
  errors
  health {at.host_ip}:{at.dns_health_port}
  ready {at.host_ip}:{at.dns_ready_port}
  kubernetes {SERVICE_DOMAIN} in-addr.arpa {{
    kubeconfig {_kubeconfig(lab, "dns")}
    pods insecure
    ttl 5
  }}
}}
"""


def _kubeconfig(lab: Lab, name: str) -> Path:
    return lab.certificates / f"{name}.kubeconfig"


def _etcd_flags(lab: Lab, folder: Path) -> list[str]:
    client = f"http://127.0.0.1:{lab.addresses.etcd_port}"
    peer = f"http://127.0.0.1:{lab.addresses.etcd_peer_port}"
    return [
        "--name=cp",
        f"--data-dir={folder}/etcd",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=cp={peer}",
        "--unsafe-no-fsync",
        "--log-level=warn",
    ]


def _api_server_flags(lab: Lab) -> list[str]:
    at, pki = lab.addresses, lab.certificates
    return [
        f"--etcd-servers=http://127.0.0.1:{at.etcd_port}",
        f"--bind-address={at.host_ip}",
        f"--advertise-address={at.host_ip}",
        f"--secure-port={at.api_port}",
        f"--tls-cert-file={pki}/apiserver.crt",
        f"--tls-private-key-file={pki}/apiserver.key",
        f"--client-ca-file={pki}/ca.crt",
        f"--requestheader-client-ca-file={pki}/ca.crt",
        "--requestheader-allowed-names=no-front-proxy",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        f"--service-cluster-ip-range={at.service_cidr}",
        "--service-node-port-range=30000-32767",
        "--allow-privileged=true",
        f"--service-account-issuer=https://kubernetes.default.svc.{SERVICE_DOMAIN}",
        f"--service-account-key-file={pki}/sa.pub",
        f"--service-account-signing-key-file={pki}/sa.key",
        f"--kubelet-client-certificate={pki}/admin.crt",
        f"--kubelet-client-key={pki}/admin.key",
        "--kubelet-preferred-address-types=InternalIP",
        "--default-not-ready-toleration-seconds=30",
        "--default-unreachable-toleration-seconds=30",
    ]


def _controller_manager_flags(lab: Lab) -> list[str]:
    """The default 20 queries a second would cost 5 s before the first service account exists."""
    kubeconfig, pki = _kubeconfig(lab, "controller-manager"), lab.certificates
    return [
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--bind-address=127.0.0.1",
        f"--secure-port={lab.addresses.controller_manager_port}",
        "--leader-elect=false",
        f"--service-account-private-key-file={pki}/sa.key",
        f"--root-ca-file={pki}/ca.crt",
        f"--cluster-signing-cert-file={pki}/ca.crt",
        f"--cluster-signing-key-file={pki}/ca.key",
        "--use-service-account-credentials=true",
        "--node-monitor-grace-period=20s",
        "--node-monitor-period=2s",
        "--kube-api-qps=200",
        "--kube-api-burst=400",
    ]


def _scheduler_flags(lab: Lab, folder: Path) -> list[str]:
    kubeconfig = _kubeconfig(lab, "scheduler")
    return [
        f"--config={folder}/scheduler.yaml",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--bind-address=127.0.0.1",
        f"--secure-port={lab.addresses.scheduler_port}",
    ]
