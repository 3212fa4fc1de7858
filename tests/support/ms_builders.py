# SPDX-License-Identifier: Apache-2.0
"""Rank tables, specs and Servers for tests of the MS Controller."""

from __future__ import annotations

import copy
import json
from typing import Any

from controller_runtime.api.ms_config import MultiNodeConfig
from controller_runtime.api.rank_table import HARDWARE_DECODE, HARDWARE_PREFILL
from controller_runtime.api.roles import CurrentRole, Role, RoleState
from controller_runtime.api.server_api import LINK_OK, LinkStatus, PeerLink, Resource, ServerConfig, ServerStatus, ServiceStatus
from controller_runtime.ms.rank_table_check import TableRules
from controller_runtime.ms.server_registry import KnownServer, ServerRegistry, Wiring
from controller_runtime.ms.server_spec import Member, Ports, ServerSpec
from controller_runtime.ms.status_parser import Report

CONFIG = ServerConfig(max_seq_len=2560, max_output_len=512, cache_block_size=128, model_name="m")


def device(number: int = 0) -> dict[str, Any]:
    return {"device_id": str(number), "device_ip": f"172.16.0.{number + 1}", "device_logical_id": str(number), "rank_id": str(number)}


def row(ip: str, *, devices: int = 1, first_rank: int = 0, **more: Any) -> dict[str, Any]:
    return {"server_id": ip, "server_ip": ip, "device": [device(first_rank + index) for index in range(devices)], **more}


def table(*server_groups: dict[str, Any], coordinators: int = 1) -> dict[str, Any]:
    """A table with one Coordinator and one Controller; Server groups as given."""
    groups = [
        {"group_id": "0", "server_list": [{"server_id": "127.0.0.1", "server_ip": "127.0.0.1"}] * coordinators},
        {"group_id": "1", "server_list": [{"server_id": "127.0.0.1", "server_ip": "127.0.0.1"}]},
        *server_groups,
    ]
    return {"version": "1.0", "status": "completed", "server_group_list": groups}


def two_servers(**more: Any) -> dict[str, Any]:
    """The table of the rank-table vectors: Servers 127.0.0.2 and 127.0.0.3."""
    return table({"group_id": "2", "server_list": [row("127.0.0.2", **more), row("127.0.0.3", **more)]})


def mixed_hardware() -> dict[str, Any]:
    """The same, one of each hardware type."""
    return table(
        {
            "group_id": "2",
            "server_list": [row("127.0.0.2", hardware_type=HARDWARE_DECODE), row("127.0.0.3", hardware_type=HARDWARE_PREFILL)],
        }
    )


def as_bytes(content: dict[str, Any]) -> bytes:
    return json.dumps(content).encode()


def changed(content: dict[str, Any], path: str, value: object) -> dict[str, Any]:
    """A copy with one place changed, `2/server_list/0/server_ip` counting inside `server_group_list`."""
    copied = copy.deepcopy(content)
    *parents, last = path.split("/")
    place: Any = copied["server_group_list"]
    for parent in parents:
        place = place[int(parent) if isinstance(place, list) else parent]
    place[int(last) if isinstance(place, list) else last] = value
    return copied


def rules(
    *, is_heterogeneous: bool = False, multi_node: MultiNodeConfig | None = None, has_roles: bool = True, distributed_port: int = 10000
) -> TableRules:
    return TableRules(
        multi_node=multi_node,
        is_heterogeneous=is_heterogeneous,
        has_roles=has_roles,
        is_single_container=False,
        predict_port=1025,
        mgmt_port=1026,
        metric_port=1027,
        distributed_port=distributed_port,
    )


def multi_node(*, prefill: dict[str, Any] | None = None, decode: dict[str, Any] | None = None) -> MultiNodeConfig:
    side = {"enable_dist_dp_server": False, "node_machine_num": 2, "tp_size": 4, "dp_size": 4, "sp_size": 1}
    return MultiNodeConfig.model_validate(
        {"multi_node_infer_enable": True, "p_node_config": {**side, **(prefill or {})}, "d_node_config": {**side, **(decode or {})}}
    )


def spec(number: int, role: Role = Role.UNDEFINED, *, host: str | None = None, ip: str | None = None) -> ServerSpec:
    """The spec of Server `number`, at 10.0.0.`number`."""
    address = ip or f"10.0.0.{number}"
    member = Member(host or f"192.168.0.{number}", address, True, ())
    return ServerSpec(
        ip=address, host_ip=member.host_ip, ports=Ports(1025, 1026, 1027), role=role, members=(member,), instance=f"2/{address}"
    )


def cluster(prefills: int, decodes: int) -> tuple[ServerRegistry, list[KnownServer], list[KnownServer]]:
    """A registry of healthy Servers without roles on the wire but with roles assigned; ids count from 1, prefill first."""
    registry = ServerRegistry()
    servers = [KnownServer(id=number, spec=spec(number), config=CONFIG) for number in range(1, prefills + decodes + 1)]
    for server in servers:
        registry.add(server)
        registry.accept_status(server, status(), 0)
    for server in servers:
        registry.assign(server, Role.PREFILL if server.id <= prefills else Role.DECODE, 0, server.id, is_joining=False)
    return registry, servers[:prefills], servers[prefills:]


def status(
    role: Role = Role.UNDEFINED,
    state: RoleState = RoleState.UNKNOWN,
    *,
    ok: tuple[int, ...] = (),
    broken: tuple[int, ...] = (),
    slots: int = 200,
) -> Report:
    links = [PeerLink(target=peer, link=LINK_OK) for peer in ok] + [PeerLink(target=peer, link="no route") for peer in broken]
    said = ServerStatus(
        service=ServiceStatus(role_status=state, current_role=role.word if role is not Role.UNDEFINED else CurrentRole.NONE),
        resource=Resource(avail_slots_num=slots, avail_block_num=1024),
        link_status=LinkStatus(peers=tuple(links)),
    )
    return Report.of(said)


def serve(registry: ServerRegistry) -> None:
    """Let every Server accept its role and report all its links."""
    for server in registry.present:
        registry.accept_post(server, registry.wiring_of(server))
    for server in registry.present:
        report(registry, server)


def report(registry: ServerRegistry, server: KnownServer, state: RoleState = RoleState.READY) -> None:
    """Let a Server report its role with all its links standing."""
    registry.accept_status(server, status(server.role, state, ok=registry.wiring_of(server).peers), server.posts)


def wiring(role: Role, *peers: int) -> Wiring:
    return Wiring(role, peers)
