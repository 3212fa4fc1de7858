# SPDX-License-Identifier: Apache-2.0
"""The global rank table: who serves where, as ClusterD publishes it.

Every scalar is a string on the wire, numbers included. The shape is parsed here; what a table must
satisfy depends on the controller's configuration and is checked by the reader.
Groups come in any order: always search by `group_id`.
Seed: deployment manual, step 8 (`global_ranktable.json`).
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from controller_runtime.api.base import WireModel

COORDINATOR_GROUP: Final = "0"
CONTROLLER_GROUP: Final = "1"
FIRST_SERVER_GROUP: Final = 2
"""Servers: all of them in this group, or one group per instance from here on (multi-node)."""

FILE_NAME: Final = "global_ranktable.json"

HARDWARE_PREFILL: Final = "800I A2(32G)"
HARDWARE_DECODE: Final = "800I A2(64G)"

DEPLOY_CENTRALISED: Final = "0"
DEPLOY_DECODE: Final = "1"
DEPLOY_PREFILL: Final = "2"

Text = Annotated[str, Field(strict=True, max_length=4096)]


class Device(WireModel):
    """One NPU of a Server."""

    device_id: Text
    device_ip: Text
    device_logical_id: Text
    rank_id: Text | None = None
    super_device_id: Text | None = None


class Server(WireModel):
    """One row. `server_id` is the host's address, `server_ip` the pod's."""

    server_id: Text = ""
    server_ip: Text
    hardware_type: Text | None = None
    predict_port: Text | None = None
    mgmt_port: Text | None = None
    metric_port: Text | None = None
    inter_comm_port: Text | None = None
    super_pod_id: Text | None = None
    device: tuple[Device, ...] | None = None


class SuperPodMember(WireModel):
    """A host inside a super pod."""

    server_id: Text


class SuperPod(WireModel):
    """Hosts that share one super pod."""

    super_pod_id: Text
    server_list: tuple[SuperPodMember, ...] = ()


class ServerGroup(WireModel):
    """Rows of one kind; in multi-node mode a Server group is one instance."""

    group_id: Annotated[str, Field(strict=True, min_length=1, max_length=64)]
    server_count: Text | None = None
    deploy_server: Text | None = None
    server_list: tuple[Server, ...] = ()
    super_pod_list: tuple[SuperPod, ...] = ()

    @property
    def number(self) -> int | None:
        """`group_id` as a number, None when it is none."""
        return int(self.group_id) if self.group_id.isascii() and self.group_id.isdecimal() else None

    @property
    def holds_servers(self) -> bool:
        """True for the groups of inference Servers."""
        return self.number is not None and self.number >= FIRST_SERVER_GROUP


class RankTable(WireModel):
    """The whole table."""

    version: Text = "1.0"
    status: Literal["initializing", "completed"] | Text = "completed"
    server_group_list: tuple[ServerGroup, ...]

    @property
    def is_completed(self) -> bool:
        """True when ClusterD has placed every pod it waits for."""
        return self.status == "completed"

    def group(self, group_id: str) -> ServerGroup | None:
        """The group with exactly this id, wherever it stands."""
        return next((group for group in self.server_group_list if group.group_id == group_id), None)

    @property
    def server_groups(self) -> tuple[ServerGroup, ...]:
        """All groups of Servers in file order."""
        return tuple(group for group in self.server_group_list if group.holds_servers)

    def to_json(self) -> bytes:
        """Wire form: absent optional keys are left out."""
        return self.model_dump_json(exclude_none=True, indent=2).encode()
