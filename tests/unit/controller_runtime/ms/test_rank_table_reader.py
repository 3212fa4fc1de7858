# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from controller_runtime.ms.rank_table import Layout, RankTableReader, diff, parse_table
from controller_runtime.ms.server_spec import ServerSpec
from tests.support.ms_builders import as_bytes, changed, row, rules, spec, table, two_servers


class Volume:
    """A directory that changes the way the kubelet changes a ConfigMap volume."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.path = directory / "global_ranktable.json"
        self._number = 0

    def publish(self, content: dict[str, Any] | bytes) -> None:
        self._number += 1
        version = self.directory / f"..2026_{self._number}"
        version.mkdir()
        (version / self.path.name).write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
        (version / self.path.name).chmod(0o640)
        (self.directory / "..data_tmp").symlink_to(version.name)
        (self.directory / "..data_tmp").replace(self.directory / "..data")
        if not self.path.is_symlink():
            self.path.symlink_to(f"..data/{self.path.name}")


@pytest.fixture
def volume(tmp_path: Path) -> Volume:
    return Volume(tmp_path)


@pytest.fixture
def reader(volume: Volume) -> RankTableReader:
    return RankTableReader(volume.path, rules(), check_permission=True)


def addresses(reader: RankTableReader) -> list[str]:
    return [server.ip for server in reader.layout.servers] if reader.layout else []


async def test_a_swapped_volume_is_noticed(volume: Volume, reader: RankTableReader) -> None:
    volume.publish(two_servers())
    assert await reader.poll()
    assert addresses(reader) == ["127.0.0.2", "127.0.0.3"]
    assert not await reader.poll()

    volume.publish(table({"group_id": "2", "server_list": [row("127.0.0.9")]}))
    assert await reader.poll()
    assert addresses(reader) == ["127.0.0.9"]


@pytest.mark.parametrize(
    "bad",
    [
        b"{",
        b"",
        json.dumps(changed(two_servers(), "2/server_list/0/server_ip", "x")).encode(),
        json.dumps({"status": "completed"}).encode(),
    ],
)
async def test_a_bad_table_keeps_the_previous_one_and_is_logged_once(volume: Volume, reader: RankTableReader, bad: bytes) -> None:
    volume.publish(two_servers())
    await reader.poll()
    volume.publish(bad)

    with capture_logs() as logs:
        assert not await reader.poll()
        assert not await reader.poll()

    assert addresses(reader) == ["127.0.0.2", "127.0.0.3"]
    assert len([line for line in logs if line["event"] == "rank table not used"]) == 1
    assert "previous one stays active" in reader.waits_for


async def test_a_table_that_is_not_completed_keeps_the_previous_one(volume: Volume, reader: RankTableReader) -> None:
    volume.publish(two_servers() | {"status": "initializing"})
    assert not await reader.poll()
    assert reader.layout is None
    assert "not completed" in reader.waits_for

    volume.publish(two_servers())
    assert await reader.poll()
    assert reader.waits_for == ""


async def test_a_missing_file_is_waited_for(volume: Volume, reader: RankTableReader) -> None:
    assert not await reader.poll()
    assert "No such file" in reader.waits_for

    volume.publish(two_servers())
    assert await reader.poll()


async def test_a_file_that_others_may_write_is_not_used(volume: Volume, reader: RankTableReader) -> None:
    volume.publish(two_servers())
    volume.path.chmod(0o666)

    assert not await reader.poll()
    assert "mode 0666" in reader.waits_for

    volume.path.chmod(0o640)
    assert await reader.poll()


async def test_the_same_servers_in_new_bytes_are_no_change(volume: Volume, reader: RankTableReader) -> None:
    volume.publish(two_servers())
    await reader.poll()
    volume.publish(two_servers() | {"version": "2.0"})

    assert not await reader.poll()


specs = st.lists(st.integers(1, 12), unique=True, max_size=12).map(lambda numbers: tuple(spec(number) for number in numbers))


@given(specs, specs)
def test_a_difference_applied_gives_the_new_table(old: tuple[ServerSpec, ...], new: tuple[ServerSpec, ...]) -> None:
    change = diff({each.key: each for each in old}, Layout((), new))

    left = {each.key for each in old} - set(change.removed)
    assert left == {each.key for each in change.kept}
    assert left | {each.key for each in change.added} == {each.key for each in new}
    assert not left & {each.key for each in change.added}


def test_a_server_with_other_devices_is_removed_and_added() -> None:
    before = parse_table(as_bytes(two_servers()), rules(), "t")
    after = parse_table(as_bytes(changed(two_servers(), "2/server_list/0/device/0/device_ip", "172.16.9.9")), rules(), "t")
    assert before is not None
    assert after is not None

    change = diff({each.key: each for each in before.servers}, after)

    assert change.removed == (("127.0.0.2", 1026),)
    assert [each.key for each in change.added] == [("127.0.0.2", 1026)]
    assert [each.key for each in change.kept] == [("127.0.0.3", 1026)]
