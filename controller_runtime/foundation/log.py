# SPDX-License-Identifier: Apache-2.0
"""One JSON object per line on standard output: `time`, `level`, `component`, `logger`, `event`, then the pairs of the call.

`event` is a constant lower-case message; facts are pairs, so a line can be searched and counted. JSON escapes control
characters, so a hostile value cannot forge a line. Lines of libraries that use `logging` come out in the same form.
"""

from __future__ import annotations

import logging
import sys
from typing import Any

import orjson
import structlog
from structlog.typing import EventDict, FilteringBoundLogger, Processor, WrappedLogger

from controller_runtime.errors import ConfigError

LEVELS = {
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "WARNING": logging.WARNING,
    "ERROR": logging.ERROR,
    "CRITICAL": logging.CRITICAL,
}


def configure_logging(component: str, level: str = "INFO") -> None:
    """Send every log line of this process to standard output. May be called again to change the level.

    Raises:
        ConfigError: `level` is none of `LEVELS` (any case).
    """
    threshold = LEVELS.get(level.upper())
    if threshold is None:
        raise ConfigError(f"log level: {level!r} is unknown. Use one of {', '.join(LEVELS)}.")

    def add_origin(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
        event["component"] = component
        if "logger_name" in event:
            event["logger"] = event.pop("logger_name")
        return event

    shape: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        add_origin,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
        structlog.processors.format_exc_info,
    ]
    structlog.configure(
        processors=[*shape, structlog.processors.JSONRenderer(serializer=_to_json)],
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stdout),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shape, structlog.stdlib.add_logger_name],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.JSONRenderer(serializer=_to_json),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(max(threshold, logging.WARNING))


def get_logger(name: str) -> FilteringBoundLogger:
    """Return the logger of one module. Safe at import time: it looks up the configuration at each call."""
    logger: FilteringBoundLogger = structlog.get_logger(logger_name=name)
    return logger


def _to_json(event: EventDict, **_options: Any) -> str:
    ordered = {key: event.pop(key) for key in ("time", "level", "component", "logger", "event") if key in event}
    ordered.update(event)
    return orjson.dumps(ordered, default=_plain, option=orjson.OPT_NON_STR_KEYS).decode()


def _plain(value: object) -> object:
    if isinstance(value, BaseException):
        return str(value) or type(value).__name__
    if isinstance(value, (set, frozenset)):
        return sorted(str(item) for item in value)
    return str(value)
