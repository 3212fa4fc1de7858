# SPDX-License-Identifier: Apache-2.0
"""Runs in a pod: writes one numbered key after the other, as a client that repeats what was not acknowledged.

Arguments: folder of its certificate, prefix of its keys, etcd members. Prints one JSON object per acknowledged write.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
import time
from pathlib import Path

from controller_runtime.etcd.client import EtcdClient
from controller_runtime.etcd.errors import EtcdUnavailableError
from controller_runtime.foundation.tls import TlsFiles, TlsIdentity

PAUSE_S = 0.05


async def write_on(directory: Path, prefix: str, members: list[str]) -> None:
    """Write until killed."""
    tls = TlsIdentity(TlsFiles.in_directory(directory))
    async with EtcdClient(members, tls) as client, asyncio.TaskGroup() as group:
        group.create_task(tls.watch(1.0))
        for number in itertools.count():
            revision = await _acknowledged(client, f"{prefix}{number:06}", str(number).encode())
            print(json.dumps({"number": number, "revision": revision, "at": time.time()}), flush=True)
            await asyncio.sleep(PAUSE_S)


async def _acknowledged(client: EtcdClient, key: str, value: bytes) -> int:
    while True:
        try:
            return await client.put(key, value)
        except EtcdUnavailableError as error:
            print(f"again: {error}", file=sys.stderr, flush=True)


asyncio.run(write_on(Path(sys.argv[1]), sys.argv[2], sys.argv[3:]))
