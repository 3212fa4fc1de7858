# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import ipaddress
from itertools import combinations

import pytest

from lab.addresses import MAX_NODES, MAX_NUMBER, Addresses, number_of
from lab.errors import LabError

ALL = [Addresses(number) for number in range(MAX_NUMBER + 1)]


def _subnets(at: Addresses) -> list[ipaddress.IPv4Network]:
    texts = (at.node_cidr, at.pod_cidr, at.service_cidr, at.fake_pod_cidr)
    return [ipaddress.IPv4Network(text, strict=False) for text in texts]


def _ports(at: Addresses) -> list[int]:
    return [
        at.api_port,
        at.etcd_port,
        at.etcd_peer_port,
        at.controller_manager_port,
        at.scheduler_port,
        at.dns_port,
        at.dns_health_port,
        at.dns_ready_port,
        at.fake_node_port,
    ]


def test_no_two_subnets_of_any_labs_overlap() -> None:
    subnets = [subnet for at in ALL for subnet in _subnets(at)]

    assert not [pair for pair in combinations(subnets, 2) if pair[0].overlaps(pair[1])]


def test_no_two_ports_of_any_labs_are_the_same_or_belong_to_node_ports() -> None:
    ports = [port for at in ALL for port in _ports(at)]

    assert len(set(ports)) == len(ports)
    assert max(ports) < 30000


def test_names_of_different_labs_never_start_alike() -> None:
    one, eleven = Addresses(1), Addresses(11)

    assert not eleven.namespace("node1").startswith(f"{one.prefix}-")
    assert eleven.host_link != one.host_link


@pytest.mark.parametrize("index", [1, MAX_NODES])
def test_every_node_lies_in_its_labs_subnets(index: int) -> None:
    at = Addresses(5)

    assert ipaddress.ip_address(at.node_ip(index)) in ipaddress.ip_network(at.node_cidr)
    assert ipaddress.IPv4Network(at.node_pod_cidr(index)).subnet_of(ipaddress.IPv4Network(at.pod_cidr))
    assert at.node_ip(index) != at.host_ip
    assert len(at.host_link) < 15


def test_node_addresses_differ_on_the_wire_too() -> None:
    assert Addresses(0).node_mac(1) == "02:00:0a:63:00:0b"
    assert len({at.node_mac(index) for at in ALL for index in range(1, MAX_NODES + 1)}) == len(ALL) * MAX_NODES


@pytest.mark.parametrize("number", [-1, MAX_NUMBER + 1])
def test_a_number_out_of_range_is_refused(number: int) -> None:
    with pytest.raises(LabError, match="allowed 0-31"):
        Addresses(number)


@pytest.mark.parametrize(("name", "given", "number"), [("dev", None, 0), ("test", None, 1), ("test", 1, 1), ("mine", 7, 7)])
def test_a_lab_gets_its_number(name: str, given: int | None, number: int) -> None:
    assert number_of(name, given) == number


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [("mine", None, "has no number"), ("dev", 3, "always has number 0"), ("mine", 1, "belongs to dev or test")],
)
def test_a_number_that_does_not_fit_the_name_is_refused(name: str, given: int | None, message: str) -> None:
    with pytest.raises(LabError, match=message):
        number_of(name, given)
