# SPDX-License-Identifier: Apache-2.0
"""Certificate authorities, one certificate per identity, and the Secrets that carry them.

Generations: revoking `<identity>#1` makes generation 2 the current one and keeps generation 1 in the
program, because the revocation list reads its serial from the certificate.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pulumi import ComponentResource, Output, ResourceOptions
from pulumi_kubernetes.core.v1 import Secret
from pulumi_tls import CertRequest, LocallySignedCert, PrivateKey, SelfSignedCert

from components.crl import Crl
from controller_runtime.api.pki import Authority, Identity, PkiSpec

_KEY_ARGS: dict[str, dict[str, Any]] = {
    "ECDSA-P256": {"algorithm": "ECDSA", "ecdsa_curve": "P256"},
    "RSA-3072": {"algorithm": "RSA", "rsa_bits": 3072},
}
_LEAF_USES = ("digital_signature", "key_encipherment")


@dataclass(frozen=True)
class PkiArgs:
    """Everything certificates are made of. `identities`: all of the stack, each in its namespace."""

    spec: PkiSpec
    identities: Sequence[Identity]


@dataclass(frozen=True)
class _Leaf:
    """One generation of one identity's certificate."""

    identity: Identity
    generation: int
    key: PrivateKey
    certificate: LocallySignedCert


class Pki(ComponentResource):
    """Three authorities, their revocation lists, and a Secret `<identity>-tls` per identity.

    `crl_numbers`: authority -> number of its list; `next_updates`: authority -> when it runs out.
    `expiry`: identity -> end of its certificate, RFC 3339.
    `secrets`: identity -> the Secret, for `depends_on`; without those that the site brings.
    """

    TOKEN = "ascend-pd:index:Pki"

    crl_numbers: dict[str, Output[int]]
    expiry: Output[dict[str, str]]
    next_updates: Output[dict[str, str]]
    secrets: dict[str, Secret]

    def __init__(self, name: str, args: PkiArgs, opts: ResourceOptions | None = None) -> None:
        """Declare authorities first, then leaves, lists and Secrets."""
        super().__init__(self.TOKEN, name, {"algorithm": args.spec.algorithm, "revoked": list(args.spec.revoked)}, opts)
        self._name, self._spec, self._child = name, args.spec, ResourceOptions(parent=self)
        made = [identity for identity in args.identities if identity.name not in args.spec.existing]
        authorities = {authority: self._authority(authority) for authority in Authority}
        current, revoked = self._leaves(made, authorities)
        lists = {authority: self._revocation_list(authority, *authorities[authority], revoked, current) for authority in Authority}
        self.secrets = {leaf.identity.name: self._secret(leaf, authorities, lists) for leaf in current}
        self.crl_numbers = {authority.value: crl.number for authority, crl in lists.items()}
        self.expiry = Output.all(**{leaf.identity.name: leaf.certificate.validity_end_time for leaf in current})
        self.next_updates = Output.all(**{authority.value: crl.next_update for authority, crl in lists.items()})
        self.register_outputs({"crl_numbers": self.crl_numbers, "expiry": self.expiry, "next_updates": self.next_updates})

    def _authority(self, authority: Authority) -> tuple[PrivateKey, SelfSignedCert]:
        base = f"{self._name}-{authority}-ca"
        key = PrivateKey(f"{base}-key", opts=self._child, **_KEY_ARGS[self._spec.algorithm])
        certificate = SelfSignedCert(
            f"{base}-cert",
            private_key_pem=key.private_key_pem,
            subject={"common_name": f"{self._name}-{authority}-ca", "organization": "ascend-pd"},
            is_ca_certificate=True,
            set_subject_key_id=True,
            allowed_uses=["cert_signing", "crl_signing"],
            validity_period_hours=self._spec.authority_hours,
            opts=self._child,
        )
        return key, certificate

    def _leaves(
        self, identities: Sequence[Identity], authorities: dict[Authority, tuple[PrivateKey, SelfSignedCert]]
    ) -> tuple[list[_Leaf], list[_Leaf]]:
        current: list[_Leaf] = []
        revoked: list[_Leaf] = []
        for identity in identities:
            last = self._spec.generation(identity.name)
            for generation in range(1, last + 1):
                leaf = self._leaf(identity, generation, *authorities[identity.authority])
                (current if generation == last else revoked).append(leaf)
        return current, revoked

    def _leaf(self, identity: Identity, generation: int, ca_key: PrivateKey, ca: SelfSignedCert) -> _Leaf:
        base = f"{self._name}-{identity.name}-{generation}"
        key = PrivateKey(f"{base}-key", opts=self._child, **_KEY_ARGS[self._spec.algorithm])
        request = CertRequest(
            f"{base}-request",
            private_key_pem=key.private_key_pem,
            subject={"common_name": identity.common_name, "organization": "ascend-pd"},
            dns_names=list(identity.dns_names),
            ip_addresses=list(identity.ip_addresses),
            opts=self._child,
        )
        certificate = LocallySignedCert(
            f"{base}-cert",
            ca_private_key_pem=ca_key.private_key_pem,
            ca_cert_pem=ca.cert_pem,
            cert_request_pem=request.cert_request_pem,
            allowed_uses=[*_LEAF_USES, *identity.usages],
            validity_period_hours=self._spec.leaf_hours,
            early_renewal_hours=self._spec.renew_before_hours,
            set_subject_key_id=True,
            opts=self._child,
        )
        return _Leaf(identity, generation, key, certificate)

    def _revocation_list(
        self, authority: Authority, key: PrivateKey, ca: SelfSignedCert, revoked: Sequence[_Leaf], current: Sequence[_Leaf]
    ) -> Crl:
        return Crl(
            f"{self._name}-{authority}-crl",
            authority=authority.value,
            ca_cert_pem=ca.cert_pem,
            ca_key_pem=key.private_key_pem,
            revoked_cert_pems=[leaf.certificate.cert_pem for leaf in revoked if leaf.identity.authority == authority],
            current_cert_pems=[leaf.certificate.cert_pem for leaf in current if leaf.identity.authority == authority],
            valid_hours=self._spec.crl_hours,
            renew_before_hours=self._spec.crl_renew_before_hours,
            opts=self._child,
        )

    def _secret(self, leaf: _Leaf, authorities: dict[Authority, tuple[PrivateKey, SelfSignedCert]], lists: dict[Authority, Crl]) -> Secret:
        identity, crl = leaf.identity, lists[leaf.identity.authority]
        data: dict[str, Any] = {
            "ca.crt": authorities[identity.authority][1].cert_pem.apply(_base64),
            "tls.crt": leaf.certificate.cert_pem.apply(_base64),
            "tls.key": Output.secret(leaf.key.private_key_pem.apply(_base64)),
            "crl.pem": crl.crl_pem.apply(_base64),
        }
        if identity.authority is not Authority.PD:
            data["crl.der"] = crl.crl_der_base64
        return Secret(
            f"{self._name}-{identity.secret}",
            metadata={"name": identity.secret, "namespace": identity.namespace},
            type="Opaque",
            data=data,
            opts=self._child,
        )


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
