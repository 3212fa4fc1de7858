# SPDX-License-Identifier: Apache-2.0
"""The two files a Controller writes: its own backup, and the cluster status for people.

The process status is what a restarted or promoted Controller inherits roles from; a file with only
the manual's fields is accepted, all other fields have defaults.
Seed: controller manual, table 2 (process backup file) and table 3 (cluster status file).
"""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from controller_runtime.api.base import WireModel
from controller_runtime.api.rank_table import Text
from controller_runtime.api.roles import Label, Role, RoleState
from controller_runtime.api.server_api import MAX_PEERS, Blocks, NodeId, Slots

MAX_SERVERS: Final = 13_824

StrictBool = Annotated[bool, Field(strict=True)]
PortText = Annotated[str, Field(pattern=r"^([0-9]{0,4}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])$")]
"""Up to 65535; empty where the file does not say."""
Count = Annotated[int, Field(strict=True, ge=0)]


class DeviceInfo(WireModel):
    """One NPU as the backup keeps it."""

    id: Text
    ip: Text
    logical_id: Text
    rank_id: int = 0
    super_device_id: Text | None = None


class DpGroupInfo(WireModel):
    """One data-parallel group of a host."""

    id: int
    device_infos: tuple[DeviceInfo, ...] = ()


class ServerInfo(WireModel):
    """One host of an instance."""

    host_id: Annotated[str, Field(alias="hostId")]
    ip: str
    is_master: bool = True
    sp_size: int = 1
    cp_size: int = 1
    super_pod_id: str | None = None
    device_infos: tuple[DeviceInfo, ...] = ()
    dp_group_infos: tuple[DpGroupInfo, ...] = ()


class ProcessStaticInfo(WireModel):
    """Role, group and totals of a Server."""

    group_id: Count = 0
    label: Label
    role: Role
    total_block_num: Blocks = 0
    total_slots_num: Slots = 0
    id: NodeId = 0
    virtual_id: NodeId = 0
    max_seq_len: Count = 0
    max_output_len: Count = 0
    block_size: Count = 0
    p_percentage: Count = 0


class ProcessDynamicInfo(WireModel):
    """Capacity left when the file was written."""

    avail_slots_num: Count = 0
    avail_block_num: Count = 0


class ProcessServer(WireModel):
    """One Server in the backup. `delete_time`: epoch seconds when it left the rank table, 0 while it is in it."""

    delete_time: Count
    id: NodeId
    ip: str
    is_faulty: StrictBool
    is_initialized: StrictBool
    peers: Annotated[tuple[NodeId, ...], Field(max_length=MAX_PEERS)]
    static_info: ProcessStaticInfo
    host_id: str = ""
    port: PortText = ""
    mgmt_port: PortText = ""
    metric_port: PortText = ""
    inter_comm_port: PortText = ""
    is_healthy: StrictBool = False
    is_distribute: StrictBool = False
    inference_type: int = 0
    role_state: RoleState = RoleState.UNKNOWN
    model_name: str = ""
    current_role: Role = Role.UNDEFINED
    active_peers: tuple[NodeId, ...] = ()
    dp_group_peers: tuple[NodeId, ...] = ()
    dynamic_info: ProcessDynamicInfo = ProcessDynamicInfo()
    server_info_list: tuple[ServerInfo, ...] = ()


class ProcessStatus(WireModel):
    """The process backup file, also the value of the etcd key `/controller/node-data`."""

    server: Annotated[tuple[ProcessServer, ...], Field(max_length=MAX_SERVERS)]
    instance_start_id_number: Count = 0
    processed_switch_faults: tuple[str, ...] = ()


class ClusterCoordinator(WireModel):
    """One Coordinator; healthy when the last exchange with it worked."""

    ip: str
    is_healthy: bool


class ClusterStaticInfo(WireModel):
    """Role, group, limits and totals of a Server."""

    group_id: int
    label: Label
    role: Role
    block_size: int
    max_output_len: int
    max_seq_len: int
    total_block_num: int
    total_slots_num: int
    p_percentage: int = 0
    virtual_id: int = 0


class ClusterDynamicInfo(WireModel):
    """Capacity and queues at the last poll."""

    avail_block_num: int
    avail_slots_num: int
    waiting_request_num: int = 0
    running_request_num: int = 0
    swapped_request_num: int = 0
    free_npu_block_nums: int = 0
    free_cpu_block_nums: int = 0
    total_npu_block_nums: int = 0
    total_cpu_block_nums: int = 0


class ClusterServer(WireModel):
    """One Server. `peers` are addresses. For a faulty one `is_healthy` says only whether the last exchange worked."""

    delete_time: int
    ip: str
    is_faulty: bool
    is_healthy: bool
    model_name: str
    peers: tuple[str, ...]
    static_info: ClusterStaticInfo
    dynamic_info: ClusterDynamicInfo


class ClusterStatus(WireModel):
    """The cluster status file: healthy-list Servers first, then faulty ones, each ordered by id."""

    coordinator: tuple[ClusterCoordinator, ...]
    server: tuple[ClusterServer, ...]
    processed_switch_faults: tuple[str, ...] = ()
