# SPDX-License-Identifier: Apache-2.0
"""What a rank table must satisfy before the controller acts on it. Pure; reports every problem.

Controllers (group 1) are never checked: nothing is done with them.
Seed: deployment manual, step 8; ranges as the reference controller checks them, on every Server group
and not only on the first.
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from controller_runtime.api.ms_config import MsControllerConfig, MultiNodeConfig
from controller_runtime.api.ms_config_check import is_all_zero
from controller_runtime.api.rank_table import COORDINATOR_GROUP, HARDWARE_DECODE, HARDWARE_PREFILL, Device, RankTable, Server, ServerGroup
from controller_runtime.api.roles import Role

MAX_GROUPS: Final = 3
MAX_GROUPS_MULTI_NODE: Final = 98
MAX_COORDINATORS: Final = 2
MAX_SERVERS_PER_GROUP: Final = 96
MAX_DEVICES: Final = 128
MAX_DEVICE_NUMBER: Final = 2048
MAX_SUPER_DEVICE: Final = 1_073_741_824
_PORT_KEYS: Final = ("predict_port", "mgmt_port", "metric_port", "inter_comm_port")


@dataclass(frozen=True, slots=True)
class TableRules:
    """The part of the configuration that decides how a table is read."""

    multi_node: MultiNodeConfig | None
    is_heterogeneous: bool
    has_roles: bool
    is_single_container: bool
    predict_port: int
    mgmt_port: int
    metric_port: int
    distributed_port: int

    @classmethod
    def of(cls, config: MsControllerConfig) -> TableRules:
        """The rules this configuration implies."""
        return cls(
            multi_node=config.multi_node_infer_config if config.is_multi_node else None,
            is_heterogeneous=config.is_heterogeneous,
            has_roles=config.has_roles,
            is_single_container=config.is_single_container,
            predict_port=config.mindie_server_port,
            mgmt_port=config.mindie_server_control_port,
            metric_port=config.mindie_server_metric_port,
            distributed_port=config.initial_dist_server_port,
        )


def table_problems(table: RankTable, rules: TableRules) -> list[str]:
    """Every reason not to use this table, each naming the place and the remedy. Empty: use it."""
    return [*_group_problems(table, rules), *(problem for group in table.server_groups for problem in _server_group_problems(group, rules))]


def role_by_size(group: ServerGroup, multi_node: MultiNodeConfig) -> Role | None:
    """Role that the number of hosts implies; UNDEFINED when both sides have the same number, None when no side has it."""
    prefill, decode = multi_node.p_node_config.node_machine_num, multi_node.d_node_config.node_machine_num
    if prefill == decode:
        return Role.UNDEFINED
    return {prefill: Role.PREFILL, decode: Role.DECODE}.get(len(group.server_list))


def _group_problems(table: RankTable, rules: TableRules) -> Iterator[str]:
    limit = MAX_GROUPS_MULTI_NODE if rules.multi_node else MAX_GROUPS
    if not 2 <= len(table.server_group_list) <= limit:
        yield f"server_group_list has {len(table.server_group_list)} groups, allowed 2-{limit}. Correct the table."
    for group_id, count in Counter(group.group_id for group in table.server_group_list).items():
        if count > 1:
            yield f"group {group_id} appears {count} times. Merge its entries."
    if not table.server_groups:
        yield "no group of Servers (group_id 2 or more). Add it, even empty."
    coordinators = table.group(COORDINATOR_GROUP)
    if coordinators is None:
        yield "no group of Coordinators (group_id 0). Add it, even empty."
        return
    if len(coordinators.server_list) > MAX_COORDINATORS:
        yield f"group 0 has {len(coordinators.server_list)} Coordinators, allowed 0-{MAX_COORDINATORS}. Remove some."
    for server in coordinators.server_list:
        if problem := _ip_problem(server.server_ip):
            yield f"Coordinator {server.server_ip!r}: server_ip {problem}"


def _server_group_problems(group: ServerGroup, rules: TableRules) -> Iterator[str]:
    where = f"group {group.group_id}"
    if len(group.server_list) > MAX_SERVERS_PER_GROUP:
        yield f"{where} has {len(group.server_list)} Servers, allowed 0-{MAX_SERVERS_PER_GROUP}. Remove some."
    if rules.multi_node:
        if group.deploy_server is not None and _number(group.deploy_server, 0, 2) is None:
            yield f"{where}: deploy_server is {group.deploy_server!r}, allowed 0-2. Correct the workload's label."
        if group.deploy_server in (None, "0") and group.server_list and role_by_size(group, rules.multi_node) is None:
            prefill, decode = rules.multi_node.p_node_config.node_machine_num, rules.multi_node.d_node_config.node_machine_num
            yield f"{where} has {len(group.server_list)} Servers, an instance has {prefill} (prefill) or {decode} (decode). Correct one."
    for server in group.server_list:
        for problem in _server_problems(server, rules):
            yield f"{where}, Server {server.server_ip!r}: {problem}"


def _server_problems(server: Server, rules: TableRules) -> Iterator[str]:
    for name in ("server_ip", "server_id"):
        if problem := _ip_problem(getattr(server, name)):
            yield f"{name} {problem}"
    for name in _PORT_KEYS:
        port = getattr(server, name)
        if port is not None and _number(port, 1024, 65535) is None:
            yield f"{name} is {port!r}, allowed 1024-65535. Correct it."
    if server.super_pod_id is not None and _number(server.super_pod_id, 0, 2**31) is None:
        yield f"super_pod_id is {server.super_pod_id!r}, allowed a number. Correct it."
    if rules.is_heterogeneous and server.hardware_type not in (HARDWARE_PREFILL, HARDWARE_DECODE):
        yield f"hardware_type is {server.hardware_type!r}, allowed {HARDWARE_PREFILL!r} or {HARDWARE_DECODE!r}. Correct it."
    if not rules.has_roles:
        return
    devices = server.device or ()
    if not 1 <= len(devices) <= MAX_DEVICES:
        yield f"has {len(devices)} devices, allowed 1-{MAX_DEVICES}. Correct the device list."
    for device in devices:
        for problem in _device_problems(device, rules):
            yield f"device {device.device_id!r}: {problem}"


def _device_problems(device: Device, rules: TableRules) -> Iterator[str]:
    if problem := _ip_problem(device.device_ip):
        yield f"device_ip {problem}"
    numbers = (("device_id", device.device_id), ("device_logical_id", device.device_logical_id), ("rank_id", device.rank_id))
    for name, text in numbers:
        if text is None and (name != "rank_id" or rules.multi_node):
            yield f"{name} is missing. Add it."
        elif text is not None and _number(text, 0, MAX_DEVICE_NUMBER) is None:
            yield f"{name} is {text!r}, allowed 0-{MAX_DEVICE_NUMBER}. Correct it."
    if device.super_device_id is not None and _number(device.super_device_id, 0, MAX_SUPER_DEVICE) is None:
        yield f"super_device_id is {device.super_device_id!r}, allowed 0-{MAX_SUPER_DEVICE}. Correct it."


def _ip_problem(text: str) -> str | None:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return "is not an IP address. Correct it."
    return "is the all-zero address. Set a real one." if is_all_zero(address) else None


def _number(text: str, low: int, high: int) -> int | None:
    if not (text.isascii() and text.isdecimal() and len(text) <= 10):
        return None
    return int(text) if low <= int(text) <= high else None
