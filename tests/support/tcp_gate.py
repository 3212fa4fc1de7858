# SPDX-License-Identifier: Apache-2.0
"""A TCP relay on loopback that a test can cut, restore and stall: the network between a client and a real server."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator


class TcpGate:
    """Relays connections from `port` to `target_port`. Bytes pass untouched, so TLS stays end to end."""

    def __init__(self, target_port: int) -> None:
        self.port = 0
        self._target_port = target_port
        self._server: asyncio.Server | None = None
        self._links: set[asyncio.Task[None]] = set()
        self._stalled: set[asyncio.Task[None]] = set()

    @classmethod
    @contextlib.asynccontextmanager
    async def before(cls, url: str) -> AsyncIterator[TcpGate]:
        """An open gate in front of a loopback URL; closed at the end."""
        gate = cls(int(url.rpartition(":")[2]))
        await gate.restore()
        try:
            yield gate
        finally:
            await gate.cut()

    @property
    def url(self) -> str:
        """The https URL that leads through the gate."""
        return f"https://127.0.0.1:{self.port}"

    @property
    def links(self) -> int:
        """Connections that are open now, silenced ones included."""
        return len(self._links)

    async def cut(self) -> None:
        """Reset every connection and refuse new ones."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for link in list(self._links):
            link.cancel()
        if self._links:
            await asyncio.wait(self._links)

    async def restore(self) -> None:
        """Accept connections again, on the same port."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port, reuse_address=True)
        self.port = self._server.sockets[0].getsockname()[1]

    def stall(self) -> None:
        """Silence the connections that are open now, without closing them; new ones work."""
        self._stalled |= self._links

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._links.add(task)
        far_writer: asyncio.StreamWriter | None = None
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target_port)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pump(task, reader, far_writer))
                group.create_task(self._pump(task, far_reader, writer))
        except (OSError, ExceptionGroup, asyncio.CancelledError):
            pass
        finally:
            self._links.discard(task)
            self._stalled.discard(task)
            for end in (writer, far_writer):
                if end is not None:
                    end.transport.abort()

    async def _pump(self, link: asyncio.Task[None], reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            if link in self._stalled:
                continue
            writer.write(data)
            await writer.drain()
        raise ConnectionResetError
