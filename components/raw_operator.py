# SPDX-License-Identifier: Apache-2.0
"""The Infer Operator without a stack: what `kubectl apply -f deploy/infer-operator.yaml` puts into an empty cluster.

No metrics are served, since nobody makes a certificate for them. The operator's pods get no traffic at all, and
may open connections anywhere: the address of the API server is not known here. Source: operator RFC, 8 and 11.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pulumi import ComponentResource, ResourceOptions
from pulumi_kubernetes.core.v1 import Namespace
from pulumi_kubernetes.networking.v1 import NetworkPolicy

from components.crds import Crds
from components.infer_operator import LABELS, InferOperator, InferOperatorArgs
from components.namespace import restricted_labels
from controller_runtime.api.stack import OperatorSpec

TCP_OUT_ONLY: dict[str, Any] = {
    "podSelector": {"matchLabels": LABELS},
    "policyTypes": ["Ingress", "Egress"],
    "egress": [{"ports": [{"protocol": "TCP"}]}],
}


@dataclass(frozen=True)
class RawOperatorArgs:
    """`namespace` is made; `image` is a reference that the nodes have or can pull."""

    spec: OperatorSpec
    namespace: str
    image: str


class RawOperator(ComponentResource):
    """A namespace, the three definitions, and the operator."""

    TOKEN = "ascend-pd:index:RawOperator"

    def __init__(self, name: str, args: RawOperatorArgs, opts: ResourceOptions | None = None) -> None:
        """Declare the parts in the order in which they depend on each other."""
        super().__init__(self.TOKEN, name, {"namespace": args.namespace}, opts)
        child = ResourceOptions(parent=self)
        namespace = Namespace(f"{name}-namespace", metadata={"name": args.namespace, "labels": restricted_labels()}, opts=child)
        definitions = Crds(f"{name}-crds", child).definitions
        inside = ResourceOptions(parent=self, depends_on=[namespace])
        NetworkPolicy(
            f"{name}-network-policy",
            metadata={"name": LABELS["app"], "namespace": args.namespace},
            spec=TCP_OUT_ONLY,
            opts=inside,
        )
        InferOperator(
            f"{name}-operator",
            InferOperatorArgs(args.spec, args.namespace, args.image, metrics=None, depends_on=[namespace, *definitions]),
            child,
        )
        self.register_outputs({})
