# SPDX-License-Identifier: Apache-2.0
"""Settings of the whole test run: what a machine cannot run is left out aloud, and never in CI."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent
LEFT_OUT = pytest.StashKey[list[str]]()


def pytest_configure(config: pytest.Config) -> None:
    """Let no plugin create an event loop for a test that needs none: nobody would close it, and warnings are errors here."""
    asyncio.set_event_loop(None)
    config.stash[LEFT_OUT] = []


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests of real nodes where there can be none."""
    reason = _no_real_nodes()
    if reason is None:
        return
    needs_nodes = [item for item in items if item.path.is_relative_to(ROOT / "lab")]
    if needs_nodes:
        config.stash[LEFT_OUT].append(f"left out {len(needs_nodes)} tests of real nodes: {reason}")
        config.hook.pytest_deselected(items=needs_nodes)
        items[:] = [item for item in items if item not in needs_nodes]


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A run in CI that left something out has failed."""
    if os.environ.get("CI") == "true" and session.config.stash[LEFT_OUT]:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say what was left out, in the last lines."""
    for line in config.stash[LEFT_OUT]:
        terminalreporter.write_line(line)


def _no_real_nodes() -> str | None:
    if sys.platform != "linux":
        return "they need Linux"
    return None if os.geteuid() == 0 else "they need root"
