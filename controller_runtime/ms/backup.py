# SPDX-License-Identifier: Apache-2.0
"""Where roles survive a controller: a file, etcd, or nowhere; and how a controller takes them over.

A valid backup is always used and its roles kept, whatever Servers say, because role decisions are inherited until
the file is deleted; only a role that the rank table fixes, or a switch that a Server had already made, is stronger.
Seed: controller manual, `process_manager.to_file`, `file_path`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from controller_runtime.api.rank_table import Device
from controller_runtime.api.roles import CurrentRole, Role
from controller_runtime.api.status_files import ProcessServer, ProcessStatus, ServerInfo
from controller_runtime.foundation.log import get_logger
from controller_runtime.ms.config import Settings
from controller_runtime.ms.server_registry import KnownServer, ServerRegistry
from controller_runtime.ms.server_spec import Member, Ports, ServerKey, ServerSpec
from controller_runtime.ms.status_files import StatusFile, load_process_status, to_text

log = get_logger(__name__)


class BackupStore(Protocol):
    """Keeps the newest process status."""

    async def load(self) -> ProcessStatus | None: ...

    async def save(self, status: ProcessStatus) -> bool: ...


class FileBackup:
    """The process status file."""

    def __init__(self, file: StatusFile, *, check_permission: bool) -> None:
        self._file = file
        self._check_permission = check_permission

    async def load(self) -> ProcessStatus | None:
        """The file's content, None when there is none that can be used."""
        return await load_process_status(self._file.path, check_permission=self._check_permission)

    async def save(self, status: ProcessStatus) -> bool:
        """Write the file; False when that failed."""
        return await self._file.write(to_text(status))


class NoBackup:
    """`process_manager.to_file` is off: nothing survives."""

    async def load(self) -> ProcessStatus | None:
        """Nothing."""
        return None

    async def save(self, status: ProcessStatus) -> bool:
        """Nothing."""
        return True


def file_backup(settings: Settings) -> BackupStore:
    """The store that the configuration asks for when there is no etcd."""
    manager = settings.config.process_manager
    if not manager.to_file or manager.file_path is None:
        return NoBackup()
    return FileBackup(StatusFile(settings.resolve(manager.file_path), "process_status"), check_permission=settings.checks_permission)


def known_ids(status: ProcessStatus | None, specs: Sequence[ServerSpec]) -> dict[ServerKey, int]:
    """Ids of a backup by Server identity; an entry without a management port counts for the only Server at its address."""
    ids: dict[ServerKey, int] = {}
    for entry in status.server if status else ():
        if entry.mgmt_port:
            ids[(entry.ip, int(entry.mgmt_port))] = entry.id
            continue
        at_address = [spec.key for spec in specs if spec.ip == entry.ip]
        if len(at_address) == 1:
            ids[at_address[0]] = entry.id
    return ids


def restore(registry: ServerRegistry, status: ProcessStatus, now_epoch_s: int) -> None:
    """Give known Servers the roles of a backup; entries that are in no rank table are kept as vanished ones."""
    restored = 0
    for entry in status.server:
        server = registry.get(entry.id)
        if server is None:
            _keep_vanished(registry, entry, now_epoch_s)
            continue
        role = _role_to_keep(server, entry)
        if role is Role.UNDEFINED:
            continue
        server.total_slots, server.total_blocks = entry.static_info.total_slots_num, entry.static_info.total_block_num
        registry.assign(server, role, entry.static_info.group_id, entry.static_info.virtual_id or entry.id, is_joining=False)
        restored += 1
    registry.take_over()
    log.info("roles taken over from the backup", servers=restored, entries=len(status.server))


def rebuild_roles(registry: ServerRegistry) -> dict[int, Role]:
    """Roles that Servers say they have, by id; for when there is no backup but Servers still work."""
    live = {server.id: server.current_role.role for server in registry.present if server.current_role is not CurrentRole.NONE}
    return {server_id: role for server_id, role in live.items() if role in (Role.PREFILL, Role.DECODE)}


def _role_to_keep(server: KnownServer, entry: ProcessServer) -> Role:
    stored, live = entry.static_info.role, server.current_role.role
    if server.spec.has_fixed_role:
        if stored is not server.spec.role:
            log.warning(
                "backup role replaced by the rank table's", server=server.spec.ip, stored=stored.letter, role=server.spec.role.letter
            )
        return server.spec.role
    if live is stored.opposite and live is not stored:
        log.warning("server had already switched its role", server=server.spec.ip, stored=stored.letter, role=live.letter)
        return live
    return stored


def _keep_vanished(registry: ServerRegistry, entry: ProcessServer, now_epoch_s: int) -> None:
    server = KnownServer(id=entry.id, spec=_spec_of(entry), role=entry.static_info.role, group_id=entry.static_info.group_id)
    registry.add(server)
    registry.vanish(server, entry.delete_time or now_epoch_s)


def _spec_of(entry: ProcessServer) -> ServerSpec:
    members = tuple(_member_of(info) for info in entry.server_info_list) or (Member(entry.host_id, entry.ip, True, ()),)
    return ServerSpec(
        ip=entry.ip,
        host_ip=entry.host_id or members[0].host_ip,
        ports=Ports(
            predict=int(entry.port or 0),
            mgmt=int(entry.mgmt_port or 0),
            metric=int(entry.metric_port or 0),
            inter_comm=int(entry.inter_comm_port) if entry.inter_comm_port else None,
        ),
        role=Role.UNDEFINED,
        members=members,
        instance=f"backup/{entry.id}",
        is_distributed=entry.is_distribute,
    )


def _member_of(info: ServerInfo) -> Member:
    devices = tuple(
        Device(
            device_id=device.id,
            device_ip=device.ip,
            device_logical_id=device.logical_id,
            rank_id=str(device.rank_id),
            super_device_id=device.super_device_id,
        )
        for device in info.device_infos
    )
    return Member(info.host_id, info.ip, info.is_master, devices, info.super_pod_id)
