# SPDX-License-Identifier: Apache-2.0
"""Recognise "all addresses" in any spelling.

`0.0.0.0`, `::` and their longer spellings, mapped and zoned forms, in brackets, with a port, in a URL or a list;
`*:port`, and `:port` where the setting is an address. A network such as `0.0.0.0/0` is no listener.
Whole words are parsed, so `fe80::1`, `10.0.0.0` and `std::string` are not mistaken for it.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Final

from controller_runtime.rules.objects import words

_SEPARATORS: Final = re.compile(r"[\s,;|\"'`<>=(){}]+")
_MAY_MATCH: Final = re.compile(r"0|::|\*|(?:^|[\s=/,]):\d")
_DEFAULT: Final = re.compile(r"\$\{\w+:?-([^}]*)\}")
_VARIABLE: Final = re.compile(r"\$\([^)]*\)|\$\{[^}]*\}|\$\w+")
_SOME_VALUE: Final = "9"
_SCHEME: Final = re.compile(r"^[A-Za-z][A-Za-z0-9+.\-]*://")
_NETWORK: Final = re.compile(r"/\d{1,3}$")
_ZERO_V4: Final = re.compile(r"(?:0x)?0+(?:\.(?:0x)?0+){3}")
_SHORT_ZERO_V4: Final = re.compile(r"(?:0x)?0+(?:\.(?:0x)?0+){0,2}")
_ADDRESS_WORDS: Final = frozenset(
    {"ip", "ips", "host", "hosts", "hostname", "addr", "addrs", "address", "addresses", "bind", "listen", "listener"}
)
_NOT_LISTENING: Final = frozenset({"no_proxy"})


def all_zero_address(text: str, setting: str = "") -> str | None:
    """The first word of `text` that means every address; None when there is none.

    A variable is taken for some other value, `${NAME:-default}` for its default.

    `setting`: name of what the text configures. When it is an address, short spellings (`0`, `*`, `:8080`) count too.
    """
    if not _MAY_MATCH.search(text) or setting.lower() in _NOT_LISTENING:
        return None
    is_address = names_address(setting)
    for word in _SEPARATORS.split(_VARIABLE.sub(_SOME_VALUE, _DEFAULT.sub(r"\1", text))):
        if word and _means_all(word, is_address):
            return word
    return None


def names_address(setting: str) -> bool:
    """True for `predict_ip`, `managementIpAddress`, `--metrics-bind-address`, `listen` and the like."""
    parts = words(setting)
    return bool(parts) and (parts[-1] in _ADDRESS_WORDS or "bind" in parts or "listen" in parts)


def _means_all(word: str, is_address: bool) -> bool:
    scheme = _SCHEME.match(word)
    rest = word[scheme.end() :] if scheme else word
    if not scheme and _NETWORK.search(rest):
        return False
    rest = re.split(r"[/?#]", rest, maxsplit=1)[0].rpartition("@")[2]
    host, port = _host_and_port(rest)
    if host == "":
        return port != "" and (is_address or scheme is not None)
    if host == "*":
        return port != "" or is_address
    if is_address and _SHORT_ZERO_V4.fullmatch(host):
        return True
    return _ZERO_V4.fullmatch(host) is not None or _is_zero_v6(host)


def _host_and_port(text: str) -> tuple[str, str]:
    """Split; the port is empty unless it is a number. Colons of an address stay in the host."""
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
        return host, rest.lstrip(":")
    host, _, port = text.rpartition(":")
    if text.count(":") == 1:
        return (host, port) if port.isdigit() else (text, "")
    if ":" in text and port.isdigit() and not _is_zero_v6(text) and _is_zero_v6(host):
        return host, port
    return text, ""


def _is_zero_v6(host: str) -> bool:
    if ":" not in host:
        return False
    try:
        address = ipaddress.IPv6Address(host.partition("%")[0])
    except ValueError:
        return False
    return int(address.ipv4_mapped if address.ipv4_mapped is not None else address) == 0
