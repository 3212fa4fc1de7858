# SPDX-License-Identifier: Apache-2.0
"""The Coordinator: the entry of inference requests. Source: deployment manual, coordinator.

Pulumi does not await it: it is Ready only once Servers have loaded their weights and have roles, and of two replicas only the
master ever is. The proof of the stack waits for it instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pulumi import ComponentResource, Resource, ResourceOptions
from pulumi_kubernetes.apps.v1 import Deployment
from pulumi_kubernetes.core.v1 import Service

from components.access import service_account
from components.engine import PROBE_COMMAND, on_engine, probe_installer
from components.pods import Container, Manifest, pod_template, spread_over_hosts, tls_probe, tls_volume
from components.workload import Place, deployment, disruption_budget, service
from controller_runtime.api.edges import COORDINATOR_APP
from controller_runtime.api.pki import Identity
from controller_runtime.api.stack import COORDINATOR_SERVICE, StackConfig

LABELS = {"app": COORDINATOR_APP}


@dataclass(frozen=True)
class CoordinatorArgs:
    """`identities`: all of the stack by name. `images`: `runtime`, and `simulator` without a real engine."""

    config: StackConfig
    images: Mapping[str, str]
    identities: dict[str, Identity]
    depends_on: Sequence[Resource] = ()


class Coordinator(ComponentResource):
    """Deployment and Service of the Coordinator. `endpoint`: where requests go inside the cluster."""

    TOKEN = "ascend-pd:index:Coordinator"

    deployment: Deployment
    service: Service
    endpoint: str

    def __init__(self, name: str, args: CoordinatorArgs, opts: ResourceOptions | None = None) -> None:
        """Declare the Service beside the pods: neither waits for a Server."""
        config = args.config
        namespace, ports = config.namespaces.workload, config.coordinator.ports
        super().__init__(self.TOKEN, name, {"namespace": namespace, "replicas": config.coordinator.replicas}, opts)
        child = ResourceOptions(parent=self, depends_on=list(args.depends_on))
        place = Place(name, COORDINATOR_APP, namespace, LABELS)
        account = service_account(name, COORDINATOR_APP, namespace, child)
        node_ports = {"infer": config.coordinator.node_port} if config.coordinator.node_port is not None else None
        self.service = service(place, COORDINATOR_SERVICE, {"infer": ports.predict}, child, node_ports)
        if config.coordinator.replicas > 1:
            disruption_budget(place, child)
        self.deployment = deployment(place, config.coordinator.replicas, coordinator_template(args), child, [account], one_ready=True)
        self.endpoint = f"https://{COORDINATOR_SERVICE}.{namespace}.svc.{config.cluster.domain}:{ports.predict}"
        self.register_outputs({"endpoint": self.endpoint})


def coordinator_template(args: CoordinatorArgs) -> Manifest:
    """Pod template of the Coordinator. It is Ready once a prefill and a decode Server are linked."""
    coordinator = args.config.coordinator
    ports, engine = coordinator.ports, args.config.workload.engine
    probe = PROBE_COMMAND if engine else ("probe",)
    used = [args.identities[name] for name in ("ms-coordinator", "etcd-coordinator", "probe")]
    container = Container(
        name="coordinator",
        image=engine.image if engine else args.images["simulator"],
        command=["sim-coordinator"],
        env=coordinator_environment(args.config),
        resources=coordinator.resources,
        volumes=[tls_volume(identity) for identity in used],
        ports={"predict": ports.predict, "management": ports.management, "external": ports.external, "status": ports.status},
        probes={
            "startup": tls_probe(ports.status, "/v1/startup", period_s=5, failures=100, command=probe),
            "readiness": tls_probe(ports.status, "/v1/readiness", command=probe),
            "liveness": tls_probe(ports.status, "/v1/health", failures=12, command=probe),
        },
    )
    return pod_template(
        labels=LABELS,
        containers=[on_engine(container, engine, engine.coordinator_command) if engine else container],
        init_containers=[probe_installer(args.images["runtime"])] if engine else [],
        service_account=COORDINATOR_APP,
        node_selector=coordinator.node_selector,
        affinity=spread_over_hosts(LABELS),
    )


def coordinator_environment(config: StackConfig) -> dict[str, str]:
    """Settings of the simulated Coordinator."""
    coordinator = config.coordinator
    ports = {f"SIM_{field.upper()}_PORT": str(port) for field, port in coordinator.ports}
    return ports | {
        "SIM_MODEL_NAME": config.workload.model_name,
        "SIM_MAX_REQUESTS": str(coordinator.max_requests),
        "SIM_BODY_LIMIT_MIB": str(coordinator.body_limit_mib),
        **({"SIM_BACKUP": "true"} if coordinator.replicas > 1 else {}),
    }
