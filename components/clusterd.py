# SPDX-License-Identifier: Apache-2.0
"""A simulated ClusterD: writes the rank table from the live pods, and streams it. Sites have the real one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pulumi import ComponentResource, Input, Resource, ResourceOptions

from components.access import cluster_rights, namespace_rights, service_account
from components.ms_config import RANK_TABLE_CONFIG_MAP
from components.pods import Container, Manifest, pod_template, tls_probe, tls_volume
from components.workload import Place, deployment, service
from controller_runtime.api.edges import CLUSTERD_APP
from controller_runtime.api.pki import Identity
from controller_runtime.api.ports import CLUSTERD, CLUSTERD_HEALTH
from controller_runtime.api.stack import CLUSTERD_SERVICE, StackConfig

LABELS = {"app": CLUSTERD_APP}
NODE_RULES = ({"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch"]},)
WORKLOAD_RULES = (
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]},
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "update", "patch"], "resourceNames": [RANK_TABLE_CONFIG_MAP]},
)


@dataclass(frozen=True)
class ClusterdArgs:
    """`identity`: its server certificate."""

    config: StackConfig
    image: Input[str]
    identity: Identity
    depends_on: Sequence[Resource] = ()


class Clusterd(ComponentResource):
    """Rights, Deployment and Service of the simulated ClusterD."""

    TOKEN = "ascend-pd:index:Clusterd"

    def __init__(self, name: str, args: ClusterdArgs, opts: ResourceOptions | None = None) -> None:
        """Declare rights before the pod that uses them."""
        namespaces = args.config.namespaces
        super().__init__(self.TOKEN, name, {"namespace": namespaces.operator}, opts)
        child = ResourceOptions(parent=self, depends_on=list(args.depends_on))
        place = Place(name, CLUSTERD_APP, namespaces.operator, LABELS)
        owner = (CLUSTERD_APP, namespaces.operator)
        needs = [
            service_account(name, CLUSTERD_APP, namespaces.operator, child),
            cluster_rights(name, f"ascend-pd-{CLUSTERD_APP}", owner, NODE_RULES, child),
            namespace_rights(name, CLUSTERD_APP, namespaces.workload, owner, WORKLOAD_RULES, child),
        ]
        self.deployment = deployment(place, 1, clusterd_template(args), child, needs)
        service(place, CLUSTERD_SERVICE, {"grpc": CLUSTERD}, child)
        self.register_outputs({})


def clusterd_template(args: ClusterdArgs) -> Manifest:
    """Pod template of the simulated ClusterD."""
    container = Container(
        name="clusterd",
        image=args.image,
        command=["sim-clusterd"],
        args=[f"--namespace={args.config.namespaces.workload}", f"--health-port={CLUSTERD_HEALTH}"],
        resources=args.config.clusterd.resources,
        volumes=[tls_volume(args.identity)],
        ports={"grpc": CLUSTERD, "health": CLUSTERD_HEALTH},
        probes={
            "startup": tls_probe(CLUSTERD_HEALTH, "/v1/health", period_s=2, failures=60, identity=args.identity),
            "readiness": tls_probe(CLUSTERD_HEALTH, "/v1/health", identity=args.identity),
            "liveness": tls_probe(CLUSTERD_HEALTH, "/v1/health", identity=args.identity),
        },
    )
    return pod_template(
        labels=LABELS,
        containers=[container],
        service_account=CLUSTERD_APP,
        node_selector=args.config.clusterd.node_selector,
        mounts_token=True,
    )
