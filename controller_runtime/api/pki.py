# SPDX-License-Identifier: Apache-2.0
"""Who has a certificate: one identity per link end, three certificate authorities.

An identity is a name, an authority, a namespace and the names it is dialled by. Everything that
mounts, checks or revokes a certificate refers to this list, so that a switch, a Secret and a SAN
cannot drift apart. Source: controller manual, `tls_config`; deployment manual, certificates.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, PositiveInt, StringConstraints

from controller_runtime.api.base import Model
from controller_runtime.api.units import Name, Namespace

TLS_ROOT = "/mnt/tls"
ETCD_CLIENT_SAN = "etcd.client.local"
"""SAN that etcd demands of every client certificate."""


class Authority(StrEnum):
    """The three certificate authorities. A leaf of one is refused on the links of another."""

    ETCD = "etcd"
    ETCD_PEER = "etcd-peer"
    PD = "pd"


class Usage(StrEnum):
    """Extended key usages."""

    SERVER = "server_auth"
    CLIENT = "client_auth"


class Identity(Model):
    """One certificate and its Secret in `namespace`: `<name>-tls`, or the one that the site brings."""

    name: str
    authority: Authority
    namespace: str
    common_name: str
    dns_names: tuple[str, ...]
    ip_addresses: tuple[str, ...] = ()
    usages: tuple[Usage, ...] = (Usage.SERVER, Usage.CLIENT)
    existing_secret: str | None = None

    @property
    def secret(self) -> str:
        """Name of the Secret that carries it."""
        return self.existing_secret or f"{self.name}-tls"

    @property
    def directory(self) -> str:
        """Where pods mount it."""
        return f"{TLS_ROOT}/{self.name}"


class ExistingIdentity(Model):
    """A certificate that the site brings: a Secret with the keys ca.crt, tls.crt, tls.key and crl.pem."""

    secret: Name
    """Name of the Secret, in the namespace where the identity is used."""
    passphrase_file: str | None = None
    """Path of a file that holds the passphrase of the key, inside the container."""


Revocation = Annotated[str, StringConstraints(pattern=r"^[a-z][-a-z0-9]*#[1-9][0-9]*$")]
"""`<identity>#<generation>`. The current generation is 1 + the number of revoked ones."""


class PkiSpec(Model):
    """How certificates are made, how long they live, which are revoked."""

    algorithm: Literal["ECDSA-P256", "RSA-3072"] = "ECDSA-P256"
    authority_hours: PositiveInt = 10 * 365 * 24
    leaf_hours: PositiveInt = 365 * 24
    renew_before_hours: PositiveInt = 30 * 24
    """A leaf with less than this left is renewed by the next `pulumi up`."""
    crl_hours: PositiveInt = 90 * 24
    """Time from issue to nextUpdate. Every Python link refuses all peers once it has passed."""
    crl_renew_before_hours: PositiveInt = 30 * 24
    revoked: tuple[Revocation, ...] = ()
    existing: dict[str, ExistingIdentity] = Field(default_factory=dict)
    """Identity name -> the Secret the site brings for it."""

    def generation(self, identity: str) -> int:
        """Generation of the certificate in use, 1 for the first."""
        return 1 + sum(1 for item in self.revoked if item.rpartition("#")[0] == identity)


class PkiNames(Model):
    """The names that certificates are made of."""

    operator_namespace: Namespace
    workload_namespace: Namespace
    etcd_namespace: Namespace
    cluster_domain: str
    etcd_service: str
    etcd_members: int
    coordinator_service: str
    clusterd_service: str


OUTWARD = ("ms-controller-cluster", "ms-controller-ccae")
"""Identities that only meet peers outside the stack. Everyone inside trusts the stack's own authorities alone, so only these
can be the site's."""
CONTROLLER_LINKS = ("http-server", "request-coordinator", "request-server", "external-coordinator", "alarm", "cluster", "ccae")
"""Links of the controller's `tls_config` with an identity of their own in the `pd` authority; the eighth is etcd."""


def identities(names: PkiNames, existing: Mapping[str, ExistingIdentity] | None = None) -> tuple[Identity, ...]:
    """List every identity of a stack, in the order in which certificates are made. `existing`: those that the site brings."""
    brought = existing or {}
    return tuple(
        identity.model_copy(update={"existing_secret": brought[identity.name].secret}) if identity.name in brought else identity
        for identity in _all_identities(names)
    )


def _all_identities(names: PkiNames) -> tuple[Identity, ...]:
    workload, operator = names.workload_namespace, names.operator_namespace
    return (
        _etcd_server(names),
        _etcd_peer(names),
        *(_etcd_client(identity, cn, namespace) for identity, cn, namespace in _etcd_clients(names)),
        *(_pd(f"ms-controller-{link}", workload) for link in CONTROLLER_LINKS),
        _pd("ms-coordinator", workload, service=names.coordinator_service, domain=names.cluster_domain),
        _pd("mindie-server", workload),
        _pd("node-manager", workload),
        _pd("probe", workload),
        _pd("smoke", workload),
        _pd("clusterd", operator, service=names.clusterd_service, domain=names.cluster_domain),
        _pd("infer-operator-metrics", operator),
    )


def service_names(service: str, namespace: str, domain: str) -> tuple[str, ...]:
    """List the four DNS forms of a Service."""
    return (service, f"{service}.{namespace}", f"{service}.{namespace}.svc", f"{service}.{namespace}.svc.{domain}")


def _pd(name: str, namespace: str, *, service: str | None = None, domain: str = "") -> Identity:
    names = service_names(service, namespace, domain) if service else ()
    return Identity(
        name=name,
        authority=Authority.PD,
        namespace=namespace,
        common_name=name,
        dns_names=tuple(dict.fromkeys((f"{name}.{namespace}", *names))),
    )


def _etcd_clients(names: PkiNames) -> tuple[tuple[str, str, str], ...]:
    workload = names.workload_namespace
    return (
        ("etcd-controller", f"controller-{workload}", workload),
        ("etcd-coordinator", f"coordinator-{workload}", workload),
        ("etcd-backup", f"backup-{workload}", names.etcd_namespace),
        ("etcd-root", "root", names.etcd_namespace),
    )


def _etcd_client(name: str, common_name: str, namespace: str) -> Identity:
    return Identity(
        name=name,
        authority=Authority.ETCD,
        namespace=namespace,
        common_name=common_name,
        dns_names=(ETCD_CLIENT_SAN,),
        usages=(Usage.CLIENT,),
    )


def _etcd_server(names: PkiNames) -> Identity:
    return Identity(
        name="etcd-server",
        authority=Authority.ETCD,
        namespace=names.etcd_namespace,
        common_name="etcd-server",
        dns_names=(*_member_names(names), "localhost"),
        ip_addresses=("127.0.0.1",),
        usages=(Usage.SERVER,),
    )


def _etcd_peer(names: PkiNames) -> Identity:
    return Identity(
        name="etcd-peer",
        authority=Authority.ETCD_PEER,
        namespace=names.etcd_namespace,
        common_name="etcd-peer",
        dns_names=_member_names(names),
    )


def _member_names(names: PkiNames) -> tuple[str, ...]:
    service, namespace, domain = names.etcd_service, names.etcd_namespace, names.cluster_domain
    members = (f"{service}-{n}.{form}" for n in range(names.etcd_members) for form in service_names(service, namespace, domain))
    wildcards = (f"*.{service}.{namespace}.svc", f"*.{service}.{namespace}.svc.{domain}")
    return (*service_names(service, namespace, domain), *members, *wildcards)
