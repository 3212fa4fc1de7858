# SPDX-License-Identifier: Apache-2.0
"""Certificates of a test control plane: one authority, a server leaf on loopback, client leaves.

Kubernetes reads the user from the common name and the group from the organization.
"""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

VALID_FOR = datetime.timedelta(days=1)


@dataclass(frozen=True)
class Authority:
    """A certificate authority whose files live in `directory`."""

    directory: Path
    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @classmethod
    def create(cls, directory: Path) -> Authority:
        """Make a fresh authority and write `ca.crt`."""
        directory.mkdir(parents=True, exist_ok=True)
        key = ec.generate_private_key(ec.SECP256R1())
        name = _name("test control plane")
        builder = _builder(name, name, key.public_key()).add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        certificate = builder.sign(key, hashes.SHA256())
        (directory / "ca.crt").write_bytes(_pem(certificate))
        return cls(directory, key, certificate)

    @property
    def ca_file(self) -> Path:
        """PEM of the authority's certificate."""
        return self.directory / "ca.crt"

    def issue(self, user: str, *, organization: str = "", server: bool = False) -> tuple[Path, Path]:
        """Write `<user>.crt` and `<user>.key`, and return their paths."""
        key = ec.generate_private_key(ec.SECP256R1())
        usage = ExtendedKeyUsageOID.SERVER_AUTH if server else ExtendedKeyUsageOID.CLIENT_AUTH
        builder = _builder(_name(user, organization), self.certificate.subject, key.public_key())
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        if server:
            names: list[x509.GeneralName] = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        certificate_file, key_file = self.directory / f"{user}.crt", self.directory / f"{user}.key"
        certificate_file.write_bytes(_pem(builder.sign(self.key, hashes.SHA256())))
        key_file.write_bytes(_private(key))
        key_file.chmod(0o600)
        return certificate_file, key_file


def write_service_account_key(private: Path, public: Path) -> None:
    """Write the RSA pair that signs and verifies service account tokens."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    private.write_bytes(_private(key))
    private.chmod(0o600)
    public.write_bytes(key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo))


def _builder(subject: x509.Name, issuer: x509.Name, public_key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + VALID_FOR)
    )


def _name(common_name: str, organization: str = "") -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
    if organization:
        attributes.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
    return x509.Name(attributes)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _private(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
