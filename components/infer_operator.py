# SPDX-License-Identifier: Apache-2.0
"""The Infer Operator: turns InferServiceSets into workloads. Source: operator RFC."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pulumi import ComponentResource, Input, Resource, ResourceOptions
from pulumi_kubernetes.apps.v1 import Deployment
from pulumi_kubernetes.core.v1 import ConfigMap

from components.access import cluster_rights, namespace_rights, service_account
from components.pods import Container, Manifest, http_probe, pod_template, tls_volume
from controller_runtime.api.edges import OPERATOR_APP
from controller_runtime.api.operator_rbac import (
    CONFIG_NAME,
    NODE_LEASE_NAMESPACE,
    cluster_rules,
    node_lease_rules,
    operator_namespace_rules,
)
from controller_runtime.api.pki import Identity
from controller_runtime.api.ports import OPERATOR_HEALTH, OPERATOR_METRICS
from controller_runtime.api.stack import OperatorSpec

NAME = "infer-operator-manager"
LABELS = {"app": OPERATOR_APP}


@dataclass(frozen=True)
class InferOperatorArgs:
    """`metrics`: identity of the metrics listener, or None for none."""

    spec: OperatorSpec
    namespace: str
    image: Input[str]
    metrics: Identity | None
    depends_on: Sequence[Resource] = ()


class InferOperator(ComponentResource):
    """Account, rights, settings and Deployment of the operator."""

    TOKEN = "ascend-pd:index:InferOperator"

    deployment: Deployment

    def __init__(self, name: str, args: InferOperatorArgs, opts: ResourceOptions | None = None) -> None:
        """Declare rights before the pod that uses them."""
        super().__init__(self.TOKEN, name, {"namespace": args.namespace, "replicas": args.spec.replicas}, opts)
        child = ResourceOptions(parent=self, depends_on=list(args.depends_on))
        account = (NAME, args.namespace)
        made = service_account(name, NAME, args.namespace, child)
        rights = cluster_rights(name, NAME, account, cluster_rules(), child)
        own = namespace_rights(name, NAME, args.namespace, account, operator_namespace_rules(), child)
        nodes = namespace_rights(name, NAME, NODE_LEASE_NAMESPACE, account, node_lease_rules(), child)
        settings = ConfigMap(
            f"{name}-config",
            metadata={
                "name": CONFIG_NAME,
                "namespace": args.namespace,
                "labels": {"infer.huawei.com/ascend-infer-operator": "infer-cm"},
            },
            data={"fault_handling": "true"},
            opts=child,
        )
        spec: Manifest = {"replicas": args.spec.replicas, "selector": {"matchLabels": LABELS}, "template": operator_template(args)}
        self.deployment = Deployment(
            f"{name}-deployment",
            metadata={"name": NAME, "namespace": args.namespace, "labels": LABELS},
            spec=spec,
            opts=ResourceOptions(parent=self, depends_on=[*args.depends_on, made, rights, own, nodes, settings]),
        )
        self.register_outputs({})


def operator_template(args: InferOperatorArgs) -> Manifest:
    """Pod template of the operator."""
    flags = [f"--logLevel={args.spec.log_level}", "--enable-healthz", f"--healthz-address=$(POD_IP):{OPERATOR_HEALTH}"]
    ports = {"health": OPERATOR_HEALTH}
    if args.metrics is not None:
        flags += [f"--metrics-address=$(POD_IP):{OPERATOR_METRICS}", f"--metrics-tls-dir={args.metrics.directory}"]
        ports["metrics"] = OPERATOR_METRICS
    container = Container(
        name="manager",
        image=args.image,
        command=["infer-operator"],
        args=flags,
        resources=args.spec.resources,
        volumes=[tls_volume(args.metrics)] if args.metrics is not None else [],
        ports=ports,
        probes={
            "liveness": http_probe("/healthz", OPERATOR_HEALTH, period_s=10, timeout_s=3, failures=3),
            "readiness": http_probe("/readyz", OPERATOR_HEALTH, period_s=5, timeout_s=3, failures=3),
        },
    )
    return pod_template(
        labels=LABELS,
        containers=[container],
        service_account=NAME,
        node_selector=args.spec.node_selector,
        mounts_token=True,
        grace_s=10,
    )
