# SPDX-License-Identifier: Apache-2.0
"""The checkout's `.venv`: the hash-pinned lock, plus the project itself, editable.

Invariants: a stamp inside says from which lock and project file the environment was made, so a current
one costs nothing; an environment is never deleted here, only brought up to date; every downloaded file
is checked against the hash in the lock.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Sequence

from tools import OLDEST_PYTHON
from tools.errors import ToolsError
from tools.file_lock import locked
from tools.places import Places

STAMP_NAME = ".ascend-pd.json"


def is_current(places: Places) -> bool:
    """Tell whether `.venv` was made from the present lock and project file."""
    return places.venv_python.exists() and _read_stamp(places) == _wanted_stamp(places)


def ensure_virtual_environment(places: Places, say: Callable[[str], None]) -> bool:
    """Create or update `.venv`; return whether anything had to be done.

    Raises:
        ToolsError: the environment has an old Python, or pip failed; the text ends with what to do.
    """
    with locked(places.links / "venv.lock", on_wait=lambda: say("waiting for another setup")):
        if is_current(places):
            return False
        if not places.venv_python.exists():
            say(f"creating {places.venv}")
            _run([sys.executable, "-m", "venv", str(places.venv)], places, "Install the venv module (Debian: python3-venv).")
        _check_version(places)
        if _read_stamp(places).get("lock") != _wanted_stamp(places)["lock"]:
            say(f"installing {places.dev_lock.relative_to(places.checkout)} into {places.venv}")
            advice = "Check the network and pip's index setting (PIP_INDEX_URL), then run `make setup` again."
            _pip(places, ["--require-hashes", "--requirement", str(places.dev_lock)], advice)
            _compile(places)
        say(f"installing the project, editable, into {places.venv}")
        # The build backend is in the lock, so nothing is fetched here.
        editable = ["--no-index", "--no-deps", "--no-build-isolation", "--editable", str(places.checkout)]
        _pip(places, editable, "Correct what it says about the project file, then run `make setup` again.")
        (places.venv / STAMP_NAME).write_text(json.dumps(_wanted_stamp(places), sort_keys=True) + "\n")
        return True


def _read_stamp(places: Places) -> dict[str, str]:
    try:
        found: dict[str, str] = json.loads((places.venv / STAMP_NAME).read_text())
    except (FileNotFoundError, ValueError):
        return {}
    return found


def _wanted_stamp(places: Places) -> dict[str, str]:
    """Return what the environment depends on; of the project file only the tables that shape the installation."""
    tables = tomllib.loads(places.pyproject.read_text())
    project = json.dumps([tables["project"], tables.get("build-system"), tables.get("tool", {}).get("hatch")], sort_keys=True)
    return {
        "python": _environment_version(places),
        "lock": hashlib.sha256(places.dev_lock.read_bytes()).hexdigest(),
        "project": hashlib.sha256(project.encode()).hexdigest(),
    }


def _environment_version(places: Places) -> str:
    """Read the Python version of the environment, as `3.11`; empty when it says none."""
    config = places.venv / "pyvenv.cfg"
    found = re.search(r"^version(?:_info)?\s*=\s*(\d+\.\d+)", config.read_text(), re.MULTILINE) if config.is_file() else None
    return found.group(1) if found else ""


def _check_version(places: Places) -> None:
    version = _environment_version(places)
    if tuple(int(part) for part in version.split(".") if part) < OLDEST_PYTHON:
        raise ToolsError(
            f"{places.venv}: made with Python {version or 'unknown'}, {_dotted(OLDEST_PYTHON)} or newer is needed. "
            "Remove the folder and run `make setup` again."
        )


def _pip(places: Places, arguments: Sequence[str], advice: str) -> None:
    command = [str(places.venv_python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]
    _run([*command, *arguments], places, advice)


def _compile(places: Places) -> None:
    """Compile everything once, so that a read-only or first start does not pay for it; oddities of packages do not matter."""
    packages = next(iter(sorted(places.venv.glob("lib/python*/site-packages"))), None)
    if packages is not None:
        subprocess.run([str(places.venv_python), "-m", "compileall", "-qq", "-j", "0", str(packages)], capture_output=True, check=False)


def _run(command: Sequence[str], places: Places, advice: str) -> None:
    answer = subprocess.run(list(command), cwd=places.checkout, capture_output=True, text=True, check=False)
    if answer.returncode:
        raise ToolsError(f"{answer.stdout}{answer.stderr}\n{' '.join(command[:5])} ... failed in {places.checkout}. {advice}")


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
