# SPDX-License-Identifier: Apache-2.0
"""An etcd cluster behind mutual TLS that refuses revoked clients and knows users by certificate name only.

The pod template carries the numbers of both revocation lists: a revocation restarts the members one by
one, which also ends the open connections of the revoked client. Source: controller manual, etcd section.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pulumi import ComponentResource, Input, Output, Resource, ResourceOptions
from pulumi_kubernetes.apps.v1 import StatefulSet
from pulumi_kubernetes.batch.v1 import Job
from pulumi_kubernetes.core.v1 import Service, ServiceAccount
from pulumi_kubernetes.policy.v1 import PodDisruptionBudget

from components.pods import Container, Manifest, Volume, http_probe, pod_template, spread_over_hosts, tls_volume
from controller_runtime.api.pki import ETCD_CLIENT_SAN, Identity
from controller_runtime.api.ports import ETCD_CLIENT, ETCD_METRICS, ETCD_PEER
from controller_runtime.api.stack import ETCD_SERVICE, EtcdSpec, Resources

LABELS = {"app": ETCD_SERVICE}
AUTH_LABELS = {"app": "etcd-auth"}
DATA_ROOT = "/data"
GRACE_S = 30
AUTH_DEADLINE_S = 300
CRL_ANNOTATION = "ascend-pd.io/crl-numbers"


@dataclass(frozen=True)
class EtcdGrant:
    """A user, known by the common name of its certificate, and the key prefixes it may read and write."""

    user: str
    prefixes: tuple[str, ...]


@dataclass(frozen=True)
class EtcdClusterArgs:
    """`server`, `peer`, `root`: identities mounted by members and by the Job that sets up users."""

    spec: EtcdSpec
    namespace: str
    cluster_domain: str
    image: Input[str]
    runtime_image: Input[str]
    server: Identity
    peer: Identity
    root: Identity
    grants: Sequence[EtcdGrant]
    crl_numbers: Mapping[str, Input[int]]
    depends_on: Sequence[Resource] = ()


class EtcdCluster(ComponentResource):
    """Members, their Service, their disruption budget, and the Job that turns authentication on.

    `endpoints`: one https URL per member, in member order. `ready`: depend on it to use etcd as a client.
    """

    TOKEN = "ascend-pd:index:EtcdCluster"

    endpoints: list[str]
    ready: Job

    def __init__(self, name: str, args: EtcdClusterArgs, opts: ResourceOptions | None = None) -> None:
        """Declare the Service first: members find each other by its names."""
        super().__init__(self.TOKEN, name, {"members": args.spec.members, "namespace": args.namespace}, opts)
        self._name, self._args = name, args
        child = ResourceOptions(parent=self, depends_on=list(args.depends_on))
        self.endpoints = [f"https://{host}:{ETCD_CLIENT}" for host in member_hosts(args)]
        accounts = [self._service_account(labels["app"], child) for labels in (LABELS, AUTH_LABELS)]
        service = self._service(child)
        members = self._members(ResourceOptions(parent=self, depends_on=[*args.depends_on, service, *accounts]))
        self._disruption_budget(child)
        self.ready = self._auth_job(ResourceOptions(parent=self, depends_on=[members]))
        self.register_outputs({"endpoints": self.endpoints})

    def _metadata(self, name: str) -> Manifest:
        return {"name": name, "namespace": self._args.namespace, "labels": LABELS}

    def _service_account(self, name: str, opts: ResourceOptions) -> ServiceAccount:
        return ServiceAccount(f"{self._name}-{name}", metadata=self._metadata(name), automount_service_account_token=False, opts=opts)

    def _service(self, opts: ResourceOptions) -> Service:
        ports = {"etcd-client": ETCD_CLIENT, "etcd-peer": ETCD_PEER, "etcd-metrics": ETCD_METRICS}
        return Service(
            f"{self._name}-service",
            metadata=self._metadata(ETCD_SERVICE),
            spec={
                "cluster_ip": "None",
                "publish_not_ready_addresses": True,
                "selector": LABELS,
                "ports": [{"name": port_name, "port": port} for port_name, port in ports.items()],
            },
            opts=opts,
        )

    def _members(self, opts: ResourceOptions) -> StatefulSet:
        args = self._args
        spec: Manifest = {
            "serviceName": ETCD_SERVICE,
            "replicas": args.spec.members,
            "podManagementPolicy": "Parallel",
            "updateStrategy": {"type": "RollingUpdate"},
            "selector": {"matchLabels": LABELS},
            "template": member_template(args),
            "volumeClaimTemplates": [_claim(args.spec)],
        }
        # Claims never change in place: replacing the StatefulSet would stop all members and leave their volumes as they are.
        fixed = ResourceOptions.merge(opts, ResourceOptions(ignore_changes=["spec.volumeClaimTemplates"]))
        return StatefulSet(f"{self._name}-members", metadata=self._metadata(ETCD_SERVICE), spec=spec, opts=fixed)

    def _disruption_budget(self, opts: ResourceOptions) -> None:
        PodDisruptionBudget(
            f"{self._name}-budget",
            metadata=self._metadata(ETCD_SERVICE),
            spec={"max_unavailable": 1, "selector": {"match_labels": LABELS}},
            opts=opts,
        )

    def _auth_job(self, opts: ResourceOptions) -> Job:
        """Users and roles; idempotent, so a changed grant runs it again under another name."""
        command = bootstrap_command(self.endpoints, self._args)
        digest = hashlib.sha256(json.dumps(command).encode()).hexdigest()[:8]
        container = Container(
            name="etcd-auth",
            image=self._args.runtime_image,
            command=command[:1],
            args=command[1:],
            resources=Resources(),
            volumes=[tls_volume(self._args.root)],
        )
        template = pod_template(labels=AUTH_LABELS, containers=[container], service_account=AUTH_LABELS["app"], restart_policy="OnFailure")
        return Job(
            f"{self._name}-auth-{digest}",
            metadata={
                "name": f"etcd-auth-{digest}",
                "namespace": self._args.namespace,
                "labels": AUTH_LABELS,
                "annotations": {"pulumi.com/replaceUnready": "true"},
            },
            spec={"backoffLimit": 6, "activeDeadlineSeconds": AUTH_DEADLINE_S, "template": template},
            opts=opts,
        )


def member_hosts(args: EtcdClusterArgs) -> list[str]:
    """Full DNS name of each member."""
    return [f"{ETCD_SERVICE}-{n}.{ETCD_SERVICE}.{args.namespace}.svc.{args.cluster_domain}" for n in range(args.spec.members)]


def bootstrap_command(endpoints: Sequence[str], args: EtcdClusterArgs) -> list[str]:
    """Command line of the Job that sets up users, roles and authentication."""
    grants = [f"--grant={grant.user}={','.join(grant.prefixes)}" for grant in args.grants]
    return ["etcd-bootstrap", *(f"--endpoint={endpoint}" for endpoint in endpoints), f"--tls-dir={args.root.directory}", *grants]


def member_template(args: EtcdClusterArgs) -> Manifest:
    """Pod template of a member."""
    data = Volume("data", DATA_ROOT, {}, read_only=False)
    container = Container(
        name="etcd",
        image=args.image,
        command=["/usr/bin/etcd"],
        args=member_flags(args),
        resources=args.spec.resources,
        volumes=[tls_volume(args.server), tls_volume(args.peer)],
        ports={"client": ETCD_CLIENT, "peer": ETCD_PEER, "metrics": ETCD_METRICS},
        probes={
            "startup": http_probe("/livez", ETCD_METRICS, period_s=5, timeout_s=5, failures=60),
            "liveness": http_probe("/livez", ETCD_METRICS, period_s=10, timeout_s=5, failures=3),
            "readiness": http_probe("/readyz", ETCD_METRICS, period_s=5, timeout_s=8, failures=3),
        },
    )
    numbers = Output.all(**args.crl_numbers).apply(lambda found: " ".join(f"{name}={int(found[name])}" for name in sorted(found)))
    template = pod_template(
        labels=LABELS,
        annotations={CRL_ANNOTATION: numbers},
        containers=[container],
        service_account=ETCD_SERVICE,
        node_selector=args.spec.node_selector,
        affinity=spread_over_hosts(LABELS),
        grace_s=GRACE_S,
    )
    template["spec"]["containers"][0]["volumeMounts"].append({"name": data.name, "mountPath": data.path})
    return template


def member_flags(args: EtcdClusterArgs) -> list[str]:
    """Flags of a member; listeners on the pod's address and loopback only."""
    me = f"$(POD_NAME).{ETCD_SERVICE}.$(POD_NAMESPACE).svc.{args.cluster_domain}"
    members = ",".join(f"{ETCD_SERVICE}-{n}=https://{host}:{ETCD_PEER}" for n, host in enumerate(member_hosts(args)))
    server, peer = args.server.directory, args.peer.directory
    return [
        "--name=$(POD_NAME)",
        f"--data-dir={DATA_ROOT}/etcd",
        f"--listen-client-urls=https://$(POD_IP):{ETCD_CLIENT},https://127.0.0.1:{ETCD_CLIENT}",
        f"--advertise-client-urls=https://{me}:{ETCD_CLIENT}",
        f"--listen-peer-urls=https://$(POD_IP):{ETCD_PEER}",
        f"--initial-advertise-peer-urls=https://{me}:{ETCD_PEER}",
        f"--initial-cluster={members}",
        f"--initial-cluster-token={ETCD_SERVICE}-{args.namespace}",
        "--initial-cluster-state=new",
        f"--listen-metrics-urls=http://$(POD_IP):{ETCD_METRICS}",
        f"--cert-file={server}/tls.crt",
        f"--key-file={server}/tls.key",
        f"--trusted-ca-file={server}/ca.crt",
        "--client-cert-auth",
        f"--client-crl-file={server}/crl.der",
        f"--client-cert-allowed-hostname={ETCD_CLIENT_SAN}",
        f"--peer-cert-file={peer}/tls.crt",
        f"--peer-key-file={peer}/tls.key",
        f"--peer-trusted-ca-file={peer}/ca.crt",
        "--peer-client-cert-auth",
        f"--peer-crl-file={peer}/crl.der",
        "--enable-grpc-gateway=false",
        "--tls-min-version=TLS1.3",
        "--auto-compaction-mode=periodic",
        f"--auto-compaction-retention={args.spec.compaction_minutes}m",
        f"--quota-backend-bytes={args.spec.quota_bytes}",
        "--watch-progress-notify-interval=5s",
    ]


def _claim(spec: EtcdSpec) -> Manifest:
    claim: Manifest = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": str(spec.volume_bytes)}}}
    if spec.storage_class is not None:
        claim["storageClassName"] = spec.storage_class
    return {"metadata": {"name": "data"}, "spec": claim}
