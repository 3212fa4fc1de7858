# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import base64
import json
import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller_runtime.rules.secret_text import has_private_key, is_secret, secrets_in

KINDS = ["", "RSA ", "EC ", "ENCRYPTED ", "OPENSSH ", "DSA "]
BODY = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC"


def pem(kind: str) -> str:
    return f"-----BEGIN {kind}PRIVATE KEY-----\n{BODY}\n-----END {kind}PRIVATE KEY-----\n"


@pytest.mark.parametrize("kind", KINDS)
def test_a_private_key_of_any_kind_is_found(kind: str) -> None:
    assert has_private_key(pem(kind))
    assert has_private_key(json.dumps({"a": pem(kind)}))


@given(st.sampled_from(KINDS), st.binary(max_size=64), st.binary(max_size=64), st.booleans(), st.booleans())
def test_a_private_key_behind_base64_is_found_wherever_it_begins(
    kind: str, before: bytes, after: bytes, url_safe: bool, wrapped: bool
) -> None:
    data = before + pem(kind).encode() + after
    encoded = (base64.urlsafe_b64encode(data) if url_safe else base64.b64encode(data)).decode()

    assert has_private_key("\n".join(textwrap.wrap(encoded, 64)) if wrapped else encoded)


@given(st.binary(max_size=300))
def test_other_data_is_no_private_key(data: bytes) -> None:
    assert b"PRIVATE KEY" in data or not has_private_key(base64.b64encode(data).decode())


def test_certificates_are_public() -> None:
    certificate = pem("").replace("PRIVATE KEY", "CERTIFICATE")

    assert not has_private_key(certificate)
    assert not has_private_key(base64.b64encode(certificate.encode()).decode())


@pytest.mark.parametrize(
    "name", ["password", "DB_PASSWORD", "tls_passwd", "tlsPkPwd", "passphrase", "clientSecret", "api-token", "apiKey", "private_key"]
)
def test_names_of_secrets_are_known_by_their_last_word(name: str) -> None:
    assert is_secret(name, "hunter2")


@pytest.mark.parametrize(
    "name",
    [
        "tokenizer",
        "tokenTimeout",
        "first_token_timeout",
        "secretName",
        "password_file",
        "token-url",
        "key",
        "monkey",
        "passwordless",
        "",
        "initial-cluster-token",
        "ETCD_INITIAL_CLUSTER_TOKEN",
    ],
)
def test_names_that_only_contain_such_a_word_are_none(name: str) -> None:
    assert not is_secret(name, "hunter2")


@pytest.mark.parametrize(
    "value",
    [
        "",
        " ",
        "/mnt/tls/x/password",
        "./p",
        "~/p",
        "file:p",
        "$(PW)",
        "${PW}",
        "$PW",
        "{{ .pw }}",
        "<redacted>",
        "[pad]",
        "***",
        "none",
        "true",
        None,
        True,
    ],
)
def test_values_that_point_elsewhere_are_no_secrets(value: object) -> None:
    assert not is_secret("password", value)


def test_numbers_are_passwords_but_counts_of_tokens_are_not() -> None:
    assert is_secret("password", 1234)
    assert is_secret("password", "1234")
    assert not is_secret("max_tokens", 512)
    assert not is_secret("max_tokens", "0.5")


def test_a_dollar_inside_a_password_is_no_reference() -> None:
    assert is_secret("password", "pa$word")


@pytest.mark.parametrize(
    "text,kind",
    [
        ("curl https://user:hunter2@host/x", "an address with a password in it"),
        ("openssl rsa -passin pass:hunter2", "a passphrase"),
        ("Authorization: Bearer abcdefghijkl", "an authorization header"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abc-_", "a signed token"),
        ("--from-literal=password=hunter2", "a literal value for password"),
        ('{"token": "abc"}', "a literal value for token"),
        (pem(""), "a private key"),
    ],
)
def test_secrets_in_free_text_are_described_and_not_shown(text: str, kind: str) -> None:
    assert kind in list(secrets_in(text))
    assert not any("hunter2" in found for found in secrets_in(text))


@pytest.mark.parametrize(
    "text", ["https://host:8080/x", "https://$(USER):$(PASSWORD)@host", "pass:$(PW)", "password = ${PW}", "passwords are in Secrets"]
)
def test_ordinary_text_holds_no_secret(text: str) -> None:
    assert list(secrets_in(text)) == []


@given(st.text())
def test_any_text_can_be_judged(text: str) -> None:
    list(secrets_in(text))
    is_secret(text, text)
