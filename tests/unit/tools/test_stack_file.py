# SPDX-License-Identifier: Apache-2.0
"""The working stack file follows the tracked one and keeps what belongs to the state."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.places import Places
from tools.stack_file import write_stack_file


@pytest.fixture
def places(tmp_path: Path) -> Places:
    (tmp_path / "Pulumi.dev.yaml").write_text("config:\n  a: 1\n")
    return Places(checkout=tmp_path, cache=tmp_path / "cache", state=tmp_path / "state")


def test_the_first_copy_is_the_tracked_file(places: Places) -> None:
    assert write_stack_file(places, "dev").read_text() == "config:\n  a: 1\n"


def test_a_changed_tracked_file_replaces_the_copy_but_not_the_salt(places: Places) -> None:
    working = write_stack_file(places, "dev")
    working.write_text("config:\n  a: 1\nencryptionsalt: v1:x\n")
    (places.checkout / "Pulumi.dev.yaml").write_text("config:\n  a: 2\n")

    write_stack_file(places, "dev")

    assert working.read_text() == "config:\n  a: 2\nencryptionsalt: v1:x\n"


def test_an_unchanged_tracked_file_leaves_local_settings_alone(places: Places) -> None:
    working = write_stack_file(places, "dev")
    working.write_text("config:\n  a: 3\nencryptionsalt: v1:x\n")

    write_stack_file(places, "dev")

    assert "a: 3" in working.read_text()
