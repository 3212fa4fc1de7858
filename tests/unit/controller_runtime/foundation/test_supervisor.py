# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Awaitable, Callable, Iterator

import pytest
import structlog

from controller_runtime.errors import ConfigError, TemporaryError, TransportError
from controller_runtime.foundation.supervisor import run


@pytest.fixture(autouse=True)
def _restore_logging() -> Iterator[None]:
    yield
    structlog.reset_defaults()


def raising(error: Exception) -> Callable[[asyncio.Event], Awaitable[None]]:
    async def main(_stop: asyncio.Event) -> None:
        raise error

    return main


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigError("a.json: port is 80. Use 1024."), 78),
        (TemporaryError("later"), 75),
        (TransportError("gone"), 1),
        (RuntimeError("bug"), 1),
        (ExceptionGroup("tasks", [ExceptionGroup("inner", [TemporaryError("later")])]), 75),
    ],
)
def test_the_error_decides_the_exit_code(error: Exception, code: int) -> None:
    assert run(raising(error), "c") == code


def test_every_configuration_problem_is_logged_once(capsys: pytest.CaptureFixture[str]) -> None:
    run(raising(ConfigError(["a: wrong. Fix a.", "b: wrong. Fix b."])), "c")

    errors = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["err"] for line in errors if line["level"] == "error"] == ["a: wrong. Fix a.", "b: wrong. Fix b."]


def test_a_bad_log_level_is_bad_input() -> None:
    async def main(_stop: asyncio.Event) -> None:
        return None

    assert run(main, "c", level="LOUD") == 78


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_asks_for_a_clean_stop(number: signal.Signals) -> None:
    finished: list[str] = []

    async def main(stop: asyncio.Event) -> None:
        os.kill(os.getpid(), number)
        await stop.wait()
        finished.append("cleaned up")

    assert run(main, "c") == 0
    assert finished == ["cleaned up"]


def test_work_that_ignores_the_stop_is_cancelled_after_the_grace(capsys: pytest.CaptureFixture[str]) -> None:
    async def main(_stop: asyncio.Event) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.Event().wait()

    assert run(main, "c", stop_grace_s=0.05) == 0
    assert "stop took too long" in capsys.readouterr().out
