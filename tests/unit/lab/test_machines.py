# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import shlex

import pytest

from lab.errors import LabError
from lab.machines import Machine, daemon
from lab.state import Lab


def test_words_of_a_daemon_reach_it_unchanged() -> None:
    line = daemon("etcd", "/bin dir/etcd", "--flag=a b", "$HOME")

    assert shlex.split(line) == ["supervise", "etcd", "/bin dir/etcd", "--flag=a b", "$HOME"]


@pytest.mark.parametrize("content", ["", "None", str(os.getpid())], ids=["empty", "no number", "a foreign process"])
def test_a_stale_pid_file_does_not_make_a_machine_alive(lab: Lab, content: str) -> None:
    lab.root.mkdir(parents=True)
    (lab.root / "node1.pid").write_text(content)
    machine = Machine(lab, "node1", None)

    assert not machine.is_alive()
    with pytest.raises(LabError, match="node1 is down"):
        machine.enter(["true"])
