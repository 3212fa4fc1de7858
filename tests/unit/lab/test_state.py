# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from lab import state
from lab.errors import LabError
from lab.state import Lab


def test_a_saved_lab_is_read_back_whole(lab: Lab, tmp_path: Path) -> None:
    lab.save()

    assert state.load("mine", tmp_path) == lab
    assert state.known(tmp_path) == [lab]


def test_a_lab_that_was_never_saved_is_unknown(tmp_path: Path) -> None:
    assert state.load("mine", tmp_path) is None
    assert state.known(tmp_path) == []


def test_the_recorded_number_needs_not_be_repeated(lab: Lab, tmp_path: Path) -> None:
    lab.save()

    assert state.choose_number("mine", None, tmp_path) == 4


def test_a_number_of_another_lab_is_refused(lab: Lab, tmp_path: Path) -> None:
    lab.save()

    with pytest.raises(LabError, match="in use by lab mine"):
        state.choose_number("yours", 4, tmp_path)


@pytest.mark.parametrize("name", ["", "../dev", "Dev", "1st", "a" * 32])
def test_a_name_that_is_no_folder_name_is_refused(name: str) -> None:
    with pytest.raises(LabError, match="is not allowed"):
        state.state_folder(name)


def test_an_unknown_node_is_refused_with_the_known_ones(lab: Lab) -> None:
    with pytest.raises(LabError, match=r"no node node9\. It has node1, node2"):
        lab.node("node9")


def test_two_commands_on_one_lab_take_turns(lab: Lab, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lab.save()
    order: list[str] = []
    waiting = threading.Event()

    def second() -> None:
        waiting.set()
        with state.exclusive("mine", tmp_path):
            order.append("second")

    with state.exclusive("mine", tmp_path):
        other = threading.Thread(target=second)
        other.start()
        waiting.wait(5)
        other.join(0.1)
        order.append("first")
    other.join(5)

    assert order == ["first", "second"]
    assert "waiting for another command on mine" in capsys.readouterr().out


def test_the_lock_leaves_no_file_when_the_lab_is_gone(lab: Lab, tmp_path: Path) -> None:
    with state.exclusive("mine", tmp_path):
        pass
    assert list((tmp_path / "lab").iterdir()) == []

    replace(lab).save()
    with state.exclusive("mine", tmp_path):
        pass
    assert (tmp_path / "lab" / ".mine.lock").exists()
