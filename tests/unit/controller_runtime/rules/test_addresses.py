# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import ipaddress

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from controller_runtime.rules.addresses import all_zero_address, names_address

zero_v4 = st.lists(st.sampled_from(["0", "00", "000", "0x0"]), min_size=4, max_size=4).map(".".join)
zero_group = st.sampled_from(["0", "00", "000", "0000"])


@st.composite
def zero_v6(draw: st.DrawFn) -> str:
    """Any spelling of the unspecified IPv6 address, or of the unspecified IPv4 address inside IPv6."""
    tail = draw(st.sampled_from(["", "0.0.0.0", "ffff:0.0.0.0", "ffff:0:0"]))
    width = {"": 8, "0.0.0.0": 6, "ffff:0.0.0.0": 5, "ffff:0:0": 5}[tail]
    groups = draw(st.lists(zero_group, min_size=width, max_size=width))
    if draw(st.booleans()):
        first = draw(st.integers(0, width - 1))
        last = draw(st.integers(first + 1, width))
        left, right = groups[:first], groups[last:] + ([tail] if tail else [])
        return ":".join(left) + "::" + ":".join(right)
    return ":".join(groups + ([tail] if tail else []))


ports = st.one_of(st.just(""), st.integers(1, 65535).map(lambda port: f":{port}"), st.just(":$(PORT)"))
schemes = st.sampled_from(["", "http://", "https://", "tcp://", "grpc+tls://user@"])
paths = st.sampled_from(["", "/", "/livez?full=1"])


@given(zero_v4, schemes, ports, paths)
def test_every_spelling_of_the_ipv4_wildcard_is_found(host: str, scheme: str, port: str, path: str) -> None:
    assert all_zero_address(f"{scheme}{host}{port}{path}") is not None


@given(zero_v6(), schemes, ports, paths, st.sampled_from(["", "%eth0"]))
@example("::", "", "", "", "")
@example("0:0:0:0:0:0:0:0", "", ":80", "", "")
def test_every_spelling_of_the_ipv6_wildcard_is_found(host: str, scheme: str, port: str, path: str, zone: str) -> None:
    assert all_zero_address(f"{scheme}[{host}{zone}]{port}{path}") is not None
    assert all_zero_address(host) is not None


@given(st.ip_addresses().filter(lambda address: int(address) not in (0, 0xFFFF << 32)), schemes, ports, paths)
@example(ipaddress.ip_address("10.0.0.0"), "", "", "")
@example(ipaddress.ip_address("::1"), "http://", ":1", "/")
@example(ipaddress.ip_address("100.0.0.0"), "", ":80", "")
def test_no_other_address_is_mistaken_for_it(address: ipaddress.IPv4Address, scheme: str, port: str, path: str) -> None:
    host = f"[{address}]" if address.version == 6 else str(address)

    assert all_zero_address(f"{scheme}{host}{port}{path}") is None
    assert all_zero_address(str(address), "ip") is None


@given(st.text())
def test_any_text_can_be_judged(text: str) -> None:
    all_zero_address(text)
    all_zero_address(text, "listen")


@pytest.mark.parametrize(
    "text",
    [
        "0.0.0.0/0",
        "::/0",
        "std::string",
        "fe80::1",
        "*",
        "*.svc.cluster.local",
        "a:b",
        "unix:///run/x.sock",
        ":8080",
        "0",
        "1.0.0.0",
        "0.0",
        "$(POD_IP):80",
        "${POD_IP}:80",
        "image:tag",
        "::1",
    ],
)
def test_what_is_no_listener_on_every_address_passes(text: str) -> None:
    assert all_zero_address(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "--listen 0.0.0.0:80,127.0.0.1:80",
        "a=https://10.0.0.1:1,https://0.0.0.0:2",
        "*:80",
        ":::80",
        "tcp://:80",
        "'0.0.0.0'",
        "${HOST:-0.0.0.0}:80",
        "http://0.0.0.0/80",
    ],
)
def test_the_address_is_found_inside_a_line(text: str) -> None:
    assert all_zero_address(text) is not None


@pytest.mark.parametrize("text", ["*", "0", "0.0", ":8080", "0x0"])
def test_short_spellings_count_where_an_address_is_set(text: str) -> None:
    assert all_zero_address(text, "metrics-bind-address") == text
    assert all_zero_address(text, "threshold") is None


@pytest.mark.parametrize(
    "name,expected",
    [
        ("predict_ip", True),
        ("managementIpAddress", True),
        ("bind-address", True),
        ("listen", True),
        ("LISTEN_CLIENT_URLS", True),
        ("description", False),
        ("ship", False),
        ("", False),
    ],
)
def test_settings_that_name_an_address_are_known_by_their_words(name: str, expected: bool) -> None:
    assert names_address(name) is expected


def test_a_list_of_addresses_that_bypass_the_proxy_is_no_listener() -> None:
    assert all_zero_address("0.0.0.0", "NO_PROXY") is None
