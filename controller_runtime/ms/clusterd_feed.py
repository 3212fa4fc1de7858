# SPDX-License-Identifier: Apache-2.0
"""Write the rank tables that ClusterD pushes to the file everybody reads.

Seed: controller manual, `cluster_port`; environment variables MINDX_TASK_ID and MINDX_SERVER_IP switch it on.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

from controller_runtime.clusterd.client import ClusterdClient
from controller_runtime.foundation.atomic_file import write_atomic
from controller_runtime.foundation.backoff import Backoff
from controller_runtime.foundation.log import get_logger
from controller_runtime.foundation.tls import TlsIdentity
from controller_runtime.ms.config import Settings
from controller_runtime.ms.links import CLUSTERD_SANS

RETRY_BASE_S: Final = 1.0
RETRY_CAP_S: Final = 30.0

log = get_logger(__name__)


async def follow_clusterd(settings: Settings, tls: TlsIdentity | None) -> None:
    """Keep the rank table file equal to what ClusterD says, until cancelled; nothing when ClusterD is not configured."""
    if settings.clusterd_address is None:
        return
    job_id, host = settings.clusterd_address
    client = ClusterdClient(host, settings.config.cluster_port, job_id, tls, CLUSTERD_SANS)
    file = TableFile(settings.rank_table_path)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(file.run())
        tasks.create_task(client.follow_rank_tables(file.offer))


class TableFile:
    """The file of the newest table that was offered. ClusterD pushes a table once, so a failed write is tried again."""

    def __init__(self, path: Path, retry_s: float = RETRY_BASE_S) -> None:
        self._path = path
        self._backoff = Backoff(retry_s, RETRY_CAP_S)
        self._newest: str | None = None
        self._offered = asyncio.Event()

    async def offer(self, table: str) -> None:
        """Make this the table to write; one that is not written yet is skipped."""
        self._newest = table
        self._offered.set()

    async def run(self) -> None:
        """Write what is offered, until cancelled."""
        while True:
            await self._offered.wait()
            self._offered.clear()
            if self._newest is None or await self._write(self._newest):
                self._backoff.reset()
                continue
            self._offered.set()
            await asyncio.sleep(self._backoff.next_s())

    async def _write(self, table: str) -> bool:
        try:
            await asyncio.to_thread(write_atomic, self._path, table.encode())
        except OSError as error:
            log.error("rank table from clusterd not written, trying again", path=str(self._path), err=error)
            return False
        log.info("rank table from clusterd written", path=str(self._path), size_bytes=len(table))
        return True
