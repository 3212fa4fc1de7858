# SPDX-License-Identifier: Apache-2.0
"""Bodies of role posts.

All Servers of one side of a group get the same `peers`, and that list is long, so it is serialised once per
wiring, and each Server's own part once.
Seed: controller manual, role interface of the Server (`/v1/role`), multi-node form (`/v2/role`).
"""

from __future__ import annotations

from collections.abc import Callable

from controller_runtime.api.ms_config import MultiNodeConfig
from controller_runtime.api.rank_table import Device
from controller_runtime.api.roles import Role
from controller_runtime.api.server_api import DpInstance, RoleDevice, RoleLocal, RoleMember, RolePeer
from controller_runtime.ms.dp_groups import dp_groups
from controller_runtime.ms.server_registry import KnownServer, Wiring


class RoleBodies:
    """Builds `POST /v1/role` or, with `multi_node`, `POST /v2/role` bodies."""

    def __init__(self, find: Callable[[int], KnownServer | None], multi_node: MultiNodeConfig | None, *, is_single_container: bool) -> None:
        self._find = find
        self._multi_node = multi_node
        self._is_single_container = is_single_container
        self._peers: dict[Wiring, bytes] = {}

    def body(self, server: KnownServer, wiring: Wiring) -> bytes:
        """The JSON body that gives `server` this wiring; peers that are gone are left out.

        Raises:
            ConfigError: the devices do not fit the configured parallelism.
        """
        local = self._members(server, wiring.role) if self._multi_node else self._local(server)
        return b'{"local":' + local + b',"peers":' + self._peer_list(wiring) + b"}"

    def forget(self) -> None:
        """Drop what was serialised; call when Servers or their devices changed."""
        self._peers.clear()

    def _peer_list(self, wiring: Wiring) -> bytes:
        if wiring not in self._peers:
            if len(self._peers) > 64:
                self._peers.clear()
            peers = [peer for peer_id in wiring.peers if (peer := self._find(peer_id)) is not None and peer.delete_time == 0]
            opposite = wiring.role.opposite
            parts = [self._members(peer, opposite) if self._multi_node else _peer(peer) for peer in peers]
            self._peers[wiring] = b"[" + b",".join(parts) + b"]"
        return self._peers[wiring]

    def _local(self, server: KnownServer) -> bytes:
        spec = server.spec
        local = RoleLocal(
            id=server.id,
            server_ip=spec.ip,
            host_ip=spec.host_ip,
            instance_idx_in_pod=spec.index_in_pod,
            num_instances_per_pod=spec.instances_per_pod,
            is_single_container=self._is_single_container,
            super_pod_id=spec.members[0].super_pod_id,
            device=_devices(spec.members[0].devices),
        )
        return local.model_dump_json(exclude_none=True).encode()

    def _members(self, server: KnownServer, role: Role) -> bytes:
        assert self._multi_node is not None
        side = self._multi_node.p_node_config if role is Role.PREFILL else self._multi_node.d_node_config
        groups = dp_groups(server.spec, server.id, side)
        members = (
            RoleMember(
                server_ip=member.ip,
                host_ip=member.host_ip,
                sp_size=side.sp_size,
                cp_size=side.cp_size,
                super_pod_id=member.super_pod_id,
                dp_inst_list=tuple(DpInstance(dp_inst_id=group.id, device=_devices(group.devices)) for group in cut),
            )
            for member, cut in zip(server.spec.members, groups, strict=True)
        )
        return b"[" + b",".join(member.model_dump_json(exclude_none=True).encode() for member in members) + b"]"


def _peer(peer: KnownServer) -> bytes:
    spec = peer.spec
    model = RolePeer(
        id=peer.id,
        server_ip=spec.ip,
        host_ip=spec.host_ip,
        super_pod_id=spec.members[0].super_pod_id,
        device=_devices(spec.members[0].devices),
    )
    return model.model_dump_json(exclude_none=True).encode()


def _devices(devices: tuple[Device, ...]) -> tuple[RoleDevice, ...]:
    return tuple(
        RoleDevice(
            device_id=device.device_id,
            device_ip=device.device_ip,
            device_logical_id=device.device_logical_id,
            rank_id=device.rank_id,
            super_device_id=device.super_device_id,
        )
        for device in devices
    )
