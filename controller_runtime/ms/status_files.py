# SPDX-License-Identifier: Apache-2.0
"""Turn the registry into the two status files and back; keep them on disk.

A reader sees a whole file or the previous one. A failed write is one error line and never stops the controller.
Seed: controller manual, process backup file (table 2), cluster status file (table 3).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import orjson
from prometheus_client import Counter
from pydantic import BaseModel, ValidationError

from controller_runtime.api.status_files import (
    ClusterCoordinator,
    ClusterDynamicInfo,
    ClusterServer,
    ClusterStaticInfo,
    ClusterStatus,
    DeviceInfo,
    ProcessDynamicInfo,
    ProcessServer,
    ProcessStaticInfo,
    ProcessStatus,
    ServerInfo,
)
from controller_runtime.foundation.atomic_file import write_atomic
from controller_runtime.foundation.log import get_logger
from controller_runtime.foundation.metrics import REGISTRY
from controller_runtime.ms.file_check import DATA_MODE, file_problem
from controller_runtime.ms.server_registry import KnownServer, ServerRegistry
from controller_runtime.ms.server_spec import Member

DEEPEST_LEVEL = 12

log = get_logger(__name__)

_writes = Counter("ms_status_file_writes_total", "Writes of status files.", ["file", "result"], registry=REGISTRY)


def process_status(registry: ServerRegistry) -> ProcessStatus:
    """What a restarted controller needs to know."""
    return ProcessStatus(server=tuple(_process_server(server, registry) for server in registry))


def cluster_status(registry: ServerRegistry, coordinators: Mapping[str, bool]) -> ClusterStatus:
    """What a person wants to see: usable Servers first, then faulty ones, each by id."""
    addresses = {server.id: server.spec.ip for server in registry}
    ordered = sorted(registry, key=lambda server: (server.is_faulty, server.id))
    return ClusterStatus(
        coordinator=tuple(ClusterCoordinator(ip=ip, is_healthy=is_healthy) for ip, is_healthy in coordinators.items()),
        server=tuple(_cluster_server(server, registry, addresses) for server in ordered),
    )


def to_text(model: BaseModel) -> bytes:
    """JSON as the manual shows it: keys sorted, four spaces a level."""
    data = orjson.dumps(model.model_dump(mode="json", by_alias=True, exclude_none=True), option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS)
    for level in range(DEEPEST_LEVEL, 0, -1):
        data = data.replace(b"\n" + b"  " * level, b"\n" + b"\0\0\0\0" * level)
    return data.replace(b"\0", b" ") + b"\n"


class StatusFile:
    """One file on disk, written when its content differs from what was written last."""

    def __init__(self, path: Path, name: str) -> None:
        self.path = path
        self._name = name
        self._written = b""
        self._has_failed = False

    async def write(self, data: bytes) -> bool:
        """Replace the content; False when it could not be written."""
        if data == self._written:
            return True
        try:
            await asyncio.to_thread(self._write, data)
        except OSError as error:
            _writes.labels(self._name, "failed").inc()
            if not self._has_failed:
                log.error("status file not written", path=str(self.path), err=error)
            self._has_failed = True
            return False
        _writes.labels(self._name, "ok").inc()
        self._written, self._has_failed = data, False
        return True

    def _write(self, data: bytes) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(self.path, data)


async def load_process_status(path: Path, *, check_permission: bool) -> ProcessStatus | None:
    """The backup on disk; None, with a reason in the log, when there is none that can be used."""
    return await asyncio.to_thread(_load, path, check_permission)


def parse_process_status(data: bytes, where: str) -> ProcessStatus | None:
    """Parse a backup; None, with a reason in the log, when it is not valid."""
    try:
        return ProcessStatus.model_validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "whole file"
        log.error("process status not used", where=where, err=f"{place}: {first['msg']}. Delete it, or restart all Servers.")
        return None


def _load(path: Path, check_permission: bool) -> ProcessStatus | None:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        log.info("no process status", path=str(path))
        return None
    except OSError as error:
        log.error("process status not used", where=str(path), err=f"{error.strerror}. Make it readable, or delete it.")
        return None
    if check_permission and (problem := file_problem(str(path), allowed_mode=DATA_MODE, check_permission=True)):
        log.error("process status not used", where=str(path), err=problem)
        return None
    return parse_process_status(data, str(path))


def _process_server(server: KnownServer, registry: ServerRegistry) -> ProcessServer:
    spec, config = server.spec, server.config
    return ProcessServer(
        delete_time=server.delete_time,
        id=server.id,
        ip=spec.ip,
        is_faulty=server.is_faulty,
        is_initialized=server.is_initialized,
        peers=registry.wiring_of(server).peers,
        static_info=ProcessStaticInfo(
            group_id=server.group_id,
            label=server.label,
            role=server.role,
            total_block_num=server.total_blocks,
            total_slots_num=server.total_slots,
            id=server.id,
            virtual_id=server.virtual_id,
            max_seq_len=config.max_seq_len if config else 0,
            max_output_len=config.max_output_len if config else 0,
            block_size=config.cache_block_size if config else 0,
        ),
        host_id=spec.host_ip,
        port=str(spec.ports.predict),
        mgmt_port=str(spec.ports.mgmt),
        metric_port=str(spec.ports.metric),
        inter_comm_port="" if spec.ports.inter_comm is None else str(spec.ports.inter_comm),
        is_healthy=server.is_healthy,
        is_distribute=spec.is_distributed,
        role_state=server.role_state,
        model_name=config.model_name if config else "",
        current_role=server.current_role.role,
        active_peers=tuple(sorted(server.active_peers)),
        dp_group_peers=tuple(other.id for other in registry.instance_of(server)),
        dynamic_info=ProcessDynamicInfo(avail_slots_num=server.resource.avail_slots_num, avail_block_num=server.resource.avail_block_num),
        server_info_list=tuple(_server_info(member) for member in spec.members),
    )


def _server_info(member: Member) -> ServerInfo:
    return ServerInfo(
        host_id=member.host_ip,
        ip=member.ip,
        is_master=member.is_master,
        super_pod_id=member.super_pod_id,
        device_infos=tuple(
            DeviceInfo(
                id=device.device_id,
                ip=device.device_ip,
                logical_id=device.device_logical_id,
                rank_id=int(device.rank_id or 0),
                super_device_id=device.super_device_id,
            )
            for device in member.devices
        ),
    )


def _cluster_server(server: KnownServer, registry: ServerRegistry, addresses: Mapping[int, str]) -> ClusterServer:
    config, resource = server.config, server.resource
    return ClusterServer(
        delete_time=server.delete_time,
        ip=server.spec.ip,
        is_faulty=server.is_faulty,
        is_healthy=server.is_healthy,
        model_name=config.model_name if config else "",
        peers=tuple(addresses[peer] for peer in registry.wiring_of(server).peers if peer in addresses),
        static_info=ClusterStaticInfo(
            group_id=server.group_id,
            label=server.label,
            role=server.role,
            block_size=config.cache_block_size if config else 0,
            max_output_len=config.max_output_len if config else 0,
            max_seq_len=config.max_seq_len if config else 0,
            total_block_num=server.total_blocks,
            total_slots_num=server.total_slots,
            virtual_id=server.virtual_id,
        ),
        dynamic_info=ClusterDynamicInfo(**resource.model_dump()),
    )
