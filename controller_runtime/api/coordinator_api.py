# SPDX-License-Identifier: Apache-2.0
"""What the Controller and a Coordinator say to each other.

The Coordinator's whole knowledge of Servers is the last `POST /v1/instances/refresh` body: a Server
that is not in it is not used. Ports are strings there, `role` is a character code.
Seed: controller manual, Coordinator interfaces; ranges as the reference controller checks them.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated, Final

from pydantic import Field

from controller_runtime.api.base import WireModel
from controller_runtime.api.roles import Label, Role
from controller_runtime.api.server_api import MAX_UINT32, Blocks, NodeId, Slots

REFRESH_PATH: Final = "/v1/instances/refresh"
OFFLINE_PATH: Final = "/v1/instances/offline"
ONLINE_PATH: Final = "/v1/instances/online"
TASKS_PATH: Final = "/v1/instances/tasks"
QUERY_TASKS_PATH: Final = "/v1/instances/query_tasks"
INFO_PATH: Final = "/v1/coordinator_info"
RECEIVES_PATH: Final = "/recvs_info"
BACKUP_INFO_PATH: Final = "/backup_info"
CHAT_PATH: Final = "/v1/chat/completions"
METRICS_PATH: Final = "/metrics"

MAX_SCHEDULE_ENTRIES: Final = 288


class StaticInfo(WireModel):
    """Facts about an instance that change only with its role. Lengths in tokens."""

    group_id: int = 0
    virtual_id: NodeId = 0
    label: Label
    role: Role
    p_percentage: Annotated[int, Field(ge=0, le=100)] = 0
    max_seq_len: int
    max_output_len: int
    block_size: int
    total_slots_num: int
    total_block_num: int


class DynamicInfo(WireModel):
    """Facts about an instance at the last poll. `peers` is None for an undefined role."""

    peers: tuple[NodeId, ...] | None = None
    avail_slots_num: int
    avail_block_num: int
    waiting_request_num: int = 0
    running_request_num: int = 0
    swapped_request_num: int = 0
    free_npu_block_nums: int = 0
    free_cpu_block_nums: int = 0
    total_npu_block_nums: int = 0
    total_cpu_block_nums: int = 0


class Instance(WireModel):
    """One usable Server. Ports are strings; an unset inter-communication port is empty."""

    id: NodeId
    ip: str
    model_name: str
    port: str
    metric_port: str
    inter_comm_port: str = ""
    static_info: StaticInfo
    dynamic_info: DynamicInfo


class InstancesRefresh(WireModel):
    """`POST /v1/instances/refresh`: all usable Servers, replacing what was known before."""

    ids: tuple[NodeId, ...]
    instances: tuple[Instance, ...]


class InstanceIds(WireModel):
    """`POST /v1/instances/offline` and `/online`."""

    ids: tuple[NodeId, ...]


class Tasks(WireModel):
    """`GET /v1/instances/tasks?id=`: one count per id asked for; -1 means the id is not known."""

    tasks: tuple[Annotated[int, Field(strict=True, ge=-1, le=2**31 - 1)], ...]


class RoleChange(IntEnum):
    """Direction of a role switch."""

    PREFILL_TO_DECODE = 0
    DECODE_TO_PREFILL = 1
    UNKNOWN = 2


class QueryTasks(WireModel):
    """`POST /v1/instances/query_tasks`: has this pair finished its transfers?"""

    p_id: NodeId
    d_id: NodeId
    role_change_type: RoleChange


class QueryTasksReply(WireModel):
    """Answer to `QueryTasks`."""

    is_end: Annotated[bool, Field(strict=True)]


class ScheduleInfo(WireModel):
    """Load of one Server as the Coordinator accounts it."""

    id: NodeId
    allocated_slots: Slots
    allocated_blocks: Blocks


class RequestLength(WireModel):
    """Mean lengths in tokens; zero means no request was seen."""

    input_len: Annotated[int, Field(strict=True, ge=0, le=MAX_UINT32)]
    output_len: Annotated[int, Field(strict=True, ge=0, le=MAX_UINT32)]


class CoordinatorInfo(WireModel):
    """`GET /v1/coordinator_info`: input of the periodic role decision."""

    schedule_info: Annotated[tuple[ScheduleInfo, ...], Field(max_length=MAX_SCHEDULE_ENTRIES)]
    request_length_info: RequestLength


class ReceivesInfo(WireModel):
    """`GET /recvs_info`: which of two Coordinators gets the requests."""

    is_master: bool = False
    recv_flow: int = 0


class BackupInfo(WireModel):
    """`POST /backup_info`: the Controller's verdict on two Coordinators."""

    is_master: bool
    is_abnormal: bool
    is_random_pick: bool
