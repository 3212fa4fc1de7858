# SPDX-License-Identifier: Apache-2.0
"""Sign and compare certificate revocation lists. Runs in the process of the dynamic provider.

Invariant: a serial stays on the list until its certificate has expired, whatever becomes of the certificate in the program.
"""

from __future__ import annotations

import base64
import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey

from controller_runtime.errors import ConfigError

BACKDATE = dt.timedelta(minutes=5)
"""A list is valid a little before it was signed, for clocks that lag."""


def sign(props: Mapping[str, Any], *, number: int, before: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Sign a list of `props["revoked_cert_pems"]` and of what is still on the list `before`; check it as a reader would.

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
    entries = {**{entry.serial: entry for entry in _revoked(props, authority, now)}, **_still_listed(before or {}, now)}
    for entry in entries.values():
        revoked = x509.RevokedCertificateBuilder().serial_number(entry.serial).revocation_date(entry.at)
        builder = builder.add_revoked_certificate(revoked.build())
    signed = builder.sign(key, hashes.SHA256())
    _check(signed, authority, sorted(entries), str(props["authority"]))
    return {
        "crl_pem": signed.public_bytes(serialization.Encoding.PEM).decode(),
        "crl_der_base64": base64.b64encode(signed.public_bytes(serialization.Encoding.DER)).decode(),
        "number": number,
        "next_update": next_update.isoformat(),
        "serials": [format(serial, "x") for serial in sorted(entries)],
        "entries": [entries[serial].as_json() for serial in sorted(entries)],
    }


def changes(olds: Mapping[str, Any], news: Mapping[str, Any]) -> bool:
    """Tell whether a new list must be signed: another set, another lifetime, or too little time left."""
    if any(int(olds[field]) != int(news[field]) for field in ("valid_hours", "renew_before_hours")):
        return True
    if sorted(olds["revoked_cert_pems"]) != sorted(news["revoked_cert_pems"]):
        return True
    left = dt.datetime.fromisoformat(str(olds["next_update"])) - dt.datetime.now(dt.UTC)
    return left < dt.timedelta(hours=int(news["renew_before_hours"]))


def refuse_return(olds: Mapping[str, Any], news: Mapping[str, Any]) -> None:
    """Make sure that no certificate in use is on the list.

    Raises:
        ConfigError: a revocation was taken back; its certificate would be refused everywhere.
    """
    listed = _still_listed(olds, dt.datetime.now(dt.UTC))
    for pem in news["current_cert_pems"]:
        if "BEGIN CERTIFICATE" not in str(pem):  # not known yet, so newly made
            continue
        certificate = x509.load_pem_x509_certificate(str(pem).encode())
        if certificate.serial_number in listed:
            name = certificate.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)[0].value
            cause = f"the certificate of {name!s} is revoked and cannot come back"
            raise ConfigError(f"authority {news['authority']}: {cause}. Put its line back into pki.revoked.")


@dataclass(frozen=True)
class _Entry:
    """One revoked certificate: since when, and until when it would have been valid."""

    serial: int
    at: dt.datetime
    until: dt.datetime

    def as_json(self) -> dict[str, str]:
        return {"serial": format(self.serial, "x"), "at": self.at.isoformat(), "until": self.until.isoformat()}


def _still_listed(published: Mapping[str, Any], now: dt.datetime) -> dict[int, _Entry]:
    found = [
        _Entry(int(each["serial"], 16), dt.datetime.fromisoformat(each["at"]), dt.datetime.fromisoformat(each["until"]))
        for each in published.get("entries") or ()
    ]
    return {entry.serial: entry for entry in found if entry.until > now}


def _revoked(props: Mapping[str, Any], authority: x509.Certificate, now: dt.datetime) -> list[_Entry]:
    entries = []
    for pem in props["revoked_cert_pems"]:
        certificate = x509.load_pem_x509_certificate(str(pem).encode())
        if certificate.issuer != authority.subject:
            subject = certificate.subject.rfc4514_string()
            raise ConfigError(f"authority {props['authority']}: {subject} was issued by another authority. List it under that one.")
        entries.append(_Entry(certificate.serial_number, now, certificate.not_valid_after_utc))
    return entries


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
