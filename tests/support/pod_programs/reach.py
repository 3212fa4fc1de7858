# SPDX-License-Identifier: Apache-2.0
"""Runs in a pod: tries to open TCP connections, all at once, and prints which ones opened as one JSON object.

Arguments: `host:port` targets.
"""

from __future__ import annotations

import asyncio
import json
import sys

TIMEOUT_S = 3.0


async def reach(targets: list[str]) -> dict[str, bool]:
    """Target -> whether it accepted a connection."""
    return dict(zip(targets, await asyncio.gather(*map(_opens, targets)), strict=True))


async def _opens(target: str) -> bool:
    host, _, port = target.rpartition(":")
    try:
        async with asyncio.timeout(TIMEOUT_S):
            _, writer = await asyncio.open_connection(host, int(port))
    except OSError:
        return False
    writer.close()
    return True


print(json.dumps(asyncio.run(reach(sys.argv[1:]))))
