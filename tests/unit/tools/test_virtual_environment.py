# SPDX-License-Identifier: Apache-2.0
"""The environment is brought up to date when, and only when, something it is made from has changed.

A shell script stands in for the environment's Python and writes down what it is asked to do.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.tool_workshop import write_executable
from tools.errors import ToolsError
from tools.places import Places
from tools.virtual_environment import ensure_virtual_environment, is_current

pytestmark = pytest.mark.process

PROJECT = '[project]\nname = "x"\nversion = "1"\n'


class Environment:
    def __init__(self, root: Path) -> None:
        self.places = Places(checkout=root, cache=root / "cache", state=root / "state")
        self.log = root / "log"
        (root / "requirements").mkdir()
        self.places.dev_lock.write_text("a==1 --hash=sha256:00\n")
        self.places.pyproject.write_text(PROJECT)
        write_executable(self.places.venv_python, f'echo "$*" >> {self.log}')
        (self.places.venv / "pyvenv.cfg").write_text("home = /usr/bin\nversion = 3.11.2\n")

    def ensure(self) -> tuple[bool, list[str]]:
        """Return whether something was done, and what pip was asked for."""
        self.log.write_text("")
        changed = ensure_virtual_environment(self.places, lambda _text: None)
        return changed, [line for line in self.log.read_text().splitlines() if line.startswith("-m pip")]


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    return Environment(tmp_path)


def test_lock_is_installed_with_hashes_and_the_project_without_network(environment: Environment) -> None:
    changed, asked = environment.ensure()
    assert changed
    assert len(asked) == 2
    assert f"--require-hashes --requirement {environment.places.dev_lock}" in asked[0]
    assert "--no-index --no-deps --no-build-isolation --editable" in asked[1]


def test_current_environment_costs_nothing(environment: Environment) -> None:
    environment.ensure()
    assert is_current(environment.places)
    assert environment.ensure() == (False, [])


def test_changed_lock_is_installed(environment: Environment) -> None:
    environment.ensure()
    environment.places.dev_lock.write_text("a==2 --hash=sha256:01\n")
    assert not is_current(environment.places)
    changed, asked = environment.ensure()
    assert changed
    assert "--require-hashes" in asked[0]


def test_changed_entry_point_installs_only_the_project(environment: Environment) -> None:
    environment.ensure()
    environment.places.pyproject.write_text(PROJECT + '[project.scripts]\nx = "x:main"\n')
    changed, asked = environment.ensure()
    assert changed
    assert len(asked) == 1
    assert "--editable" in asked[0]


def test_changed_lint_rule_installs_nothing(environment: Environment) -> None:
    environment.ensure()
    environment.places.pyproject.write_text(PROJECT + "[tool.ruff]\nline-length = 100\n")
    assert environment.ensure() == (False, [])


def test_damaged_stamp_is_no_stamp(environment: Environment) -> None:
    environment.ensure()
    (environment.places.venv / ".ascend-pd.json").write_text("{")
    assert not is_current(environment.places)


def test_missing_environment_is_not_current(environment: Environment) -> None:
    environment.ensure()
    environment.places.venv_python.unlink()
    assert not is_current(environment.places)


def test_failure_of_pip_is_shown_and_leaves_no_stamp(environment: Environment) -> None:
    write_executable(environment.places.venv_python, "echo 'hash mismatch' >&2; exit 1")
    with pytest.raises(ToolsError, match=r"hash mismatch\n[\s\S]*run `make setup` again"):
        ensure_virtual_environment(environment.places, lambda _text: None)
    assert not is_current(environment.places)


def test_environment_of_an_old_python_is_refused_not_deleted(environment: Environment) -> None:
    (environment.places.venv / "pyvenv.cfg").write_text("version = 3.9.2\n")
    with pytest.raises(ToolsError, match=r"made with Python 3\.9, 3\.11 or newer is needed\. Remove the folder"):
        ensure_virtual_environment(environment.places, lambda _text: None)
    assert environment.places.venv_python.exists()


def test_new_environment_is_created_with_the_running_python(environment: Environment) -> None:
    """`-m venv` is real here; pip fails on the false hash, after the environment was made."""
    environment.places.venv_python.unlink()
    environment.places.dev_lock.write_text("./absent.whl --hash=sha256:00\n")
    with pytest.raises(ToolsError, match="PIP_INDEX_URL"):
        ensure_virtual_environment(environment.places, lambda _text: None)
    assert environment.places.venv_python.exists()
