# SPDX-License-Identifier: Apache-2.0
"""Which Servers a rank table describes: addresses, ports, devices, the role the table fixes, and their ids.

A `ServerSpec` is one HTTP endpoint set. Without multi-node it is one row of group 2; a centralised
instance of several hosts is one spec too (its master's endpoints); a distributed instance is several specs
with the same `instance`.
Seed: deployment manual, step 8; controller manual, `multi_node_infer_config` and table 2 (`id`).
"""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from controller_runtime.api.ms_config import MultiNodeConfig, NodeConfig
from controller_runtime.api.rank_table import (
    DEPLOY_DECODE,
    DEPLOY_PREFILL,
    HARDWARE_DECODE,
    HARDWARE_PREFILL,
    Device,
    RankTable,
    Server,
    ServerGroup,
)
from controller_runtime.api.roles import Role
from controller_runtime.ms.rank_table_check import TableRules, role_by_size

PORTS_PER_DISTRIBUTED_SERVER: Final = 4
INSTANCES_PER_CONTAINER: Final = 16
"""What a Server is told in single-container mode."""
ID_STEP: Final = 2**32
"""Distance between the ids of Servers that share an address."""

ServerKey = tuple[str, int]
"""Pod address and management port: who a Server is across restarts of the controller."""


class Ports(NamedTuple):
    """Where a Server listens."""

    predict: int
    mgmt: int
    metric: int
    inter_comm: int | None = None


@dataclass(frozen=True, slots=True)
class Member:
    """One host of a Server."""

    host_ip: str
    ip: str
    is_master: bool
    devices: tuple[Device, ...]
    super_pod_id: str | None = None


@dataclass(frozen=True, slots=True)
class ServerSpec:
    """What the table says about one Server. `role` is UNDEFINED unless the table fixes it."""

    ip: str
    host_ip: str
    ports: Ports
    role: Role
    members: tuple[Member, ...]
    instance: str
    is_distributed: bool = False
    index_in_pod: int = 0
    instances_per_pod: int = 1

    @property
    def key(self) -> ServerKey:
        """Identity across restarts."""
        return self.ip, self.ports.mgmt

    @property
    def has_fixed_role(self) -> bool:
        """True when hardware type or label decide, and nobody else may."""
        return self.role is not Role.UNDEFINED


def derive_servers(table: RankTable, rules: TableRules) -> tuple[ServerSpec, ...]:
    """Specs of a table that has no problems, in file order."""
    specs: list[ServerSpec] = []
    for group in table.server_groups:
        if rules.multi_node is None:
            specs += [_single_host(server, index, group, rules) for index, server in enumerate(group.server_list)]
        elif group.server_list:
            specs += _instance(group, rules, rules.multi_node)
    return tuple(specs)


def assign_ids(specs: tuple[ServerSpec, ...], known: Mapping[ServerKey, int]) -> dict[ServerKey, int]:
    """An id for every spec: the known one, else one made from the address.

    Ids are below 2**39, unique, and the same in every controller that sees the same table.
    """
    ids = {spec.key: known[spec.key] for spec in specs if spec.key in known}
    taken = set(known.values())
    for spec in sorted(specs, key=lambda spec: spec.key):
        if spec.key in ids:
            continue
        candidate = address_number(spec.ip)
        while candidate in taken:
            candidate += ID_STEP
        ids[spec.key] = candidate
        taken.add(candidate)
    return ids


def address_number(ip: str) -> int:
    """An IPv4 address read as a little-endian number; of an IPv6 address the first 32 bits of its SHA-256.

    `172.17.0.1` is 16781740, as in the manual's samples.
    """
    packed = ipaddress.ip_address(ip).packed
    return int.from_bytes(packed, "little") if len(packed) == 4 else int.from_bytes(hashlib.sha256(packed).digest()[:4], "little")


