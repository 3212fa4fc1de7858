# SPDX-License-Identifier: Apache-2.0
"""Sign and compare certificate revocation lists. Runs in the process of the dynamic provider."""

from __future__ import annotations

import base64
import datetime as dt
from collections.abc import Mapping
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey

from controller_runtime.errors import ConfigError

BACKDATE = dt.timedelta(minutes=5)
"""A list is valid a little before it was signed, for clocks that lag."""


def sign(props: Mapping[str, Any], *, number: int) -> dict[str, Any]:
    """Sign a list of `props["revoked_cert_pems"]` and check it as a reader would.

    Raises:
        ConfigError: a certificate is of another authority, or the key does not belong to the authority.
    """
    authority = x509.load_pem_x509_certificate(str(props["ca_cert_pem"]).encode())
    key = serialization.load_pem_private_key(str(props["ca_key_pem"]).encode(), password=None)
    if not isinstance(key, EllipticCurvePrivateKey | RSAPrivateKey):
        raise ConfigError(f"authority {props['authority']}: its key is neither RSA nor elliptic curve. Choose another pki.algorithm.")
    now = dt.datetime.now(dt.UTC).replace(microsecond=0)
    next_update = now + dt.timedelta(hours=int(props["valid_hours"]))
    builder = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(authority.subject)
        .last_update(now - BACKDATE)
        .next_update(next_update)
        .add_extension(x509.CRLNumber(number), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(_public(authority)), critical=False)
    )
    serials = revoked_serials(props, authority)
    for serial in serials:
        builder = builder.add_revoked_certificate(x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(now).build())
    signed = builder.sign(key, hashes.SHA256())
    _check(signed, authority, serials, str(props["authority"]))
    return {
        "crl_pem": signed.public_bytes(serialization.Encoding.PEM).decode(),
        "crl_der_base64": base64.b64encode(signed.public_bytes(serialization.Encoding.DER)).decode(),
        "number": number,
        "next_update": next_update.isoformat(),
        "serials": [format(serial, "x") for serial in serials],
    }


def changes(olds: Mapping[str, Any], news: Mapping[str, Any]) -> bool:
    """Tell whether a new list must be signed: another set, another lifetime, or too little time left."""
    if any(int(olds[field]) != int(news[field]) for field in ("valid_hours", "renew_before_hours")):
        return True
    if sorted(olds["revoked_cert_pems"]) != sorted(news["revoked_cert_pems"]):
        return True
    left = dt.datetime.fromisoformat(str(olds["next_update"])) - dt.datetime.now(dt.UTC)
    return left < dt.timedelta(hours=int(news["renew_before_hours"]))


def revoked_serials(props: Mapping[str, Any], authority: x509.Certificate) -> list[int]:
    """Read the serials of the revoked certificates, sorted.

    Raises:
        ConfigError: a certificate was not issued by `authority`.
    """
    serials = []
    for pem in props["revoked_cert_pems"]:
        certificate = x509.load_pem_x509_certificate(str(pem).encode())
        if certificate.issuer != authority.subject:
            subject = certificate.subject.rfc4514_string()
            raise ConfigError(f"authority {props['authority']}: {subject} was issued by another authority. List it under that one.")
        serials.append(certificate.serial_number)
    return sorted(serials)


def _check(signed: x509.CertificateRevocationList, authority: x509.Certificate, serials: list[int], name: str) -> None:
    parsed = x509.load_der_x509_crl(signed.public_bytes(serialization.Encoding.DER))
    if not parsed.is_signature_valid(_public(authority)):
        raise ConfigError(f"authority {name}: its key does not belong to its certificate. Restore the pair.")
    if sorted(entry.serial_number for entry in parsed) != serials:
        raise ConfigError(f"authority {name}: the signed list lost entries. Nothing was published.")


def _public(authority: x509.Certificate) -> EllipticCurvePublicKey | RSAPublicKey:
    key = authority.public_key()
    if not isinstance(key, EllipticCurvePublicKey | RSAPublicKey):
        raise ConfigError("authority: its key is neither RSA nor elliptic curve. Choose another pki.algorithm.")
    return key
