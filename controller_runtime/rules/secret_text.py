# SPDX-License-Identifier: Apache-2.0
"""Recognise secrets in plain text: private keys, also behind base64, and passwords, tokens and passphrases by name.

Names decide by their last word, so `tokenizer_timeout`, `secretName` and `max_tokens: 512` are no secrets. Values
that point elsewhere are none either: paths, references to variables, addresses, placeholders. Nothing returned
from here contains what was found.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from types import MappingProxyType
from typing import Final

from controller_runtime.rules.objects import words

_PRIVATE_KEY: Final = re.compile(r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY-----|PuTTY-User-Key-File-")
_BLANK: Final = re.compile(r"\s+|\\n")
PUBLIC_NAMES: Final = MappingProxyType({"initial-cluster-token": "etcd: tells clusters apart, authenticates nobody"})
"""Names that only sound like a secret, with the reason."""

_STRONG: Final = frozenset({"password", "passwd", "passphrase", "pwd", "secret", "passcode", "passwords", "secrets"})
_WEAK: Final = frozenset({"token", "tokens", "apikey", "credential", "credentials"})
_KEY_PREFIXES: Final = frozenset({"api", "access", "secret", "private", "signing", "encryption", "auth"})
_HARMLESS: Final = frozenset({"true", "false", "none", "null", "required", "optional", "enabled", "disabled", "yes", "no"})
_REFERENCE: Final = re.compile(r"^(?:/|\.{0,2}/|~|file:|<[^>]*>$|\[[^\]]*\]$|\*+$|@/)|^\$|\$[({]|\{\{")
_ASSIGNMENT: Final = re.compile(r"([A-Za-z][\w.\-]*)[\"']?\s*[=:]\s*[\"']?(?=([^\s\"',;&]+))")
_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*://([^/\s:@]*):([^/\s@]+)@")
_OPENSSL: Final = re.compile(r"(?:^|[\s=])pass:(\S+)")
_JWT: Final = re.compile(r"\beyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]+")
_BEARER: Final = re.compile(r"\b(?:Bearer|Basic)\s+([A-Za-z0-9._~+/=-]{8,})")


def _inner_base64(needle: bytes) -> tuple[str, ...]:
    """The part of the base64 of any text that contains `needle` which does not depend on what stands around it."""
    found = []
    for shift in range(3):
        encoded = base64.b64encode(b"\0" * shift + needle).decode().rstrip("=")
        found.append(encoded[-(-shift * 8 // 6) : len(encoded) - (1 if (shift + len(needle)) % 3 else 0)])
    return tuple(found)


_ENCODED: Final = _inner_base64(b"PRIVATE KEY-----")


def has_private_key(text: str) -> bool:
    """True for a PEM private key of any kind, as it is or behind one layer of base64."""
    if _PRIVATE_KEY.search(text):
        return True
    if len(text) < 40:
        return False
    packed = _BLANK.sub("", text)
    return any(needle in packed for needle in _ENCODED)


def is_secret(name: str, value: object) -> bool:
    """True when `name` says that `value` is a secret and `value` is one and not a way to find one."""
    kind = _kind(name)
    if kind is None or value is None or isinstance(value, bool):
        return False
    if isinstance(value, (int, float)):
        return kind == "strong"
    return isinstance(value, str) and _is_literal(value) and not (kind == "weak" and _is_number(value))


def secrets_in(text: str) -> Iterator[str]:
    """What kinds of secrets stand in a free text. Descriptions, never the text itself."""
    if has_private_key(text):
        yield "a private key"
    if _JWT.search(text):
        yield "a signed token"
    for found in _URL.finditer(text):
        if _is_literal(found[2]):
            yield "an address with a password in it"
    for found in (*_OPENSSL.finditer(text), *_BEARER.finditer(text)):
        if _is_literal(found[1]):
            yield "a passphrase" if found.re is _OPENSSL else "an authorization header"
    for found in _ASSIGNMENT.finditer(text):
        if is_secret(found[1], found[2]):
            yield f"a literal value for {found[1]}"


def _kind(name: str) -> str | None:
    parts = words(name)
    if not parts or "-".join(parts).removeprefix("etcd-") in PUBLIC_NAMES:
        return None
    if parts[-1] in _STRONG:
        return "strong"
    if parts[-1] in _WEAK or (parts[-1] in ("key", "keys") and len(parts) > 1 and parts[-2] in _KEY_PREFIXES):
        return "weak"
    return None


def _is_literal(value: str) -> bool:
    text = value.strip().strip("\"'")
    if not text or text.lower() in _HARMLESS or _REFERENCE.search(text):
        return False
    return "://" not in text or _URL.search(text) is not None


def _is_number(value: str) -> bool:
    return value.strip().replace(".", "", 1).isdigit()