def _single_host(server: Server, index: int, group: ServerGroup, rules: TableRules) -> ServerSpec:
    role = Role.UNDEFINED
    if rules.is_heterogeneous and rules.has_roles:
        role = {HARDWARE_PREFILL: Role.PREFILL, HARDWARE_DECODE: Role.DECODE}.get(server.hardware_type or "", Role.UNDEFINED)
    member = _member(server, group, is_master=True)
    return ServerSpec(
        ip=server.server_ip,
        host_ip=server.server_id,
        ports=_ports(server, rules),
        role=role,
        members=(member,),
        instance=f"{group.group_id}/{server.server_ip}/{server.mgmt_port}",
        index_in_pod=index,
        instances_per_pod=INSTANCES_PER_CONTAINER if rules.is_single_container else 1,
    )


def _instance(group: ServerGroup, rules: TableRules, multi_node: MultiNodeConfig) -> Iterator[ServerSpec]:
    role, is_distributed = _role_of_instance(group, multi_node)
    if is_distributed:
        side = multi_node.p_node_config if role is Role.PREFILL else multi_node.d_node_config
        yield from _distributed(group, role, side, rules.distributed_port)
        return
    master = min(group.server_list, key=_smallest_rank)
    members = tuple(_member(server, group, is_master=server is master) for server in group.server_list)
    yield ServerSpec(
        ip=master.server_ip,
        host_ip=master.server_id,
        ports=_ports(master, rules),
        role=role,
        members=members,
        instance=group.group_id,
    )


def _role_of_instance(group: ServerGroup, multi_node: MultiNodeConfig) -> tuple[Role, bool]:
    """Role and whether the instance is distributed.

    With equal flags the label names the role and the flag the form; with one flag set the label says
    on which side of it the instance is.
    """
    prefill_flag, decode_flag = multi_node.p_node_config.enable_dist_dp_server, multi_node.d_node_config.enable_dist_dp_server
    if prefill_flag == decode_flag:
        role = {DEPLOY_DECODE: Role.DECODE, DEPLOY_PREFILL: Role.PREFILL}.get(group.deploy_server or "")
        return (role, prefill_flag) if role else (role_by_size(group, multi_node) or Role.UNDEFINED, False)
    if group.deploy_server is None:
        return role_by_size(group, multi_node) or Role.UNDEFINED, False
    is_distributed = group.deploy_server in (DEPLOY_DECODE, DEPLOY_PREFILL)
    return (Role.PREFILL if prefill_flag == is_distributed else Role.DECODE), is_distributed


def _distributed(group: ServerGroup, role: Role, side: NodeConfig, base_port: int) -> Iterator[ServerSpec]:
    chunk = side.tp_size * side.cp_size
    for server in group.server_list:
        devices = server.device or ()
        for index, start in enumerate(range(0, len(devices), chunk)):
            port = base_port + PORTS_PER_DISTRIBUTED_SERVER * index
            member = _member(server, group, is_master=True)
            yield ServerSpec(
                ip=server.server_ip,
                host_ip=server.server_id,
                ports=Ports(port, port + 1, port + 2, port + 3),
                role=role,
                members=(Member(member.host_ip, member.ip, True, devices[start : start + chunk], member.super_pod_id),),
                instance=group.group_id,
                is_distributed=True,
                index_in_pod=index,
            )


def _member(server: Server, group: ServerGroup, *, is_master: bool) -> Member:
    pods = (pod.super_pod_id for pod in group.super_pod_list for member in pod.server_list if member.server_id == server.server_id)
    return Member(server.server_id, server.server_ip, is_master, server.device or (), server.super_pod_id or next(pods, None))


def _ports(server: Server, rules: TableRules) -> Ports:
    return Ports(
        predict=int(server.predict_port or rules.predict_port),
        mgmt=int(server.mgmt_port or rules.mgmt_port),
        metric=int(server.metric_port or rules.metric_port),
        inter_comm=int(server.inter_comm_port) if server.inter_comm_port else None,
    )


def _smallest_rank(server: Server) -> int:
    return min((int(device.rank_id or 0) for device in server.device or ()), default=0)
