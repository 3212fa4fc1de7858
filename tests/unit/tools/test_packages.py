# SPDX-License-Identifier: Apache-2.0
"""Missing packages are found by what they provide, and the exact command is given when they cannot be installed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.tool_workshop import write_executable
from tools import packages
from tools.errors import ToolsError
from tools.packages import install_packages, is_debian, missing_packages


def test_package_is_present_when_its_command_or_file_is_there(tmp_path: Path) -> None:
    write_executable(tmp_path / "bin" / "present-command", "exit 0")
    (tmp_path / "plugin").touch()
    needed = {"a": "present-command", "b": "absent-command", "c": str(tmp_path / "plugin"), "d": str(tmp_path / "absent")}
    assert missing_packages({"PATH": str(tmp_path / "bin")}, needed) == ["b", "d"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ID=debian\n", True),
        ('ID=ubuntu\nID_LIKE="debian"\n', True),
        ('ID="mint"\nID_LIKE="ubuntu debian"\n', True),
        ("ID=fedora\nNAME=debian\n", False),
    ],
)
def test_debian_and_its_children_are_recognised(tmp_path: Path, text: str, expected: bool) -> None:
    (tmp_path / "os-release").write_text(text)
    assert is_debian(tmp_path / "os-release") is expected


def test_system_without_os_release_is_not_debian(tmp_path: Path) -> None:
    assert not is_debian(tmp_path / "absent")


def test_switched_off_installation_prints_the_exact_command() -> None:
    with pytest.raises(ToolsError) as caught:
        install_packages(["socat", "ipset"], {"SETUP_APT": "0"}, print)
    assert "SETUP_APT=0 is set" in str(caught.value)
    assert str(caught.value).endswith("apt-get update && apt-get install -y --no-install-recommends socat ipset")


def test_other_system_prints_the_exact_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "is_debian", lambda: False)
    with pytest.raises(ToolsError, match=r"not Debian.*\n.*install -y --no-install-recommends socat"):
        install_packages(["socat"], {}, print)


def test_ordinary_user_prints_the_exact_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "is_debian", lambda: True)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(ToolsError, match=r"not root.*\n.*install -y --no-install-recommends socat"):
        install_packages(["socat"], {}, print)


@pytest.fixture
def as_root_on_debian(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "is_debian", lambda: True)
    monkeypatch.setattr(os, "geteuid", lambda: 0)


@pytest.mark.usefixtures("as_root_on_debian")
def test_root_on_debian_updates_then_installs_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "log"
    write_executable(tmp_path / "apt-get", f'echo "$DEBIAN_FRONTEND $*" >> {log}')
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    said: list[str] = []
    install_packages(["socat", "ipset"], dict(os.environ), said.append)
    assert said == ["installing missing packages: socat ipset"]
    assert log.read_text().splitlines() == [
        "noninteractive update -q",
        "noninteractive install -y -q --no-install-recommends socat ipset",
    ]


@pytest.mark.usefixtures("as_root_on_debian")
def test_failure_of_apt_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_executable(tmp_path / "apt-get", "echo 'E: no mirror' >&2; exit 100")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(ToolsError, match=r"E: no mirror\n\napt-get update failed"):
        install_packages(["socat"], dict(os.environ), print)
