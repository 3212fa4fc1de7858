# SPDX-License-Identifier: Apache-2.0
"""What all simulated processes share: listeners, TLS watching and loops that live and end together."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import typer

from controller_runtime.foundation.http_server import HttpServer
from controller_runtime.foundation.tls import TlsFiles, TlsIdentity

Loop = Callable[[asyncio.Event], Awaitable[None]]

POD_IP = typer.Option(envvar="POD_IP", help="Address to listen on; never all addresses.")
POD_NAME = typer.Option(envvar="POD_NAME", help="Name of this pod in traces and logs.")
LOG_LEVEL = typer.Option(envvar="LOG_LEVEL", help="DEBUG, INFO, WARN, ERROR or CRITICAL.")


def identity(directory: Path) -> TlsIdentity:
    """Load the TLS identity in a directory with ca.crt, tls.crt, tls.key and crl.pem."""
    return TlsIdentity(TlsFiles.in_directory(directory))


async def serve(servers: Sequence[HttpServer], identities: Sequence[TlsIdentity], loops: Sequence[Loop], stop: asyncio.Event) -> None:
    """Listen, run the loops and follow changed TLS files until `stop`; then end everything.

    Listeners start in the order given and stop in reverse order. A loop that raises ends the process.
    """
    async with AsyncExitStack() as stack:
        for server in servers:
            await stack.enter_async_context(server)
        async with asyncio.TaskGroup() as tasks:
            watches = [tasks.create_task(one.watch()) for one in identities]
            for loop in loops:
                tasks.create_task(_run(loop, stop))
            await stop.wait()
            for watch in watches:
                watch.cancel()


async def _run(loop: Loop, stop: asyncio.Event) -> None:
    await loop(stop)
