# SPDX-License-Identifier: Apache-2.0
"""What is removed of a stack's state, and what of its neighbours is not."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from pathlib import Path

import pytest

from tools.places import Places
from tools.stack_state import drop_dead_locks, forget_stack


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(tmp_path / "checkout", tmp_path / "cache", tmp_path / "state")


def put(places: Places, path: str, text: str = "{}") -> Path:
    file = places.pulumi_state / ".pulumi" / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def lock(places: Places, stack: str, pid: int, host: str) -> Path:
    return put(places, f"locks/organization/ascend-pd/{stack}/a.json", json.dumps({"pid": pid, "hostname": host}))


def dead_pid() -> int:
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


def test_a_stack_is_forgotten_with_its_backups_and_locks_and_no_other(places: Places) -> None:
    own = [
        put(places, "stacks/ascend-pd/dev.json"),
        put(places, "stacks/ascend-pd/dev.json.bak"),
        put(places, "backups/ascend-pd/dev/dev.1.json"),
        put(places, "history/ascend-pd/dev/dev-1.history.json"),
        put(places, "locks/organization/ascend-pd/dev/a.json"),
    ]
    others = [
        put(places, "stacks/ascend-pd/dev-eu.json"),
        put(places, "stacks/other/dev.json"),
        put(places, "backups/ascend-pd/dev-eu/dev-eu.1.json"),
    ]

    forget_stack(places, "dev")

    assert not [file for file in own if file.exists()]
    assert [file for file in others if not file.exists()] == []


def test_the_lock_of_a_dead_process_of_this_machine_goes_and_every_other_stays(places: Places) -> None:
    here = socket.gethostname()
    left = lock(places, "dev", dead_pid(), here)
    drop_dead_locks(places, "dev")
    assert not left.exists()

    for pid, host in ((os.getpid(), here), (dead_pid(), f"not-{here}")):
        held = lock(places, "dev", pid, host)
        drop_dead_locks(places, "dev")
        assert held.exists()
