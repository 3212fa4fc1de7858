# SPDX-License-Identifier: Apache-2.0
"""What the Controller and a Server (or its node manager) say to each other.

Management port: `GET /v1/config`, `GET /v1|v2/status`, `POST /v1|v2/role/{prefill,decode}`,
`GET /stopService`. A value outside its range makes the whole reply invalid: nothing of it is stored.
Numbers must be JSON integers; `5.0` and `"5"` are refused.
Seed: controller manual, Server interfaces; ranges as the reference controller checks them.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field

from controller_runtime.api.base import WireModel
from controller_runtime.api.roles import CurrentRole, Role, RoleState

CONFIG_PATH: Final = "/v1/config"
STATUS_PATH: Final = "/v1/status"
STATUS_PATH_V2: Final = "/v2/status"
STOP_PATH: Final = "/stopService"
STOP_FORCE_QUERY: Final = "?mode=Force"
RUNNING_STATUS_PATH: Final = "/v1/node-manager/running-status"
FAULT_COMMAND_PATH: Final = "/v1/node-manager/fault-handling-command"
SERVER_SANS: Final = ("mindie-server.*",)
"""Names in the certificate of a Server, which is dialled by address."""
LINK_OK: Final = "ok"
RESULT_OK: Final = "ok"

MAX_UINT32: Final = 4_294_967_295
MAX_SLOTS: Final = 5000
MAX_PEERS: Final = 768

Slots = Annotated[int, Field(strict=True, ge=0, le=MAX_SLOTS)]
Blocks = Annotated[int, Field(strict=True, ge=0, le=MAX_UINT32)]
Counter = Annotated[int, Field(strict=True)]
NodeId = Annotated[int, Field(strict=True, ge=0, lt=2**53)]
"""Unsigned and exact in a JSON double."""


def role_path(role: Role, version: int = 1) -> str:
    """Path that gives a Server this role: `/v1/role/prefill`."""
    return f"/v{version}/role/{role.word}"


class ServerConfig(WireModel):
    """`GET /v1/config`: what the engine was started with. Lengths in tokens."""

    max_seq_len: Annotated[int, Field(strict=True, ge=0, le=MAX_UINT32, alias="maxSeqLen")]
    max_output_len: Annotated[int, Field(strict=True, ge=1, le=MAX_UINT32 - 1, alias="maxOutputLen")]
    cache_block_size: Annotated[int, Field(strict=True, ge=1, le=128, alias="cacheBlockSize")]
    model_name: Annotated[str, Field(strict=True, min_length=1, max_length=4096, alias="modelName")]


class ServiceStatus(WireModel):
    """Role part of a status."""

    role_status: Annotated[RoleState, Field(alias="roleStatus")]
    current_role: Annotated[CurrentRole, Field(alias="currentRole")]


class Resource(WireModel):
    """Capacity left on a Server."""

    avail_slots_num: Annotated[Slots, Field(alias="availSlotsNum")]
    avail_block_num: Annotated[Blocks, Field(alias="availBlockNum")]
    waiting_request_num: Annotated[Counter, Field(alias="waitingRequestNum")] = 0
    running_request_num: Annotated[Counter, Field(alias="runningRequestNum")] = 0
    swapped_request_num: Annotated[Counter, Field(alias="swappedRequestNum")] = 0
    free_npu_block_nums: Annotated[Counter, Field(alias="freeNpuBlockNums")] = 0
    free_cpu_block_nums: Annotated[Counter, Field(alias="freeCpuBlockNums")] = 0
    total_npu_block_nums: Annotated[Counter, Field(alias="totalNpuBlockNums")] = 0
    total_cpu_block_nums: Annotated[Counter, Field(alias="totalCpuBlockNums")] = 0


class ResourceV2(WireModel):
    """Capacity left on a multi-node instance."""

    total_avail_npu_slots_num: Annotated[Slots, Field(alias="totalAvailNpuSlotsNum")]
    total_avail_npu_block_num: Annotated[Blocks, Field(alias="totalAvailNpuBlockNum")]
    max_avail_npu_block_num: Annotated[Blocks, Field(alias="maxAvailNpuBlockNum")]


class PeerLink(WireModel):
    """State of one link. `link` is `ok` or the reason why there is none."""

    target: NodeId
    link: Annotated[str, Field(strict=True, max_length=4096)]


class LinkStatus(WireModel):
    """Links a Server has, or tries to have."""

    peers: Annotated[tuple[PeerLink, ...], Field(max_length=MAX_PEERS)] = ()

    @property
    def active(self) -> frozenset[int]:
        """Ids of the peers whose link stands."""
        return frozenset(peer.target for peer in self.peers if peer.link == LINK_OK)


class ServerStatus(WireModel):
    """`GET /v1/status`. An absent `linkStatus` means no links."""

    service: ServiceStatus
    resource: Resource
    link_status: Annotated[LinkStatus, Field(alias="linkStatus")] = LinkStatus()


class ServerStatusV2(WireModel):
    """`GET /v2/status`, for multi-node instances."""

    service: ServiceStatus
    resource: ResourceV2
    link_status: Annotated[LinkStatus, Field(alias="linkStatus")] = LinkStatus()


class RoleDevice(WireModel):
    """One NPU in a role post; strings as in the rank table."""

    device_id: str
    device_ip: str
    device_logical_id: str
    rank_id: str | None = None
    super_device_id: str | None = None


class RoleLocal(WireModel):
    """The Server that receives the role."""

    id: NodeId
    server_ip: str
    host_ip: str
    instance_idx_in_pod: Annotated[int, Field(ge=0)] = 0
    num_instances_per_pod: Annotated[int, Field(ge=1)] = 1
    is_single_container: bool = False
    super_pod_id: str | None = None
    device: tuple[RoleDevice, ...] = ()


class RolePeer(WireModel):
    """A Server to hold a link with."""

    id: NodeId
    server_ip: str
    host_ip: str
    super_pod_id: str | None = None
    device: tuple[RoleDevice, ...] = ()


class RoleRequest(WireModel):
    """`POST /v1/role/{role}`. Idempotent; the same role with other peers rewires the Server."""

    local: RoleLocal
    peers: tuple[RolePeer, ...] = ()


class DpInstance(WireModel):
    """One data-parallel group. `dp_inst_id` is node id x 10000 + index."""

    dp_inst_id: Annotated[int, Field(ge=0)]
    device: tuple[RoleDevice, ...] = ()


class RoleMember(WireModel):
    """One host of a multi-node instance."""

    server_ip: str
    host_ip: str
    sp_size: Annotated[int, Field(ge=1)] = 1
    cp_size: Annotated[int, Field(ge=1)] = 1
    super_pod_id: str | None = None
    dp_inst_list: tuple[DpInstance, ...] = ()


class RoleRequestV2(WireModel):
    """`POST /v2/role/{role}`: one element per host; `peers` has one inner list per peer instance."""

    local: tuple[RoleMember, ...]
    peers: tuple[tuple[RoleMember, ...], ...] = ()


class RoleReply(WireModel):
    """Answer to a role post. Anything but `ok` means: still switching, post again later."""

    result: Annotated[str, Field(strict=True)]


class EngineStatus(StrEnum):
    """What a node manager says about its engines."""

    READY = "ready"
    INIT = "init"
    NORMAL = "normal"
    PAUSE = "pause"
    ABNORMAL = "abnormal"
    BUSY = "busy"
    UNKNOWN = "unknown"

    @classmethod
    def _missing_(cls, value: object) -> EngineStatus:
        return cls.UNKNOWN


class RunningStatus(WireModel):
    """`GET /v1/node-manager/running-status`. HTTP 200, or 210 when abnormal."""

    status: EngineStatus


class FaultCommandName(StrEnum):
    """Commands a node manager obeys."""

    PAUSE_ENGINE = "PAUSE_ENGINE"
    REINIT_NPU = "REINIT_NPU"
    START_ENGINE = "START_ENGINE"
    STOP_ENGINE = "STOP_ENGINE"
    PAUSE_ENGINE_ROCE = "PAUSE_ENGINE_ROCE"


class FaultCommand(WireModel):
    """`POST /v1/node-manager/fault-handling-command`."""

    cmd: FaultCommandName
