# SPDX-License-Identifier: Apache-2.0
"""Rank-table vectors 39-60: base = Coordinator, Controller, Servers 127.0.0.2 and 127.0.0.3; one thing changed."""

from __future__ import annotations

from typing import Any

import pytest

from controller_runtime.api.roles import Role
from controller_runtime.errors import ConfigError
from controller_runtime.ms.rank_table import Layout, parse_table
from controller_runtime.ms.rank_table_check import TableRules
from controller_runtime.ms.server_spec import Ports, address_number, assign_ids
from tests.support.ms_builders import as_bytes, changed, device, mixed_hardware, multi_node, row, rules, table, two_servers


def parse(content: dict[str, Any], by: TableRules | None = None) -> Layout:
    layout = parse_table(as_bytes(content), by or rules(), "t")
    assert layout is not None
    return layout


def group(number: str, *rows: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"group_id": number, "server_list": list(rows), **more}


def test_vector_39_ports_come_from_the_configuration_and_no_role_is_fixed() -> None:
    servers = parse(two_servers()).servers

    assert [(server.ip, server.ports, server.role) for server in servers] == [
        ("127.0.0.2", Ports(1025, 1026, 1027, None), Role.UNDEFINED),
        ("127.0.0.3", Ports(1025, 1026, 1027, None), Role.UNDEFINED),
    ]


def test_vector_40_hardware_types_fix_the_roles() -> None:
    servers = parse(mixed_hardware(), rules(is_heterogeneous=True)).servers

    assert [server.role for server in servers] == [Role.DECODE, Role.PREFILL]


def test_vector_41_one_server_is_a_valid_table() -> None:
    assert len(parse(table(group("2", row("127.0.0.2")))).servers) == 1


