# SPDX-License-Identifier: Apache-2.0
"""The files of one TLS identity, read and checked as one unit before anything uses them.

Invariants: what was checked is what is loaded (contexts are built from the checked bytes, not from the files again);
a problem names the file, the fact and the way out; key bytes and passwords never appear in a message or a `repr`.
Seed: controller manual, `*_tls_items` (certificate, key and revocation list of each link are checked at load).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Self, TypeVar

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes, PublicKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

from controller_runtime.api.base import Model
from controller_runtime.errors import ConfigError

MIN_RSA_BITS = 2048
MIN_EC_BITS = 256
_CRL_END = b"-----END X509 CRL-----"
_READ_ATTEMPTS = 3

T = TypeVar("T")


class TlsFiles(Model):
    """Where the PEM files of one identity are. `crl` None switches the revocation check off, on purpose and visibly."""

    ca: Path
    cert: Path
    """The leaf first, then intermediates if any."""
    key: Path
    crl: Path | None = None
    password: Path | None = None
    """File with the password of an encrypted key; one trailing newline is not part of it."""

    @classmethod
    def in_directory(cls, directory: Path) -> Self:
        """Return the files of a mounted identity Secret: `ca.crt`, `tls.crt`, `tls.key`, `crl.pem`."""
        return cls(ca=directory / "ca.crt", cert=directory / "tls.crt", key=directory / "tls.key", crl=directory / "crl.pem")


@dataclass(frozen=True, slots=True)
class TlsMaterial:
    """Checked content of `TlsFiles`. `digest` changes exactly when a byte of any file changes."""

    ca: bytes = field(repr=False)
    cert: bytes = field(repr=False)
    key: bytes = field(repr=False)
    crl: bytes | None = field(repr=False)
    password: bytes | None = field(repr=False)
    digest: str
    certificate_not_after: datetime
    crl_next_update: datetime | None
    """The earliest `nextUpdate` of the lists: from then on every peer is refused."""
    revoked: frozenset[tuple[bytes, int]] = field(repr=False)
    """Pairs of issuer name (DER) and serial number."""
    authorities: tuple[x509.Certificate, ...] = field(repr=False)

    def refusal_of(self, certificate_der: bytes, now: datetime) -> str | None:
        """Say why an already connected peer may not stay, or None.

        A peer whose certificate comes from an intermediate CA outside the bundle is told to go as well: only the handshake
        sees its chain, so it must connect again.
        """
        certificate = x509.load_der_x509_certificate(certificate_der)
        if (certificate.issuer.public_bytes(), certificate.serial_number) in self.revoked:
            return f"certificate revoked (serial {certificate.serial_number:x})"
        if certificate.not_valid_after_utc < now:
            return f"certificate expired (serial {certificate.serial_number:x})"
        if not any(_issued_by(certificate, authority) for authority in self.authorities):
            return f"issued by no CA of the bundle (serial {certificate.serial_number:x})"
        return None


def read_files(files: TlsFiles) -> dict[str, bytes]:
    """Read all files of one identity, by field name; again when a Secret update swapped them in between.

    Raises:
        ConfigError: a file cannot be read.
    """
    previous = _read_once(files)
    for _ in range(_READ_ATTEMPTS):
        current = _read_once(files)
        if current == previous:
            break
        previous = current
    return previous


def digest_of(content: dict[str, bytes]) -> str:
    """Fingerprint of `read_files`, safe to keep and compare."""
    whole = hashlib.sha256()
    for name in sorted(content):
        whole.update(f"{name}:{len(content[name])}:".encode())
        whole.update(content[name])
    return whole.hexdigest()


def check_material(files: TlsFiles, content: dict[str, bytes], now: datetime) -> TlsMaterial:
    """Check the content of `files` and return it.

    Checked: every file parses; the CA certificates are CAs and valid; the certificate is valid, matches the key, and its key
    is strong enough (RSA 2048, EC 256 bits); each revocation list is signed by one of the CAs and has not expired.

    Raises:
        ConfigError: with every problem found.
    """
    problems: list[str] = []

    def attempt(path: Path, what: str, fix: str, parse: Callable[[], T]) -> T | None:
        try:
            return parse()
        except (ValueError, TypeError, UnsupportedAlgorithm) as error:
            problems.append(f"{path}: {what} ({type(error).__name__}). {fix}")
            return None

    authorities = attempt(
        files.ca, "no PEM certificate of a CA", "Write the CA bundle there.", lambda: x509.load_pem_x509_certificates(content["ca"])
    )
    chain = attempt(
        files.cert, "no PEM certificate", "Write the leaf certificate there.", lambda: x509.load_pem_x509_certificates(content["cert"])
    )
    password = _password(content.get("password"), content["key"])
    key = attempt(
        files.key,
        "no readable PEM private key",
        "Write the key there, and its password file if it is encrypted.",
        lambda: load_pem_private_key(content["key"], password),
    )
    lists: list[x509.CertificateRevocationList] | None = []
    if files.crl is not None:
        lists = attempt(files.crl, "no PEM revocation list", "Write the CA's list as PEM.", lambda: _load_crls(content["crl"]))

    problems += [] if authorities is None else _authority_problems(files.ca, authorities, now)
    problems += [] if chain is None else _leaf_problems(files, chain[0], key, now)
    problems += [] if not lists or authorities is None or files.crl is None else _crl_problems(files.crl, lists, authorities, now)
    if problems or authorities is None or chain is None or lists is None:
        raise ConfigError(problems)
    return TlsMaterial(
        ca=content["ca"],
        cert=content["cert"],
        key=content["key"],
        crl=content.get("crl"),
        password=password,
        digest=digest_of(content),
        certificate_not_after=chain[0].not_valid_after_utc,
        crl_next_update=min((crl.next_update_utc for crl in lists if crl.next_update_utc), default=None),
        revoked=frozenset((crl.issuer.public_bytes(), entry.serial_number) for crl in lists for entry in crl),
        authorities=tuple(authorities),
    )


def _read_once(files: TlsFiles) -> dict[str, bytes]:
    content: dict[str, bytes] = {}
    problems: list[str] = []
    paths = {"ca": files.ca, "cert": files.cert, "key": files.key, "crl": files.crl, "password": files.password}
    for name, path in paths.items():
        if path is None:
            continue
        try:
            content[name] = path.read_bytes()
        except OSError as error:
            problems.append(f"{path}: cannot be read ({error.strerror}). Mount the {name} file readable for this user.")
    if problems:
        raise ConfigError(problems)
    return content


def _password(stored: bytes | None, key: bytes) -> bytes | None:
    if stored is None or b"ENCRYPTED" not in key:
        return None
    return stored.removesuffix(b"\n")


def _load_crls(pem: bytes) -> list[x509.CertificateRevocationList]:
    blocks = [block + _CRL_END for block in pem.split(_CRL_END)[:-1]]
    if not blocks:
        raise ValueError("no CRL block")
    return [x509.load_pem_x509_crl(block) for block in blocks]


def _authority_problems(path: Path, authorities: list[x509.Certificate], now: datetime) -> Iterator[str]:
    for authority in authorities:
        name = authority.subject.rfc4514_string()
        try:
            is_ca = authority.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
        except x509.ExtensionNotFound:
            is_ca = False
        if not is_ca:
            yield f"{path}: certificate {name} is not a CA (basicConstraints). Use the issuing CA's certificate."
        yield from _validity_problems(path, authority, now)


def _leaf_problems(files: TlsFiles, leaf: x509.Certificate, key: PrivateKeyTypes | None, now: datetime) -> Iterator[str]:
    yield from _validity_problems(files.cert, leaf, now)
    public = leaf.public_key()
    if (weakness := _weakness(public)) is not None:
        yield f"{files.cert}: {weakness}. Issue a certificate with a stronger key."
    if key is not None and _encoded(key.public_key()) != _encoded(public):
        yield f"{files.key}: does not belong to the certificate in {files.cert}. Write certificate and key of one issue together."


def _weakness(public: PublicKeyTypes) -> str | None:
    if isinstance(public, rsa.RSAPublicKey) and public.key_size < MIN_RSA_BITS:
        return f"RSA key of {public.key_size} bits, at least {MIN_RSA_BITS} required"
    if isinstance(public, ec.EllipticCurvePublicKey) and public.key_size < MIN_EC_BITS:
        return f"EC key of {public.key_size} bits, at least {MIN_EC_BITS} required"
    return None


def _encoded(public: PublicKeyTypes) -> bytes:
    return public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _validity_problems(path: Path, certificate: x509.Certificate, now: datetime) -> Iterator[str]:
    name = certificate.subject.rfc4514_string()
    if certificate.not_valid_after_utc < now:
        yield f"{path}: certificate {name} expired at {certificate.not_valid_after_utc.isoformat()}. Issue a new one."
    if certificate.not_valid_before_utc > now:
        yield f"{path}: certificate {name} is not valid before {certificate.not_valid_before_utc.isoformat()}. Check the clock."


def _crl_problems(
    path: Path, lists: list[x509.CertificateRevocationList], authorities: list[x509.Certificate], now: datetime
) -> Iterator[str]:
    for crl in lists:
        name = crl.issuer.rfc4514_string()
        if not any(_signed_by(crl, authority) for authority in authorities):
            yield f"{path}: revocation list of {name} is not signed by a CA of the bundle. Publish the list of that CA."
        if crl.next_update_utc is None:
            yield f"{path}: revocation list of {name} has no nextUpdate. Publish one that says when it ends."
        elif crl.next_update_utc < now:
            yield f"{path}: revocation list of {name} expired at {crl.next_update_utc.isoformat()}. Publish a new one."


def _issued_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _signed_by(crl: x509.CertificateRevocationList, authority: x509.Certificate) -> bool:
    if crl.issuer != authority.subject:
        return False
    public = authority.public_key()
    try:
        return isinstance(public, (rsa.RSAPublicKey, ec.EllipticCurvePublicKey)) and crl.is_signature_valid(public)
    except (InvalidSignature, UnsupportedAlgorithm):
        return False
