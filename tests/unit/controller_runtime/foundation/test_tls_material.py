# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from controller_runtime.errors import ConfigError
from controller_runtime.foundation.tls_material import TlsFiles, TlsMaterial, check_material, read_files
from tests.support.pki import DAY, HOUR, Authority, KeyKind, now, publish_crl, replace_file, write_identity
from tests.unit.controller_runtime.foundation.conftest import Site


def load(directory: Path, *, password: Path | None = None) -> TlsMaterial:
    files = TlsFiles.in_directory(directory).model_copy(update={"password": password})
    return check_material(files, read_files(files), now())


def problems_of(directory: Path) -> str:
    with pytest.raises(ConfigError) as raised:
        load(directory)
    return str(raised.value)


def test_a_good_set_tells_when_certificate_and_list_end(site: Site) -> None:
    material = load(site.server_dir)

    assert material.certificate_not_after == site.server_leaf.certificate.not_valid_after_utc
    assert material.crl_next_update is not None
    assert abs(material.crl_next_update - (now() + 9 * DAY)) < HOUR


def test_all_missing_files_are_named_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        load(tmp_path)

    assert [problem.partition(":")[0] for problem in raised.value.problems] == [
        str(tmp_path / name) for name in ("ca.crt", "tls.crt", "tls.key", "crl.pem")
    ]


def test_a_missing_revocation_list_is_an_error_unless_switched_off(site: Site) -> None:
    (site.server_dir / "crl.pem").unlink()
    files = TlsFiles.in_directory(site.server_dir)

    with pytest.raises(ConfigError, match=r"crl\.pem: cannot be read"):
        read_files(files)
    without = files.model_copy(update={"crl": None})
    assert check_material(without, read_files(without), now()).crl_next_update is None


@pytest.mark.parametrize("name", ["ca.crt", "tls.crt", "tls.key", "crl.pem"])
def test_a_file_without_its_pem_is_named(site: Site, name: str) -> None:
    replace_file(site.server_dir / name, b"not pem\n")

    assert f"{name}: no " in problems_of(site.server_dir)


def test_a_key_of_another_certificate_is_refused(site: Site) -> None:
    replace_file(site.server_dir / "tls.key", site.client_leaf.key_pem())

    assert "tls.key: does not belong to the certificate" in problems_of(site.server_dir)


def test_expired_and_future_certificates_are_refused(site: Site) -> None:
    expired = site.authority.issue("server", not_before=now() - 2 * DAY, not_after=now() - HOUR)
    write_identity(site.server_dir, site.authority, expired)
    assert "certificate CN=server expired at" in problems_of(site.server_dir)

    write_identity(site.server_dir, site.authority, site.authority.issue("server", not_before=now() + HOUR))
    assert "certificate CN=server is not valid before" in problems_of(site.server_dir)


@pytest.mark.parametrize(("kind", "words"), [("rsa1024", "RSA key of 1024 bits"), ("ec224", "EC key of 224 bits")])
def test_weak_keys_are_refused(site: Site, kind: KeyKind, words: str) -> None:
    write_identity(site.server_dir, site.authority, site.authority.issue("server", key_kind=kind))

    assert words in problems_of(site.server_dir)


def test_a_strong_rsa_key_is_accepted(site: Site) -> None:
    write_identity(site.server_dir, site.authority, site.authority.issue("server", key_kind="rsa2048"))

    load(site.server_dir)


def test_a_leaf_in_place_of_the_ca_is_refused(site: Site) -> None:
    replace_file(site.server_dir / "ca.crt", site.client_leaf.cert_pem)

    assert "certificate CN=client is not a CA" in problems_of(site.server_dir)


def test_a_list_of_another_ca_is_refused_even_under_the_same_name(site: Site) -> None:
    publish_crl(site.server_dir, Authority("pd"))

    assert "revocation list of CN=pd is not signed by a CA of the bundle" in problems_of(site.server_dir)


def test_a_list_under_another_name_is_refused_even_with_the_same_key(site: Site) -> None:
    renamed = Authority("other")
    renamed.key = site.authority.key
    publish_crl(site.server_dir, renamed)

    assert "revocation list of CN=other is not signed by a CA of the bundle" in problems_of(site.server_dir)


def test_an_expired_list_is_refused(site: Site) -> None:
    publish_crl(site.server_dir, site.authority, next_update=now() - HOUR)

    assert "revocation list of CN=pd expired at" in problems_of(site.server_dir)


def test_every_problem_is_reported_not_only_the_first(site: Site) -> None:
    replace_file(site.server_dir / "tls.key", site.client_leaf.key_pem())
    publish_crl(site.server_dir, site.authority, next_update=now() - HOUR)

    text = problems_of(site.server_dir)
    assert "tls.key" in text
    assert "crl.pem" in text


def test_an_encrypted_key_opens_with_its_password_file(site: Site, tmp_path: Path) -> None:
    replace_file(site.server_dir / "tls.key", site.server_leaf.key_pem(b"s3cret pass"))
    (tmp_path / "password").write_bytes(b"s3cret pass\n")
    (tmp_path / "wrong").write_bytes(b"other")

    load(site.server_dir, password=tmp_path / "password")
    with pytest.raises(ConfigError, match=r"tls\.key: no readable PEM private key") as raised:
        load(site.server_dir, password=tmp_path / "wrong")
    assert "other" not in str(raised.value)
    assert "tls.key: no readable PEM private key" in problems_of(site.server_dir)


def test_a_plain_key_needs_no_password_even_if_one_is_there(site: Site, tmp_path: Path) -> None:
    (tmp_path / "password").write_bytes(b"")

    load(site.server_dir, password=tmp_path / "password")


def test_key_bytes_never_show_in_a_repr(site: Site) -> None:
    assert "PRIVATE" not in repr(load(site.server_dir))


def test_the_digest_changes_with_any_byte(site: Site) -> None:
    before = load(site.server_dir).digest
    assert load(site.server_dir).digest == before

    publish_crl(site.server_dir, site.authority)

    assert load(site.server_dir).digest != before


def test_a_connected_peer_is_told_why_it_must_go(site: Site) -> None:
    site.publish(site.client_leaf)
    material = load(site.server_dir)

    def reason(issuer: Authority, days_ahead: int = 0) -> str | None:
        return material.refusal_of(issuer.issue("peer").certificate.public_bytes(Encoding.DER), now() + days_ahead * DAY)

    revoked = material.refusal_of(site.client_leaf.certificate.public_bytes(Encoding.DER), now())
    assert revoked == f"certificate revoked (serial {site.client_leaf.serial:x})"
    assert reason(site.authority) is None
    assert "certificate expired" in str(reason(site.authority, days_ahead=20))
    assert "issued by no CA of the bundle" in str(reason(Authority("pd")))


def test_the_same_serial_of_another_ca_is_not_revoked(site: Site) -> None:
    stranger = Authority("other")
    leaf = stranger.issue("peer")
    publish_crl(site.server_dir, site.authority, [leaf])
    replace_file(site.server_dir / "ca.crt", site.authority.cert_pem + stranger.cert_pem)

    assert load(site.server_dir).refusal_of(leaf.certificate.public_bytes(Encoding.DER), now()) is None
