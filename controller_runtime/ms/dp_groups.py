# SPDX-License-Identifier: Apache-2.0
"""Cut the devices of a multi-node instance into data-parallel groups. Pure.

A group has tp_size x cp_size devices. When a host has fewer, a group spans hosts; otherwise each host is cut
by itself. Ids are node id x 10000 + index, counted over the whole instance.
Seed: controller manual, `multi_node_infer_config`; rules as in the reference controller.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from controller_runtime.api.ms_config import NodeConfig
from controller_runtime.api.rank_table import Device
from controller_runtime.errors import ConfigError
from controller_runtime.ms.server_spec import ServerSpec

IDS_PER_NODE: Final = 10_000


@dataclass(frozen=True, slots=True)
class DpGroup:
    """Devices of one data-parallel group on one host."""

    id: int
    devices: tuple[Device, ...]


def dp_groups(spec: ServerSpec, node_id: int, side: NodeConfig) -> tuple[tuple[DpGroup, ...], ...]:
    """Groups per member, in member order; a group that spans hosts appears with each of them.

    Raises:
        ConfigError: the device counts do not fit tp_size, cp_size and dp_size.
    """
    base = node_id * IDS_PER_NODE
    if spec.is_distributed:
        return tuple((DpGroup(base, member.devices),) for member in spec.members)
    size = side.tp_size * side.cp_size
    total = sum(len(member.devices) for member in spec.members)
    if total != size * side.dp_size:
        raise ConfigError(
            f"instance {spec.ip}: has {total} devices, tp_size {side.tp_size} x cp_size {side.cp_size} x dp_size {side.dp_size} "
            f"needs {size * side.dp_size}. Correct multi_node_infer_config or the instance."
        )
    per_host = len(spec.members[0].devices)
    if per_host >= size:
        return _cut_each_host(spec, base, size)
    if size % per_host:
        raise ConfigError(
            f"instance {spec.ip}: tp_size x cp_size is {size}, not a multiple of the {per_host} devices of a host. "
            "Correct multi_node_infer_config."
        )
    hosts_per_group = size // per_host
    return tuple((DpGroup(base + index // hosts_per_group, member.devices),) for index, member in enumerate(spec.members))


def _cut_each_host(spec: ServerSpec, base: int, size: int) -> tuple[tuple[DpGroup, ...], ...]:
    cut: list[tuple[DpGroup, ...]] = []
    index = 0
    for member in spec.members:
        chunks = [member.devices[start : start + size] for start in range(0, len(member.devices), size)]
        cut.append(tuple(DpGroup(base + index + offset, chunk) for offset, chunk in enumerate(chunks)))
        index += len(chunks)
    return tuple(cut)
