# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os

import pytest

from lab import __main__ as command_line


@pytest.mark.parametrize(
    ("argv", "own", "foreign"),
    [
        (["kubectl", "-n", "x", "get", "pods"], ["kubectl"], ["-n", "x", "get", "pods"]),
        (["--name", "test", "exec", "node1", "--", "ls", "-l"], ["--name", "test", "exec", "node1"], ["ls", "-l"]),
        (["--name=test", "exec", "node1", "ls"], ["--name=test", "exec", "node1"], ["ls"]),
        (["--name", "test", "status", "--json"], ["--name", "test", "status", "--json"], []),
        ([], [], []),
    ],
)
def test_words_for_another_program_are_split_off(argv: list[str], own: list[str], foreign: list[str]) -> None:
    assert command_line.split_words(argv) == (own, foreign)


def test_without_root_the_other_way_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    assert command_line.main(["status"]) == 1
    assert "set KUBECONFIG" in capsys.readouterr().err


@pytest.mark.parametrize(
    "command", ["up", "down", "status", "kill-node", "start-node", "cut", "join", "exec", "kubeconfig", "load", "kubectl"]
)
def test_every_command_explains_itself_to_anybody(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    argv = [command, "--help"] if command not in ("exec", "kubectl") else ["--help"]

    with pytest.raises(SystemExit) as ended:
        command_line.main(argv)

    assert ended.value.code == 0
    assert command in capsys.readouterr().out
