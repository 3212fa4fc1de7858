# SPDX-License-Identifier: Apache-2.0
"""A small certificate authority for tests: real keys, certificates and revocation lists, made in milliseconds.

authority = Authority("pd")
leaf = authority.issue("ms-coordinator", sans=["ms-coordinator.mindie"])
directory = write_identity(tmp_path / "ms-coordinator", authority, leaf)     # ca.crt tls.crt tls.key crl.pem crl.der
publish_crl(directory, authority, revoked=[leaf])
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
KeyKind = Literal["ec256", "ec224", "rsa2048", "rsa1024"]
Usage = Literal["server", "client"]

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
_USAGES = {"server": ExtendedKeyUsageOID.SERVER_AUTH, "client": ExtendedKeyUsageOID.CLIENT_AUTH}


def now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True)
class Leaf:
    """A certificate with its key."""

    certificate: x509.Certificate
    key: PrivateKey

    @property
    def serial(self) -> int:
        return self.certificate.serial_number

    @property
    def cert_pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def key_pem(self, password: bytes | None = None) -> bytes:
        """PKCS#8; encrypted when a password is given."""
        cipher = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
        return self.key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, cipher)


class Authority:
    """One CA. Two with the same name are two CAs that differ by key only."""

    def __init__(self, name: str = "test-ca", *, not_before: datetime | None = None, not_after: datetime | None = None) -> None:
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.key = ec.generate_private_key(ec.SECP256R1())
        self._crl_number = 0
        self.certificate = (
            _builder(self.name, self.name, self.key, not_before or now() - HOUR, not_after or now() + 30 * DAY)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(_ca_key_usage(), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self.key.public_key()), critical=False)
            .sign(self.key, hashes.SHA256())
        )

    @property
    def cert_pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def issue(
        self,
        common_name: str,
        *,
        sans: Iterable[str] = (),
        ips: Iterable[str] = (),
        usages: Iterable[Usage] = ("server", "client"),
        key_kind: KeyKind = "ec256",
        not_before: datetime | None = None,
        not_after: datetime | None = None,
    ) -> Leaf:
        key = _new_key(key_kind)
        names: list[x509.GeneralName] = [x509.DNSName(name) for name in sans]
        names += [x509.IPAddress(ipaddress.ip_address(address)) for address in ips]
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
        builder = (
            _builder(subject, self.name, key, not_before or now() - HOUR, not_after or now() + 10 * DAY)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([_USAGES[usage] for usage in usages]), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), critical=False)
        )
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return Leaf(builder.sign(self.key, hashes.SHA256()), key)

    def crl(
        self,
        revoked: Collection[Leaf] = (),
        *,
        next_update: datetime | None = None,
        last_update: datetime | None = None,
        der: bool = False,
    ) -> bytes:
        """A signed list; the number grows with each call. `next_update` defaults to nine days ahead."""
        self._crl_number += 1
        until = next_update or now() + 9 * DAY
        since = last_update or min(now() - HOUR, until - HOUR)
        builder = (
            x509.CertificateRevocationListBuilder()
            .issuer_name(self.name)
            .last_update(since)
            .next_update(until)
            .add_extension(x509.CRLNumber(self._crl_number), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), critical=False)
        )
        for leaf in revoked:
            builder = builder.add_revoked_certificate(
                x509.RevokedCertificateBuilder().serial_number(leaf.serial).revocation_date(since).build()
            )
        encoding = serialization.Encoding.DER if der else serialization.Encoding.PEM
        return builder.sign(self.key, hashes.SHA256()).public_bytes(encoding)


def write_identity(directory: Path, authority: Authority, leaf: Leaf, *, revoked: Collection[Leaf] = ()) -> Path:
    """Write the files of an identity Secret and return the directory."""
    directory.mkdir(parents=True, exist_ok=True)
    replace_file(directory / "ca.crt", authority.cert_pem)
    replace_file(directory / "tls.crt", leaf.cert_pem)
    replace_file(directory / "tls.key", leaf.key_pem())
    publish_crl(directory, authority, revoked)
    return directory


def publish_crl(directory: Path, authority: Authority, revoked: Collection[Leaf] = (), *, next_update: datetime | None = None) -> None:
    """Replace `crl.pem` (Python) and `crl.der` (etcd)."""
    replace_file(directory / "crl.pem", authority.crl(revoked, next_update=next_update))
    replace_file(directory / "crl.der", authority.crl(revoked, next_update=next_update, der=True))


def replace_file(path: Path, data: bytes) -> None:
    """Write and rename, as a Secret update does."""
    temporary = path.with_name(f".{path.name}.new")
    temporary.write_bytes(data)
    temporary.chmod(0o400)
    os.replace(temporary, path)


def _builder(subject: x509.Name, issuer: x509.Name, key: PrivateKey, since: datetime, until: datetime) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(since)
        .not_valid_after(until)
    )


def _new_key(kind: KeyKind) -> PrivateKey:
    if kind == "ec256":
        return ec.generate_private_key(ec.SECP256R1())
    if kind == "ec224":
        return ec.generate_private_key(ec.SECP224R1())
    return rsa.generate_private_key(public_exponent=65537, key_size=int(kind.removeprefix("rsa")))


def _ca_key_usage() -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )
