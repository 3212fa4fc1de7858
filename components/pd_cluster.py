# SPDX-License-Identifier: Apache-2.0
"""PdCluster: the composition users want, from namespaces to a proof that the stack serves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pulumi import ComponentResource, Input, Output, ResourceOptions

from components.etcd_cluster import EtcdCluster, EtcdClusterArgs, EtcdGrant
from components.namespace import Namespaces, NamespacesArgs
from components.tls import Pki, PkiArgs
from controller_runtime.api.edges import stack_edges
from controller_runtime.api.pki import Identity, identities
from controller_runtime.api.stack import StackConfig


@dataclass(frozen=True)
class PdClusterArgs:
    """`images`: image name -> reference by digest."""

    config: StackConfig
    images: Mapping[str, Input[str]]


class PdCluster(ComponentResource):
    """A whole stack."""

    TOKEN = "ascend-pd:index:PdCluster"

    certificates: Output[dict[str, str]]

    def __init__(self, name: str, args: PdClusterArgs, opts: ResourceOptions | None = None) -> None:
        """Declare the parts in the order in which they depend on each other."""
        super().__init__(self.TOKEN, name, {"config": args.config.model_dump(mode="json")}, opts)
        self._name, self._args, self._config = name, args, args.config
        self._identities: dict[str, Identity] = {identity.name: identity for identity in identities(self._config.pki_names())}
        self._child = ResourceOptions(parent=self)
        spaces = self._namespaces()
        after_spaces = ResourceOptions(parent=self, depends_on=list(spaces.namespaces.values()))
        pki = Pki(f"{name}-pki", PkiArgs(self._config.pki, tuple(self._identities.values())), after_spaces)
        self._etcd(pki, spaces)
        self.certificates = pki.expiry
        self.register_outputs({"certificates": self.certificates})

    def _namespaces(self) -> Namespaces:
        config = self._config
        names = (config.namespaces.operator, config.namespaces.workload, config.namespaces.etcd)
        return Namespaces(f"{self._name}-ns", NamespacesArgs(names, stack_edges(config), config.quota), self._child)

    def _etcd(self, pki: Pki, spaces: Namespaces) -> EtcdCluster:
        config, found = self._config, self._identities
        workload = config.namespaces.workload
        used = ("etcd-server", "etcd-peer", "etcd-root")
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
            crl_numbers={authority: pki.crl_numbers[authority] for authority in ("etcd", "etcd-peer")},
            depends_on=[spaces.namespaces[config.namespaces.etcd], *(pki.secrets[name] for name in used if name in pki.secrets)],
        )
        return EtcdCluster(f"{self._name}-etcd", args, self._child)