@pytest.mark.parametrize(
    ("number", "content", "said"),
    [
        (42, table(group("2", row("127.0.0.2"), row("127.0.0.2"))), "appears more than once"),
        (43, table(group("2", *(row(f"10.0.0.{n}") for n in range(1, 98)))), "97 Servers, allowed 0-96"),
        (44, {"version": "1.0"}, "server_group_list"),
        (44, {"server_group_list": []}, "has 0 groups, allowed 2-3"),
        (44, table(group("2"), group("3")), "has 4 groups, allowed 2-3"),
        (45, changed(two_servers(), "0/group_id", "4"), "no group of Coordinators"),
        (46, changed(two_servers(), "0/server_list/0/server_ip", "0.0.0.0"), "all-zero address"),
        (46, changed(two_servers(), "0/server_list/0", "text"), "server_group_list.0.server_list.0"),
        (46, table(group("2", row("127.0.0.2")), coordinators=3), "3 Coordinators, allowed 0-2"),
        (47, changed(two_servers(), "2/group_id", "-1"), "no group of Servers"),
        (48, changed(two_servers(), "2/server_list/0/server_ip", "0.0.0.0"), "server_ip is the all-zero address"),
        (48, changed(two_servers(), "2/server_list/0/device/0/device_ip", "0.0.0.0"), "device_ip is the all-zero address"),
        (49, changed(two_servers(), "2/server_list/0/device", []), "has 0 devices, allowed 1-128"),
        (49, changed(two_servers(), "2/server_list/0/device", [device(0)] * 129), "has 129 devices, allowed 1-128"),
        (50, changed(two_servers(), "2/server_list/0/device/0/device_id", "-1"), "device_id is '-1', allowed 0-2048"),
        (50, changed(two_servers(), "2/server_list/0/device/0/device_id", "1073741825"), "device_id is '1073741825'"),
        (50, changed(two_servers(), "2/server_list/0/device/0/device_logical_id", "-1"), "device_logical_id is '-1'"),
        (50, changed(two_servers(), "2/server_list/0/device/0/device_logical_id", "1073741825"), "device_logical_id is '1073741825'"),
        (54, changed(two_servers(), "2/server_list/0/server_id", "server"), "server_id is not an IP address"),
        (55, changed(two_servers(), "2/server_list/0/predict_port", "1"), "predict_port is '1', allowed 1024-65535"),
    ],
)
def test_a_bad_table_is_refused_as_a_whole(number: int, content: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(content)

    assert any(said in problem for problem in caught.value.problems), (number, caught.value.problems)


def test_vector_43_ninety_six_servers_are_accepted() -> None:
    assert len(parse(table(group("2", *(row(f"10.0.0.{n}") for n in range(1, 97))))).servers) == 96


def test_vector_51_a_hardware_type_the_manual_does_not_name_is_refused() -> None:
    with pytest.raises(ConfigError, match="hardware_type is 'error'"):
        parse(changed(mixed_hardware(), "2/server_list/0/hardware_type", "error"), rules(is_heterogeneous=True))


def test_vector_52_empty_lists_are_valid() -> None:
    no_coordinator = parse(changed(two_servers(), "0/server_list", []))
    assert (no_coordinator.coordinators, len(no_coordinator.servers)) == ((), 2)
    assert parse(table(group("2"))).servers == ()


def test_vector_53_ports_of_the_table_win() -> None:
    ports = {"predict_port": "2025", "mgmt_port": "2026", "metric_port": "2027", "inter_comm_port": "2028"}

    assert parse(two_servers(**ports)).servers[0].ports == Ports(2025, 2026, 2027, 2028)


def test_vector_56_groups_come_in_any_order_and_rank_id_may_be_absent() -> None:
    content = two_servers()
    content["server_group_list"].reverse()
    for server in content["server_group_list"][0]["server_list"]:
        del server["device"][0]["rank_id"]

    assert [server.ip for server in parse(content).servers] == ["127.0.0.2", "127.0.0.3"]


def test_vector_57_a_centralised_instance_is_one_server_at_its_lowest_rank() -> None:
    first = group("2", row("10.0.0.1", devices=8, first_rank=8), row("10.0.0.2", devices=8))
    second = group("3", row("10.0.0.3", devices=8), row("10.0.0.4", devices=8, first_rank=8))

    servers = parse(table(first, second), rules(multi_node=multi_node())).servers

    assert [(server.ip, [member.ip for member in server.members if member.is_master]) for server in servers] == [
        ("10.0.0.2", ["10.0.0.2"]),
        ("10.0.0.3", ["10.0.0.3"]),
    ]
    assert [len(server.members) for server in servers] == [2, 2]


def test_vector_58_a_distributed_side_has_one_server_per_chunk_and_host() -> None:
    prefill = group("2", row("10.0.0.1"), row("10.0.0.2"), deploy_server="0")
    decode = group("3", row("10.0.0.3"), row("10.0.0.4"), deploy_server="1")

    servers = parse(table(prefill, decode), rules(multi_node=multi_node(decode={"enable_dist_dp_server": True}))).servers

    assert [(server.ip, server.role, server.is_distributed) for server in servers] == [
        ("10.0.0.1", Role.PREFILL, False),
        ("10.0.0.3", Role.DECODE, True),
        ("10.0.0.4", Role.DECODE, True),
    ]
    assert {server.ports for server in servers[1:]} == {Ports(10000, 10001, 10002, 10003)}
    assert servers[1].instance == servers[2].instance


def test_vector_59_every_server_group_is_checked() -> None:
    first = group("2", row("10.0.0.1"), row("10.0.0.2"))
    second = group("3", row("10.0.0.3"), row("nowhere"))

    with pytest.raises(ConfigError, match="group 3, Server 'nowhere'"):
        parse(table(first, second), rules(multi_node=multi_node()))


def test_vector_60_chunks_of_one_host_get_ports_four_apart() -> None:
    decode = group("2", row("10.0.0.1", devices=8), deploy_server="1")
    by = rules(multi_node=multi_node(decode={"enable_dist_dp_server": True, "tp_size": 2}))

    servers = parse(table(decode), by).servers

    assert [server.ports.predict for server in servers] == [10000, 10004, 10008, 10012]
    assert [[device.device_id for device in server.members[0].devices] for server in servers] == [
        ["0", "1"],
        ["2", "3"],
        ["4", "5"],
        ["6", "7"],
    ]


@pytest.mark.parametrize(("label", "role"), [("2", Role.PREFILL), ("1", Role.DECODE)])
def test_with_equal_flags_the_label_names_the_role(label: str, role: Role) -> None:
    instance = group("2", row("10.0.0.1"), row("10.0.0.2"), deploy_server=label)

    [server] = parse(table(instance), rules(multi_node=multi_node())).servers

    assert (server.role, server.is_distributed) == (role, False)


def test_with_unequal_sizes_the_number_of_hosts_names_the_role() -> None:
    by = rules(multi_node=multi_node(prefill={"node_machine_num": 1}))
    sized = table(group("2", row("10.0.0.1")), group("3", row("10.0.0.2"), row("10.0.0.3")))

    assert [server.role for server in parse(sized, by).servers] == [Role.PREFILL, Role.DECODE]
    with pytest.raises(ConfigError, match="has 3 Servers, an instance has 1"):
        parse(table(group("2", row("10.0.0.1"), row("10.0.0.2"), row("10.0.0.3"))), by)


def test_a_table_that_is_not_completed_is_no_table_yet() -> None:
    assert parse_table(as_bytes(two_servers() | {"status": "initializing"}), rules(), "t") is None


def test_ids_are_the_little_endian_address_and_survive_through_the_backup() -> None:
    assert address_number("172.17.0.1") == 16781740
    assert address_number("172.17.0.3") == 50336172
    assert 0 <= address_number("fd00::1") < 2**32

    servers = parse(two_servers()).servers
    ids = assign_ids(servers, {("127.0.0.3", 1026): 7})

    assert ids == {("127.0.0.2", 1026): address_number("127.0.0.2"), ("127.0.0.3", 1026): 7}


def test_servers_that_share_an_address_have_different_ids_in_any_order() -> None:
    by = rules(multi_node=multi_node(decode={"enable_dist_dp_server": True, "tp_size": 2}))
    servers = parse(table(group("2", row("10.0.0.1", devices=8), deploy_server="1")), by).servers

    ids = assign_ids(servers, {})

    assert len(set(ids.values())) == 4
    assert max(ids.values()) * 10_000 < 2**53
    assert assign_ids(tuple(reversed(servers)), {}) == ids
