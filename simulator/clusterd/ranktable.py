# SPDX-License-Identifier: Apache-2.0
"""Live pods -> global rank table. Pure, and the same pods always give the same bytes.

Group 0 holds Coordinators, 1 Controllers, 2 all Servers. Pods labelled `grt-group/deploy-server` are
multi-node instances: one group each from 2 on, prefill instances first.
The table is completed when there is a Controller, a Coordinator and a Server.
Seed: deployment manual, `global_ranktable.json`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from controller_runtime.api.rank_table import (
    CONTROLLER_GROUP,
    COORDINATOR_GROUP,
    DEPLOY_PREFILL,
    FIRST_SERVER_GROUP,
    Device,
    RankTable,
    Server,
    ServerGroup,
)
from simulator.clusterd.pods import HARDWARE_NAMES, PodFacts


def build_rank_table(
    controllers: Iterable[PodFacts], coordinators: Iterable[PodFacts], servers: Iterable[PodFacts], hardware_of_node: Mapping[str, str]
) -> RankTable:
    """Build the table. Rows are sorted by pod name. `hardware_of_node`: node name -> its `hardware-type` label."""
    control, coordination, inference = (sorted(pods, key=lambda pod: pod.name) for pods in (controllers, coordinators, servers))
    is_complete = bool(control and coordination and inference)
    return RankTable(
        status="completed" if is_complete else "initializing",
        server_group_list=(
            *_server_groups(inference, hardware_of_node),
            _group(CONTROLLER_GROUP, [_plain_row(pod) for pod in control]),
            _group(COORDINATOR_GROUP, [_plain_row(pod) for pod in coordination]),
        ),
    )


def _server_groups(servers: Sequence[PodFacts], hardware_of_node: Mapping[str, str]) -> list[ServerGroup]:
    single = [pod for pod in servers if pod.deploy_server is None]
    multi = sorted(
        (pod for pod in servers if pod.deploy_server is not None),
        key=lambda pod: (pod.deploy_server != DEPLOY_PREFILL, pod.deploy_server or "", _natural(pod.instance), pod.name),
    )
    groups = []
    if single or not multi:
        rows = [_server_row(pod, 0, hardware_of_node) for pod in single]
        groups.append(_group(str(FIRST_SERVER_GROUP), rows))
    for _, members in groupby(multi, key=lambda pod: (pod.deploy_server, pod.instance)):
        groups.append(_instance_group(FIRST_SERVER_GROUP + len(groups), list(members), hardware_of_node))
    return groups


def _instance_group(number: int, members: Sequence[PodFacts], hardware_of_node: Mapping[str, str]) -> ServerGroup:
    rows, first_rank = [], 0
    for pod in members:
        rows.append(_server_row(pod, first_rank, hardware_of_node))
        first_rank += len(pod.npu_ids)
    return _group(str(number), rows, members[0].deploy_server)


def _group(group_id: str, rows: Sequence[Server], deploy_server: str | None = None) -> ServerGroup:
    return ServerGroup(group_id=group_id, server_count=str(len(rows)), deploy_server=deploy_server, server_list=tuple(rows))


def _plain_row(pod: PodFacts) -> Server:
    return Server(server_id=pod.host_ip, server_ip=pod.pod_ip)


def _server_row(pod: PodFacts, first_rank: int, hardware_of_node: Mapping[str, str]) -> Server:
    devices = tuple(
        Device(
            device_id=str(npu),
            device_ip=device_address(pod.host_ip, npu),
            device_logical_id=str(index),
            rank_id=str(first_rank + index),
        )
        for index, npu in enumerate(pod.npu_ids)
    )
    hardware = pod.hardware or hardware_of_node.get(pod.node, "")
    return Server(server_id=pod.host_ip, server_ip=pod.pod_ip, hardware_type=HARDWARE_NAMES.get(hardware), device=devices or None)


def device_address(host_ip: str, npu: int) -> str:
    """Invent the address of an NPU's network port in 172.16.0.0/12: stable for a host and a device id."""
    digest = hashlib.sha256(f"{host_ip}/{npu}".encode()).digest()
    return f"172.{16 + digest[0] % 16}.{digest[1]}.{1 + digest[2] % 254}"


def _natural(instance: tuple[str, ...]) -> tuple[tuple[int, str], ...]:
    """Sort key in which instance 10 follows instance 9."""
    return tuple((int(part), "") if part.isascii() and part.isdecimal() else (-1, part) for part in instance)
