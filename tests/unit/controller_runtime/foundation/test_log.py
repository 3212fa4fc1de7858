# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from controller_runtime.errors import ConfigError, TransportError
from controller_runtime.foundation.log import configure_logging, get_logger

log = get_logger("tests.early")


@pytest.fixture(autouse=True)
def _restore_logging() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_line_is_one_json_object_with_the_fixed_keys_first(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("ms-controller")

    log.info("role dispatched", server="10.0.0.7", attempt=2)

    text = capsys.readouterr().out
    line = json.loads(text)
    assert list(line)[:5] == ["time", "level", "component", "logger", "event"]
    assert line["time"].endswith("Z")
    assert {key: line[key] for key in ("level", "component", "logger", "event", "server", "attempt")} == {
        "level": "info",
        "component": "ms-controller",
        "logger": "tests.early",
        "event": "role dispatched",
        "server": "10.0.0.7",
        "attempt": 2,
    }
    assert text.count("\n") == 1


def test_lines_below_the_level_are_dropped(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("c", "warn")

    log.info("not shown")
    log.warning("shown")

    assert [line["event"] for line in lines(capsys)] == ["shown"]


def test_a_hostile_value_cannot_forge_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("c")

    log.info("request", path='/x\n{"event":"forged"}\x1b[2J')

    assert len(lines(capsys)) == 1


def test_errors_and_sets_become_text(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("c")

    log.error("failed", err=TransportError("peer gone"), sans=frozenset({"b", "a"}))

    [line] = lines(capsys)
    assert line["err"] == "peer gone"
    assert line["sans"] == ["a", "b"]


def test_a_traceback_stays_inside_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("c")

    log.critical("unexpected", exc_info=ValueError("boom"))

    [line] = lines(capsys)
    assert "ValueError: boom" in line["exception"]


def test_warnings_of_libraries_have_the_same_form(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("c")

    logging.getLogger("asyncio").warning("slow callback %s", "x")
    logging.getLogger("asyncio").info("chatter")

    [line] = lines(capsys)
    assert (line["level"], line["component"], line["logger"], line["event"]) == ("warning", "c", "asyncio", "slow callback x")


def test_an_unknown_level_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"'LOUD' is unknown. Use one of"):
        configure_logging("c", "LOUD")
