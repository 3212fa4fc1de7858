# SPDX-License-Identifier: Apache-2.0
"""What the user has installed is used when, and only when, its version is the pinned one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.tool_workshop import Workshop, write_executable
from tools.catalogue import KUBERNETES, PULUMI, Binary, select
from tools.installed import find_installed


@pytest.fixture
def user_bin(workshop: Workshop, tmp_path: Path) -> Path:
    """A folder of the user's, the only one on PATH besides the shell's."""
    folder = tmp_path / "user" / "bin"
    workshop.environ["PATH"] = f"{folder}:/usr/bin:/bin"
    return folder


def row(name: str) -> Binary:
    return select([name])[0]


def test_right_version_on_path_is_used_without_go(workshop: Workshop, user_bin: Path) -> None:
    mine = write_executable(user_bin / "kubectl", f'echo "Client Version: {KUBERNETES}"; echo "Kustomize Version: v5"')
    workshop.add_family("kubernetes")
    (outcome,) = workshop.build(row("kubectl"))
    assert (outcome.how, outcome.path) == ("installed", mine)
    assert (workshop.places.bin / "kubectl").samefile(mine)


@pytest.mark.parametrize("answer", [f"{PULUMI}1", "v3.200.0", ""])
def test_other_version_is_not_used(workshop: Workshop, user_bin: Path, answer: str) -> None:
    write_executable(user_bin / "pulumi", f"echo '{answer}'")
    assert find_installed(row("pulumi"), workshop.environ, workshop.places) is None


def test_later_folder_of_path_with_the_right_version_is_used(workshop: Workshop, user_bin: Path, tmp_path: Path) -> None:
    write_executable(user_bin / "pulumi", "echo v3.0.0")
    right = write_executable(tmp_path / "other" / "pulumi", f"echo {PULUMI}")
    workshop.environ["PATH"] += f":{right.parent}"
    assert find_installed(row("pulumi"), workshop.environ, workshop.places) == right


def test_own_links_on_path_are_no_installation(workshop: Workshop, user_bin: Path) -> None:
    ours = write_executable(workshop.places.bin / "pulumi", f"echo {PULUMI}")
    workshop.environ["PATH"] = f"{ours.parent}:{workshop.environ['PATH']}"
    assert find_installed(row("pulumi"), workshop.environ, workshop.places) is None


def test_plugin_of_the_users_pulumi_home_is_used(workshop: Workshop) -> None:
    folder = Path(workshop.environ["HOME"]) / ".pulumi" / "plugins"
    plugin = write_executable(folder / "resource-tls-v5.5.1" / "pulumi-resource-tls", "exit 0")
    assert find_installed(row("pulumi-resource-tls"), workshop.environ, workshop.places) == plugin


def test_plugin_of_another_version_is_not_used(workshop: Workshop) -> None:
    folder = Path(workshop.environ["HOME"]) / ".pulumi" / "plugins"
    write_executable(folder / "resource-tls-v5.5.2" / "pulumi-resource-tls", "exit 0")
    assert find_installed(row("pulumi-resource-tls"), workshop.environ, workshop.places) is None


def test_language_host_is_used_only_with_its_whole_bundle_beside_an_accepted_pulumi(workshop: Workshop, user_bin: Path) -> None:
    host = row("pulumi-language-python")
    for name in host.files:
        write_executable(user_bin / name, "exit 0")
    assert find_installed(host, workshop.environ, workshop.places) is None
    write_executable(user_bin / "pulumi", f"echo {PULUMI}")
    assert find_installed(host, workshop.environ, workshop.places) == user_bin / host.name
    (user_bin / "pulumi-language-python-exec").unlink()
    assert find_installed(host, workshop.environ, workshop.places) is None


def test_node_binaries_are_never_taken_from_path(workshop: Workshop, user_bin: Path) -> None:
    write_executable(user_bin / "etcd", "echo 3.6.16")
    assert find_installed(row("etcd"), workshop.environ, workshop.places) is None
