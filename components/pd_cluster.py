# SPDX-License-Identifier: Apache-2.0
"""PdCluster: the composition users want, from namespaces to a proof that the stack serves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pulumi import ComponentResource, Output, Resource, ResourceOptions

from components.clusterd import Clusterd, ClusterdArgs
from components.crds import Crds
from components.etcd_cluster import EtcdCluster, EtcdClusterArgs, EtcdGrant
from components.field_manager import sign
from components.infer_operator import InferOperator, InferOperatorArgs
from components.infer_service_set import InferServiceSet, InferServiceSetArgs
from components.ms_config import IDENTITY_OF_LINK
from components.ms_controller import MsController, MsControllerArgs
from components.ms_coordinator import Coordinator, CoordinatorArgs
from components.namespace import Namespaces, NamespacesArgs
from components.node_pools import NodePools, NodePoolsArgs
from components.proof import Proof, ProofArgs
from components.tls import Pki, PkiArgs
from controller_runtime.api.edges import stack_edges
from controller_runtime.api.pki import Identity, identities
from controller_runtime.api.stack import StackConfig

_PROOF_IGNORES: Any = {"workload": {"prefill": {"instances"}, "decode": {"instances"}, "total_instances": True}, "pki": True, "quota": True}
"""What may change without another proof: how many instances, which certificates, quotas."""


@dataclass(frozen=True)
class PdClusterArgs:
    """`images`: image name -> reference by digest. `instances`: role -> how many, decided or given."""

    config: StackConfig
    images: Mapping[str, str]
    instances: Mapping[str, int]


class PdCluster(ComponentResource):
    """A whole stack.

    `endpoint`: where requests go. `certificates`: identity -> end of validity. `revocation_lists`:
    authority -> nextUpdate. `proof`: the Job that passed, None when the configuration asks for none.
    """

    TOKEN = "ascend-pd:index:PdCluster"

    endpoint: str
    certificates: Output[dict[str, str]]
    revocation_lists: Output[dict[str, str]]
    proof: Output[str] | None

    def __init__(self, name: str, args: PdClusterArgs, opts: ResourceOptions | None = None) -> None:
        """Declare the parts in the order in which they depend on each other."""
        signed = ResourceOptions.merge(opts, ResourceOptions(transformations=[sign]))
        super().__init__(self.TOKEN, name, {"namespaces": args.config.namespaces.model_dump()}, signed)
        self._name, self._args, self._config = name, args, args.config
        self._identities: dict[str, Identity] = {
            identity.name: identity for identity in identities(self._config.pki_names(), self._config.pki.existing)
        }
        self._child = ResourceOptions(parent=self)
        self._spaces = self._namespaces()
        after_spaces = ResourceOptions.merge(self._child, ResourceOptions(depends_on=list(self._spaces.by_name.values())))
        self._pki = Pki(f"{name}-pki", PkiArgs(self._config.pki, tuple(self._identities.values())), after_spaces)
        pools = self._node_pools()
        etcd = self._etcd()
        operator = self._operator()
        clusterd = self._clusterd()
        platform = [etcd.ready, *clusterd]
        controller, coordinator = self._controller(platform), self._coordinator(platform)
        servers = self._servers([operator.deployment, *pools.labelled])
        self.endpoint = coordinator.endpoint
        self.certificates, self.revocation_lists = self._pki.expiry, self._pki.next_updates
        self.proof = self._proof(coordinator, [controller.deployment, coordinator.deployment, servers.resource])
        self.register_outputs({"endpoint": self.endpoint, "certificates": self.certificates})

    def _needs(self, namespace: str, *identity_names: str) -> list[Resource]:
        """What must exist before a pod of `namespace` that mounts these identities."""
        secrets = [self._pki.secrets[name] for name in identity_names if name in self._pki.secrets]
        return [self._spaces.by_name[namespace], *secrets]

    def _namespaces(self) -> Namespaces:
        names = self._config.namespaces
        args = NamespacesArgs((names.operator, names.workload, names.etcd), stack_edges(self._config), self._config.quota)
        return Namespaces(f"{self._name}-ns", args, self._child)

    def _node_pools(self) -> NodePools:
        workload = self._config.workload
        requests: dict[str, int] = {}
        for role in (workload.prefill, workload.decode):
            requests[role.pool] = max(requests.get(role.pool, 0), role.npus_per_pod)
        return NodePools(f"{self._name}-pools", NodePoolsArgs(self._config.pools, requests), self._child)

    def _etcd(self) -> EtcdCluster:
        config, found = self._config, self._identities
        workload = config.namespaces.workload
        args = EtcdClusterArgs(
            spec=config.etcd,
            namespace=config.namespaces.etcd,
            cluster_domain=config.cluster.domain,
            image=self._args.images["etcd"],
            runtime_image=self._args.images["runtime"],
            server=found["etcd-server"],
            peer=found["etcd-peer"],
            root=found["etcd-root"],
            grants=(
                EtcdGrant(found["etcd-controller"].common_name, (f"/{workload}/cluster/", f"/{workload}/controller/")),
                EtcdGrant(found["etcd-coordinator"].common_name, (f"/{workload}/coordinator/",)),
            ),
            crl_numbers={authority: self._pki.crl_numbers[authority] for authority in ("etcd", "etcd-peer")},
            depends_on=self._needs(config.namespaces.etcd, "etcd-server", "etcd-peer", "etcd-root"),
        )
        return EtcdCluster(f"{self._name}-etcd", args, self._child)

    def _operator(self) -> InferOperator:
        config = self._config
        definitions = Crds(f"{self._name}-crds", self._child).definitions if config.operator.install_crds else []
        metrics = self._identities["infer-operator-metrics"]
        args = InferOperatorArgs(
            spec=config.operator,
            namespace=config.namespaces.operator,
            image=self._args.images["runtime"],
            metrics=metrics,
            depends_on=[*definitions, *self._needs(config.namespaces.operator, metrics.name)],
        )
        return InferOperator(f"{self._name}-operator", args, self._child)

    def _clusterd(self) -> list[Resource]:
        config = self._config
        if config.clusterd.mode == "external":
            return []
        args = ClusterdArgs(
            config,
            self._args.images["simulator"],
            self._identities["clusterd"],
            [*self._needs(config.namespaces.operator, "clusterd"), self._spaces.by_name[config.namespaces.workload]],
        )
        return [Clusterd(f"{self._name}-clusterd", args, self._child).deployment]

    def _controller(self, needs: list[Resource]) -> MsController:
        workload = self._config.namespaces.workload
        secrets = self._needs(workload, *IDENTITY_OF_LINK.values(), "probe")
        args = MsControllerArgs(self._config, self._args.images["runtime"], self._identities, [*needs, *secrets])
        return MsController(f"{self._name}-controller", args, self._child)

    def _coordinator(self, needs: list[Resource]) -> Coordinator:
        """Needs what the controller needs: it cannot become Ready earlier, and whoever fails is told of at once, not after its await."""
        workload = self._config.namespaces.workload
        secrets = self._needs(workload, "ms-coordinator", "etcd-coordinator", "probe")
        args = CoordinatorArgs(self._config, self._args.images, self._identities, [*needs, *secrets])
        return Coordinator(f"{self._name}-coordinator", args, self._child)

    def _servers(self, needs: list[Any]) -> InferServiceSet:
        workload = self._config.namespaces.workload
        secrets = self._needs(workload, "mindie-server", "node-manager", "probe")
        args = InferServiceSetArgs(self._config, self._args.images, self._identities, self._args.instances, [*needs, *secrets])
        return InferServiceSet(f"{self._name}-servers", args, self._child)

    def _proof(self, coordinator: Coordinator, needs: list[Resource]) -> Output[str] | None:
        config = self._config
        if config.proof_timeout_s == 0:
            return None
        args = ProofArgs(
            namespace=config.namespaces.workload,
            image=self._args.images["runtime"],
            endpoint=coordinator.endpoint,
            identity=self._identities["smoke"],
            timeout_s=config.proof_timeout_s,
            expect_trace=config.workload.engine is None,
            proves=[config.model_dump(mode="json", exclude=_PROOF_IGNORES), dict(self._args.images)],
            depends_on=[*needs, *self._needs(config.namespaces.workload, "smoke")],
        )
        return Proof(f"{self._name}-proof", args, self._child).passed
