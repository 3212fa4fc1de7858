# SPDX-License-Identifier: Apache-2.0
"""On folders that look like the two kernel layouts; the real kernel's answers are seen in tests/lab."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab import cgroups
from lab.cgroups import CgroupV1, CgroupV2


@pytest.fixture
def v1(tmp_path: Path) -> Path:
    """Two controllers, a link to one, and the hybrid mode's unified tree."""
    for name in ("memory", "cpuset", "unified"):
        (tmp_path / name).mkdir()
    (tmp_path / "cpuset" / "cpuset.cpus").write_text("0-1\n")
    (tmp_path / "cpuset" / "cpuset.mems").write_text("0\n")
    (tmp_path / "alias").symlink_to(tmp_path / "memory")
    return tmp_path


@pytest.fixture
def v2(tmp_path: Path) -> Path:
    """The unified tree, with the control files of three groups in place as the kernel makes them."""
    for folder in (tmp_path, tmp_path / "apd4", tmp_path / "apd4" / "node1"):
        folder.mkdir(exist_ok=True)
        (folder / "cgroup.controllers").write_text("cpu memory pids\n")
        (folder / "cgroup.subtree_control").write_text("cpu\n")
    return tmp_path


def test_the_layout_is_recognised(v1: Path) -> None:
    assert isinstance(cgroups.detect(v1), CgroupV1)
    (v1 / "cgroup.controllers").touch()
    assert isinstance(cgroups.detect(v1), CgroupV2)


def test_v1_makes_the_group_under_every_controller_with_cpus_copied_down(v1: Path) -> None:
    CgroupV1(v1).create("apd4/node1")

    assert (v1 / "memory" / "apd4" / "node1" / "sys").is_dir()
    assert (v1 / "cpuset" / "apd4" / "node1" / "sys" / "cpuset.cpus").read_text() == "0-1\n"
    assert not (v1 / "unified" / "apd4").exists()
    assert CgroupV1(v1).join_files("apd4/node1") == [v1 / name / "apd4/node1/sys/cgroup.procs" for name in ("cpuset", "memory")]


def test_v1_also_removes_what_runc_made_in_the_unified_tree(v1: Path) -> None:
    (v1 / "unified" / "apd4" / "node1" / "kubepods").mkdir(parents=True)

    cgroups.remove(CgroupV1(v1), "apd4")

    assert list((v1 / "unified").iterdir()) == []


def test_v2_hands_every_controller_down_to_the_machine_but_not_to_its_leaf(v2: Path) -> None:
    CgroupV2(v2).create("apd4/node1")

    for folder in (v2, v2 / "apd4", v2 / "apd4" / "node1"):
        assert (folder / "cgroup.subtree_control").read_text() == "+memory +pids"
    assert (v2 / "apd4" / "node1" / "sys").is_dir()
    assert not (v2 / "apd4" / "node1" / "sys" / "cgroup.subtree_control").exists()
    assert CgroupV2(v2).join_files("apd4/node1") == [v2 / "apd4/node1/sys/cgroup.procs"]


def test_v2_writes_nothing_where_the_controllers_are_already_handed_down(v2: Path) -> None:
    (v2 / "cgroup.subtree_control").write_text("cpu memory pids\n")

    CgroupV2(v2).create("apd4/node1")

    assert (v2 / "cgroup.subtree_control").read_text() == "cpu memory pids\n"


def test_processes_of_a_machine_are_collected_from_all_groups_below(v1: Path) -> None:
    for place, content in (
        ("memory/apd4/node1/sys", "10\n11\n"),
        ("cpuset/apd4/node1/kubepods/x", "11\n12\n"),
        ("memory/apd4/node2", "99\n"),
    ):
        (v1 / place).mkdir(parents=True)
        (v1 / place / "cgroup.procs").write_text(content)

    assert cgroups.pids(CgroupV1(v1), "apd4/node1") == {10, 11, 12}
    assert cgroups.machines(CgroupV1(v1), "apd4") == ["node1", "node2"]
    assert cgroups.pids(CgroupV1(v1), "apd5") == set()


@pytest.mark.parametrize(("tree", "place", "key"), [(CgroupV1, "memory/apd4/node1", "total_rss"), (CgroupV2, "apd4/node1", "anon")])
def test_anonymous_memory_is_read_from_the_kernels_statistics(
    tmp_path: Path, tree: type[CgroupV1 | CgroupV2], place: str, key: str
) -> None:
    assert tree(tmp_path).anonymous_bytes("apd4/node1") == 0
    (tmp_path / place).mkdir(parents=True)
    (tmp_path / place / "memory.stat").write_text(f"file 1\n{key} 4096\nother 2\n")

    assert tree(tmp_path).anonymous_bytes("apd4/node1") == 4096
