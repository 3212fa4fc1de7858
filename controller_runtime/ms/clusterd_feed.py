# SPDX-License-Identifier: Apache-2.0
"""Write the rank tables that ClusterD pushes to the file everybody reads.

Seed: controller manual, `cluster_port`; environment variables MINDX_TASK_ID and MINDX_SERVER_IP switch it on.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from controller_runtime.clusterd.client import ClusterdClient
from controller_runtime.foundation.atomic_file import write_atomic
from controller_runtime.foundation.log import get_logger
from controller_runtime.foundation.tls import TlsIdentity
from controller_runtime.ms.config import Settings
from controller_runtime.ms.links import CLUSTERD_SANS

log = get_logger(__name__)


async def follow_clusterd(settings: Settings, tls: TlsIdentity | None) -> None:
    """Keep the rank table file equal to what ClusterD says, until cancelled; nothing when ClusterD is not configured."""
    if settings.clusterd_address is None:
        return
    job_id, host = settings.clusterd_address
    client = ClusterdClient(host, settings.config.cluster_port, job_id, tls, CLUSTERD_SANS)

    async def store(table: str) -> None:
        await store_table(settings.rank_table_path, table)

    await client.follow_rank_tables(store)


async def store_table(path: Path, table: str) -> None:
    """Replace the file; a failure is logged and the previous table stays."""
    try:
        await asyncio.to_thread(write_atomic, path, table.encode())
    except OSError as error:
        log.error("rank table from clusterd not written", path=str(path), err=error)
        return
    log.info("rank table from clusterd written", path=str(path), size_bytes=len(table))
