# SPDX-License-Identifier: Apache-2.0
"""Revocation lists: what they say, when a new one is due, what is refused."""

from __future__ import annotations

import base64
import datetime as dt
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from components.crl_signing import changes, refuse_return, sign
from controller_runtime.errors import ConfigError
from tests.support.pki import Authority


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _key(authority: Authority) -> str:
    return authority.key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()).decode()


def _props(authority: Authority, revoked: list[x509.Certificate], current: list[x509.Certificate] | None = None) -> dict[str, Any]:
    return {
        "authority": "etcd",
        "ca_cert_pem": _pem(authority.certificate),
        "ca_key_pem": _key(authority),
        "revoked_cert_pems": [_pem(certificate) for certificate in revoked],
        "current_cert_pems": [_pem(certificate) for certificate in current or ()],
        "valid_hours": 2160.0,
        "renew_before_hours": 720.0,
    }


def test_a_list_names_the_revoked_serials_and_its_number_in_both_forms() -> None:
    authority = Authority()
    certificate = authority.issue("controller").certificate

    signed = sign(_props(authority, [certificate]), number=7)

    for crl in (x509.load_pem_x509_crl(signed["crl_pem"].encode()), x509.load_der_x509_crl(base64.b64decode(signed["crl_der_base64"]))):
        assert [entry.serial_number for entry in crl] == [certificate.serial_number]
        assert crl.extensions.get_extension_for_class(x509.CRLNumber).value.crl_number == 7
    assert signed["serials"] == [format(certificate.serial_number, "x")]


def test_a_list_is_valid_for_the_configured_time() -> None:
    signed = sign(_props(Authority(), []), number=1)

    left = dt.datetime.fromisoformat(signed["next_update"]) - dt.datetime.now(dt.UTC)

    assert dt.timedelta(hours=2159) < left <= dt.timedelta(hours=2160)


def test_a_certificate_of_another_authority_is_refused() -> None:
    stranger = Authority("other").issue("controller").certificate

    with pytest.raises(ConfigError, match="issued by another authority"):
        sign(_props(Authority("etcd"), [stranger]), number=1)


def test_a_key_of_another_authority_is_refused() -> None:
    authority = Authority()
    props = _props(authority, []) | {"ca_key_pem": _key(Authority())}

    with pytest.raises(ConfigError, match="does not belong to its certificate"):
        sign(props, number=1)


def test_an_unchanged_set_with_time_left_needs_no_new_list() -> None:
    props = _props(Authority(), [])
    published = props | sign(props, number=1)

    assert not changes(published, props)


def test_another_revoked_certificate_needs_a_new_list() -> None:
    authority = Authority()
    props = _props(authority, [])
    published = props | sign(props, number=1)

    assert changes(published, _props(authority, [authority.issue("controller").certificate]))


def test_a_list_that_runs_out_soon_needs_a_new_one() -> None:
    props = _props(Authority(), [])
    soon = (dt.datetime.now(dt.UTC) + dt.timedelta(hours=719)).isoformat()
    published = props | sign(props, number=1) | {"next_update": soon}

    assert changes(published, props)


def test_a_serial_stays_on_the_list_when_its_certificate_was_made_anew_in_the_program() -> None:
    authority = Authority()
    leaked, remade = (authority.issue("controller").certificate for _ in range(2))
    props = _props(authority, [leaked])
    published = props | sign(props, number=1)

    signed = sign(_props(authority, [remade]), number=2, before=published)

    crl = x509.load_pem_x509_crl(signed["crl_pem"].encode())
    assert {entry.serial_number for entry in crl} == {leaked.serial_number, remade.serial_number}
    first = crl.get_revoked_certificate_by_serial_number(leaked.serial_number)
    assert first is not None
    assert first.revocation_date_utc.isoformat() == published["entries"][0]["at"]


def test_a_serial_leaves_the_list_once_its_certificate_has_expired() -> None:
    authority = Authority()
    props = _props(authority, [authority.issue("controller").certificate])
    published = props | sign(props, number=1)
    published["entries"][0]["until"] = (dt.datetime.now(dt.UTC) - dt.timedelta(seconds=1)).isoformat()

    assert sign(_props(authority, []), number=2, before=published)["serials"] == []


def test_a_revocation_cannot_be_taken_back() -> None:
    authority = Authority()
    leaked = authority.issue("controller").certificate
    props = _props(authority, [leaked])
    published = props | sign(props, number=1)

    with pytest.raises(ConfigError, match=r"certificate of controller is revoked and cannot come back\. Put its line back"):
        refuse_return(published, _props(authority, [], [leaked]))
    refuse_return(published, _props(authority, [leaked], [authority.issue("controller").certificate]))
