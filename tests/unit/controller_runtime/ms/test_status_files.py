# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from controller_runtime.api.roles import Label, Role
from controller_runtime.api.status_files import ClusterStatus, ProcessStatus
from controller_runtime.ms.status_files import StatusFile, cluster_status, load_process_status, process_status, to_text
from tests.support.ms_builders import cluster, serve

SEED_STATIC = {"group_id": 0, "label": 2, "role": 80, "total_block_num": 320, "total_slots_num": 200}
SEED_ENTRY: dict[str, Any] = {
    "delete_time": 0,
    "id": 16781740,
    "ip": "172.17.0.1",
    "is_faulty": False,
    "is_initialized": True,
    "peers": [50336172],
    "static_info": SEED_STATIC,
}


def write(path: Path, *entries: dict[str, Any]) -> Path:
    path.write_text(json.dumps({"server": list(entries)}))
    path.chmod(0o640)
    return path


async def test_a_written_backup_is_read_back_whole(tmp_path: Path) -> None:
    registry, _, _ = cluster(1, 2)
    serve(registry)
    written = process_status(registry)

    await StatusFile(tmp_path / "logs" / "process.json", "process").write(to_text(written))

    assert await load_process_status(tmp_path / "logs" / "process.json", check_permission=True) == written
    assert [(entry.static_info.role, entry.peers) for entry in written.server] == [
        (Role.PREFILL, (2, 3)),
        (Role.DECODE, (1,)),
        (Role.DECODE, (1,)),
    ]


async def test_a_backup_with_only_the_manuals_fields_is_accepted(tmp_path: Path) -> None:
    status = await load_process_status(write(tmp_path / "p.json", SEED_ENTRY), check_permission=True)

    assert status is not None
    assert (status.server[0].static_info.label, status.server[0].mgmt_port) == (Label.PREFILL_STATIC, "")


@pytest.mark.parametrize(
    "change",
    [
        {"delete_time": -1},
        {"is_faulty": 0},
        {"peers": list(range(769))},
        {"static_info": {**SEED_STATIC, "role": 81}},
        {"static_info": {**SEED_STATIC, "label": 5}},
        {"static_info": {**SEED_STATIC, "total_slots_num": 5001}},
    ],
)
async def test_a_backup_out_of_range_is_not_used(tmp_path: Path, change: dict[str, Any]) -> None:
    assert await load_process_status(write(tmp_path / "p.json", {**SEED_ENTRY, **change}), check_permission=True) is None


async def test_a_missing_broken_or_unsafe_backup_is_not_used(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    assert await load_process_status(path, check_permission=True) is None

    path.write_text("{")
    path.chmod(0o640)
    assert await load_process_status(path, check_permission=True) is None

    write(path, SEED_ENTRY).chmod(0o666)
    assert await load_process_status(path, check_permission=True) is None
    assert await load_process_status(path, check_permission=False) is not None


async def test_the_cluster_status_lists_faulty_servers_last_and_peers_as_addresses() -> None:
    registry, [prefill], _ = cluster(1, 2)
    serve(registry)
    registry.mark_faulty([prefill])

    status = cluster_status(registry, {"10.1.0.1": True, "10.1.0.2": False})

    assert [server.ip for server in status.server] == ["10.0.0.2", "10.0.0.3", "10.0.0.1"]
    assert [server.is_faulty for server in status.server] == [False, False, True]
    assert status.server[2].peers == ("10.0.0.2", "10.0.0.3")
    assert [(one.ip, one.is_healthy) for one in status.coordinator] == [("10.1.0.1", True), ("10.1.0.2", False)]
    assert ClusterStatus.model_validate_json(to_text(status)) == status


def test_the_text_is_sorted_and_indented_by_four() -> None:
    model = ProcessStatus.model_validate({"server": [SEED_ENTRY]})
    plain = model.model_dump(mode="json", by_alias=True, exclude_none=True)

    assert to_text(model).decode() == json.dumps(plain, indent=4, sort_keys=True) + "\n"


async def test_an_unchanged_text_is_not_written_again(tmp_path: Path) -> None:
    file = StatusFile(tmp_path / "s.json", "s")
    await file.write(b"one")
    first = os.stat(file.path).st_ino

    assert await file.write(b"one")
    assert os.stat(file.path).st_ino == first
    assert await file.write(b"two")
    assert file.path.read_bytes() == b"two"
    assert os.stat(file.path).st_mode & 0o777 == 0o640


async def test_a_failed_write_is_reported_and_tried_again(tmp_path: Path) -> None:
    blocker = tmp_path / "logs"
    blocker.write_text("a file where a directory should be")
    file = StatusFile(blocker / "s.json", "s")
    assert not await file.write(b"one")

    blocker.unlink()

    assert await file.write(b"one")


@pytest.mark.parametrize("field", ["port", "mgmt_port", "metric_port", "inter_comm_port"])
@pytest.mark.parametrize("value", ["http", "-1", "65536", "1e3"])
async def test_a_backup_with_a_port_that_is_none_is_not_used(tmp_path: Path, field: str, value: str) -> None:
    path = write(tmp_path / "p.json", {**SEED_ENTRY, field: value})

    with capture_logs() as logs:
        assert await load_process_status(path, check_permission=True) is None

    assert [line["event"] for line in logs] == ["process status not used"]


async def test_an_unreadable_backup_is_not_used(tmp_path: Path) -> None:
    directory, binary = tmp_path / "p.json", tmp_path / "q.json"
    directory.mkdir()
    binary.write_bytes(b"\xff\xfe")
    binary.chmod(0o640)

    for path in (directory, binary, binary / "below"):
        with capture_logs() as logs:
            assert await load_process_status(path, check_permission=True) is None
        assert [line["event"] for line in logs] == ["process status not used"]
