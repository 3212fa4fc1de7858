# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from pathlib import Path

from cryptography import x509

from lab import certificates
from lab.state import Lab


def _certificate(lab: Lab, name: str) -> x509.Certificate:
    return x509.load_pem_x509_certificate((lab.certificates / f"{name}.crt").read_bytes())


def test_every_identity_is_signed_by_the_labs_authority_for_its_addresses(lab: Lab) -> None:
    certificates.ensure(lab)

    authority = _certificate(lab, "ca")
    for name, identity in certificates.identities(lab).items():
        certificate = _certificate(lab, name)
        certificate.verify_directly_issued_by(authority)
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert len(list(found)) == len(identity.alternative_names.split(","))
    server = _certificate(lab, "apiserver").extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert {"10.99.4.1", "10.96.4.1"} <= {str(address) for address in server.get_values_for_type(x509.IPAddress)}


def test_the_kubeconfig_is_one_private_file(lab: Lab) -> None:
    certificates.ensure(lab)

    content = json.loads(lab.kubeconfig.read_text())
    assert content["clusters"][0]["cluster"]["server"] == "https://10.99.4.1:26443"
    assert set(content["users"][0]["user"]) == {"client-certificate-data", "client-key-data"}
    assert lab.kubeconfig.stat().st_mode & 0o077 == 0
    assert lab.certificates.stat().st_mode & 0o077 == 0


def test_certificates_that_exist_are_kept_and_a_half_made_set_is_not(lab: Lab) -> None:
    half: Path = lab.root / "pki.tmp"
    half.mkdir(parents=True)
    (half / "ca.key").write_text("half")
    certificates.ensure(lab)
    before = (lab.certificates / "ca.crt").read_bytes()

    certificates.ensure(lab)

    assert not half.exists()
    assert (lab.certificates / "ca.crt").read_bytes() == before
