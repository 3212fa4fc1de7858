# SPDX-License-Identifier: Apache-2.0
"""Authorities, certificates, revocation lists and Secrets that a stack declares."""

from __future__ import annotations

import base64

import pytest

from components.tls import Pki, PkiArgs
from controller_runtime.api.pki import identities
from tests.support.declared_stack import trial_stack
from tests.support.pulumi_mocks import Inventory, declare

CERTIFICATE = "tls:index/locallySignedCert:LocallySignedCert"
REQUEST = "tls:index/certRequest:CertRequest"
KEY = "tls:index/privateKey:PrivateKey"
SECRET = "kubernetes:core/v1:Secret"
CRL = "pulumi-python:dynamic/ascend-pd:Crl"


def pki(changes: dict[str, object] | None = None, *, preview: bool = False) -> Inventory:
    config = trial_stack(changes)
    args = PkiArgs(config.pki, identities(config.pki_names(), config.pki.existing))
    return declare(lambda: Pki("pki", args), preview=preview)


def secret(stack: Inventory, name: str) -> dict[str, str]:
    data = stack.one(SECRET, name).inputs["data"]
    return {file: base64.b64decode(text).decode() for file, text in data.items()}


@pytest.mark.parametrize("preview", [False, True])
def test_three_authorities_sign_one_certificate_per_identity(preview: bool) -> None:
    stack = pki(preview=preview)
    names = [identity.name for identity in identities(trial_stack().pki_names())]

    assert len(names) == 20
    assert stack.names() == sorted(
        [
            ("ascend-pd:index:Pki", "pki"),
            *((KEY, f"pki-{authority}-ca-key") for authority in ("etcd", "etcd-peer", "pd")),
            *(("tls:index/selfSignedCert:SelfSignedCert", f"pki-{authority}-ca-cert") for authority in ("etcd", "etcd-peer", "pd")),
            *((CRL, f"pki-{authority}-crl") for authority in ("etcd", "etcd-peer", "pd")),
            *((KEY, f"pki-{name}-1-key") for name in names),
            *((REQUEST, f"pki-{name}-1-request") for name in names),
            *((CERTIFICATE, f"pki-{name}-1-cert") for name in names),
            *((SECRET, f"pki-{name}-tls") for name in names),
        ]
    )


def test_each_leaf_is_signed_by_its_own_authority() -> None:
    stack = pki()

    signers = {
        each.name.removeprefix("pki-").removesuffix("-1-cert"): each.inputs["caCertPem"].removeprefix("certificate of pki-")
        for each in stack.of(CERTIFICATE)
    }

    assert {name for name, signer in signers.items() if signer == "etcd-peer-ca-cert"} == {"etcd-peer"}
    assert {name for name, signer in signers.items() if signer == "etcd-ca-cert"} == {
        "etcd-server",
        "etcd-controller",
        "etcd-coordinator",
        "etcd-backup",
        "etcd-root",
    }
    assert {signer for name, signer in signers.items() if not name.startswith("etcd-")} == {"pd-ca-cert"}


def test_a_certificate_serves_only_the_ends_it_is_for() -> None:
    stack = pki()
    uses = {each.name: set(each.inputs["allowedUses"]) - {"digital_signature", "key_encipherment"} for each in stack.of(CERTIFICATE)}

    assert uses["pki-etcd-server-1-cert"] == {"server_auth"}
    assert uses["pki-etcd-controller-1-cert"] == {"client_auth"}
    assert uses["pki-etcd-peer-1-cert"] == {"server_auth", "client_auth"}
    for authority in stack.of("tls:index/selfSignedCert:SelfSignedCert"):
        assert authority.inputs["allowedUses"] == ["cert_signing", "crl_signing"]
        assert authority.inputs["isCaCertificate"] is True


def test_a_secret_holds_authority_certificate_key_and_list_of_its_identity() -> None:
    stack = pki()

    assert secret(stack, "node-manager-tls") == {
        "ca.crt": "certificate of pki-pd-ca-cert",
        "tls.crt": "certificate of pki-node-manager-1-cert",
        "tls.key": "key of pki-node-manager-1-key",
        "crl.pem": "list of pd",
    }
    assert stack.one(SECRET, "node-manager-tls").metadata["namespace"] == "mindie"
    assert secret(stack, "etcd-server-tls")["crl.der"] == "list of etcd"
    assert stack.one(SECRET, "etcd-server-tls").metadata["namespace"] == "ascend-pd-etcd"


def test_revoking_a_certificate_makes_the_next_one_and_keeps_the_old_one_for_its_serial() -> None:
    before, after = pki(), pki({"pki.revoked": ["etcd-controller#1"]})

    assert set(after.names()) - set(before.names()) == {
        (KEY, "pki-etcd-controller-2-key"),
        (REQUEST, "pki-etcd-controller-2-request"),
        (CERTIFICATE, "pki-etcd-controller-2-cert"),
    }
    assert set(before.names()) <= set(after.names())
    revoked = {each.inputs["authority"]: each.inputs["revoked_cert_pems"] for each in after.of(CRL)}
    assert revoked == {"etcd": ["certificate of pki-etcd-controller-1-cert"], "etcd-peer": [], "pd": []}
    assert secret(after, "etcd-controller-tls")["tls.key"] == "key of pki-etcd-controller-2-key"


def test_the_third_generation_follows_two_revoked_ones() -> None:
    stack = pki({"pki.revoked": ["probe#1", "probe#2"]})

    assert secret(stack, "probe-tls")["tls.crt"] == "certificate of pki-probe-3-cert"
    assert [each.inputs["revoked_cert_pems"] for each in stack.of(CRL) if each.inputs["authority"] == "pd"] == [
        ["certificate of pki-probe-1-cert", "certificate of pki-probe-2-cert"]
    ]


def test_nothing_is_made_for_an_identity_that_the_site_brings() -> None:
    stack = pki({"pki.existing": {"ms-controller-ccae": {"secret": "to-ccae"}}})

    assert not [name for _, name in stack.names() if "ms-controller-ccae" in name or "to-ccae" in name]


@pytest.mark.parametrize("algorithm, arguments", [("ECDSA-P256", {"ecdsaCurve": "P256"}), ("RSA-3072", {"rsaBits": 3072})])
def test_keys_are_made_by_the_chosen_algorithm(algorithm: str, arguments: dict[str, object]) -> None:
    stack = pki({"pki.algorithm": algorithm})

    for key in stack.of(KEY):
        assert {name: value for name, value in key.inputs.items() if name != "algorithm"} == arguments
        assert key.inputs["algorithm"] == algorithm.partition("-")[0]


def test_lifetimes_are_those_of_the_configuration() -> None:
    stack = pki({"pki.leaf_hours": 240, "pki.renew_before_hours": 24, "pki.crl_hours": 100, "pki.crl_renew_before_hours": 10})

    leaf = stack.of(CERTIFICATE)[0].inputs
    crl = stack.of(CRL)[0].inputs
    assert (leaf["validityPeriodHours"], leaf["earlyRenewalHours"]) == (240, 24)
    assert (crl["valid_hours"], crl["renew_before_hours"]) == (100, 10)
