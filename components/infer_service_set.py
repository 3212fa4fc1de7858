# SPDX-License-Identifier: Apache-2.0
"""The InferServiceSet of a stack: prefill and decode roles, each with its hardware. Source: operator RFC, 6.1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pulumi import ComponentResource, Resource, ResourceOptions
from pulumi_kubernetes.apiextensions import CustomResource

from components.access import service_account
from components.engine import PROBE_COMMAND, on_engine, probe_installer
from components.pods import Container, Manifest, pod_template, tls_probe, tls_volume
from controller_runtime.api.edges import SERVER_APP
from controller_runtime.api.pki import Identity
from controller_runtime.api.stack import NPU_RESOURCE, Resources, RoleSpec, StackConfig

DEPLOY_SERVER_LABEL = "grt-group/deploy-server"
DEPLOY_SERVER = {"prefill": "2", "decode": "1"}
"""Value by which a rank table carries the role of a Server. Source: deployment manual, deploy_server."""
SERVER_GRACE_S = 30
NODE_MANAGER_RESOURCES = Resources(cpu="50m", memory="256Mi")
START_PERIOD_S = 5
MIN_START_ATTEMPTS = 100
"""Source: deployment manual, startup probe. A Server that loads large weights gets `workload.ready_timeout_s`."""


@dataclass(frozen=True)
class InferServiceSetArgs:
    """`instances`: role -> how many. `identities`: all of the stack by name.

    `images`: `runtime`, and `simulator` without a real engine.
    """

    config: StackConfig
    images: Mapping[str, str]
    identities: dict[str, Identity]
    instances: Mapping[str, int]
    depends_on: Sequence[Resource] = ()


class InferServiceSet(ComponentResource):
    """One InferServiceSet, awaited until the operator reports it Ready."""

    TOKEN = "ascend-pd:index:InferServiceSet"

    resource: CustomResource

    def __init__(self, name: str, args: InferServiceSetArgs, opts: ResourceOptions | None = None) -> None:
        """Declare the account of its pods, then the set."""
        workload, namespace = args.config.workload, args.config.namespaces.workload
        super().__init__(self.TOKEN, name, {"name": workload.name}, opts)
        child = ResourceOptions(parent=self, depends_on=list(args.depends_on))
        account = service_account(name, SERVER_APP, namespace, child)
        self.resource = CustomResource(
            f"{name}-set",
            api_version="mindcluster.huawei.com/v1",
            kind="InferServiceSet",
            metadata={
                "name": workload.name,
                "namespace": namespace,
                "annotations": {"pulumi.com/waitFor": "condition=Ready", "pulumi.com/timeoutSeconds": str(workload.ready_timeout_s)},
            },
            spec=set_spec(args),
            opts=ResourceOptions.merge(child, ResourceOptions(depends_on=[account])),
        )
        self.register_outputs({})


def set_spec(args: InferServiceSetArgs) -> Manifest:
    """Spec of the set."""
    workload = args.config.workload
    roles = [role(args, name, getattr(workload, name)) for name in ("prefill", "decode")]
    return {"replicas": workload.services, "template": {"roles": roles}}


def role(args: InferServiceSetArgs, name: str, spec: RoleSpec) -> Manifest:
    """One role: a StatefulSet per instance."""
    pods: dict[str, Any] = {
        "replicas": spec.pods_per_instance,
        "podManagementPolicy": "Parallel",
        "template": server_template(args, name, spec),
    }
    return {
        "name": name,
        "replicas": args.instances[name],
        "workload": {"apiVersion": "apps/v1", "kind": "StatefulSet"},
        "spec": pods,
    }


def server_template(args: InferServiceSetArgs, role_name: str, spec: RoleSpec) -> Manifest:
    """Pod template of a Server: the engine and its node manager."""
    workload, found = args.config.workload, args.identities
    ports, engine = workload.ports, workload.engine
    probe = PROBE_COMMAND if engine else ("probe",)
    image = engine.image if engine else args.images["simulator"]
    start_attempts = max(MIN_START_ATTEMPTS, workload.ready_timeout_s // START_PERIOD_S)
    server = Container(
        name="server",
        image=image,
        command=["sim-server"],
        env=server_environment(args.config, spec),
        resources=spec.resources,
        volumes=[tls_volume(found["mindie-server"]), tls_volume(found["probe"])],
        ports={"data": ports.data, "management": ports.management, "metrics": ports.metrics, "transfer": ports.transfer},
        probes={
            "startup": tls_probe(ports.management, "/v2/health/ready", period_s=START_PERIOD_S, failures=start_attempts, command=probe),
            "readiness": tls_probe(ports.management, "/v2/health/ready", command=probe),
            "liveness": tls_probe(ports.management, "/v2/health/ready", command=probe),
        },
        npus=spec.npus_per_pod,
        npu_resource=NPU_RESOURCE,
    )
    node_manager = Container(
        name="node-manager",
        image=image,
        command=["sim-node-manager"],
        env={"SIM_NODE_MANAGER_PORT": str(ports.node_manager), "SIM_MANAGEMENT_PORT": str(ports.management)},
        resources=NODE_MANAGER_RESOURCES,
        volumes=[tls_volume(found["node-manager"])],
        ports={"node-manager": ports.node_manager},
    )
    containers = [server, node_manager]
    if engine:
        containers = [on_engine(server, engine, engine.server_command)]
        if engine.node_manager_command:
            containers.append(on_engine(node_manager, engine, engine.node_manager_command))
    return pod_template(
        labels=server_labels(args.config, role_name),
        containers=containers,
        init_containers=[probe_installer(args.images["runtime"])] if engine else [],
        service_account=SERVER_APP,
        node_selector=args.config.pools[spec.pool].node_selector,
        grace_s=SERVER_GRACE_S,
    )


def server_labels(config: StackConfig, role_name: str) -> dict[str, str]:
    """Labels by which ClusterD finds Servers; without different hardware they carry the role too."""
    labels = {"app": SERVER_APP}
    return labels if config.workload.heterogeneous else labels | {DEPLOY_SERVER_LABEL: DEPLOY_SERVER[role_name]}


def server_environment(config: StackConfig, spec: RoleSpec) -> dict[str, str]:
    """Settings of the simulated engine."""
    workload = config.workload
    ports = {"DATA": "data", "MANAGEMENT": "management", "METRICS": "metrics", "KV": "transfer", "ADMIN": "admin"}
    return {f"SIM_{variable}_PORT": str(getattr(workload.ports, field)) for variable, field in ports.items()} | {
        "SIM_MODEL_NAME": workload.model_name,
        "SIM_PERFORMANCE_MODEL": config.decision.model,
        "SIM_MACHINE": config.decision.machine,
        "SIM_TENSOR_PARALLEL": str(spec.npus_per_pod),
        "SIM_TIME_SCALE": str(workload.time_scale),
    }
