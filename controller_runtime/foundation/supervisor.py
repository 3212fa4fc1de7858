# SPDX-License-Identifier: Apache-2.0
"""The life of a process: configure logs, run, stop on a signal, turn the outcome into an exit code.

Invariants: the first SIGTERM or SIGINT asks for a clean stop; whoever has not stopped after `stop_grace_s` is cancelled;
every error is logged exactly once, here.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Iterator

from controller_runtime.errors import AscendPdError, ConfigError
from controller_runtime.foundation.log import configure_logging, get_logger

EXIT_UNEXPECTED = 1

log = get_logger(__name__)


def run(main: Callable[[asyncio.Event], Awaitable[None]], component: str, level: str = "INFO", stop_grace_s: float = 20.0) -> int:
    """Run `main(stop)` until it returns and return the exit code of the process.

    0 when `main` returned; the `exit_code` of an `AscendPdError` (78 bad input, 75 try again later, else 1); 1 for anything
    else. `stop` is set by SIGTERM and SIGINT. Errors inside a task group count by the first one.
    """
    configure_logging(component)
    try:
        configure_logging(component, level)
        with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
            runner.run(_until_stopped(main, stop_grace_s))
    except Exception as error:  # noqa: BLE001 - the outermost frame of the process: nothing above could log it
        return _report(error)
    log.info("process stopped")
    return 0


async def _until_stopped(main: Callable[[asyncio.Event], Awaitable[None]], stop_grace_s: float) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def ask_to_stop(name: str) -> None:
        if not stop.is_set():
            log.info("stop requested", signal=name)
            stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ask_to_stop, number.name)
    work = asyncio.ensure_future(main(stop))
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({work, stopping}, return_when=asyncio.FIRST_COMPLETED)
        _, late = await asyncio.wait({work}, timeout=stop_grace_s)
        if late:
            log.warning("stop took too long, cancelling", grace_s=stop_grace_s)
            work.cancel()
        try:
            await work
        except asyncio.CancelledError:
            if not late:
                raise
    finally:
        stopping.cancel()


def _report(error: Exception) -> int:
    leaves = list(_leaves(error))
    for leaf in leaves:
        if isinstance(leaf, ConfigError):
            for problem in leaf.problems:
                log.error("configuration refused", err=problem)
        elif isinstance(leaf, AscendPdError):
            log.error("process failed", err=leaf, kind=type(leaf).__name__)
        else:
            log.critical("process failed unexpectedly", exc_info=leaf)
    first = leaves[0]
    return first.exit_code if isinstance(first, AscendPdError) else EXIT_UNEXPECTED


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error
