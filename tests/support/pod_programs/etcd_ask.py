# SPDX-License-Identifier: Apache-2.0
"""Runs in a pod: reads or writes etcd once and prints what came out as one JSON object.

Arguments: folder of the certificate, `get` | `put` | `try`, key or prefix, etcd members. `get` prints the pairs under the
prefix; `put` writes the key; `try` reads through each member alone and prints member -> "" or why it was refused.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from controller_runtime.errors import EtcdError
from controller_runtime.etcd.client import EtcdClient
from controller_runtime.foundation.tls import TlsFiles, TlsIdentity


async def ask(directory: Path, action: str, key: str, members: list[str]) -> object:
    """Do it within the bounds of the client."""
    tls = TlsIdentity(TlsFiles.in_directory(directory))
    if action == "try":
        return {member: await _refusal(tls, member, key) for member in members}
    async with EtcdClient(members, tls, call_timeout_s=20) as client:
        if action == "put":
            return await client.put(key, b"written")
        listing = await client.get_prefix(key)
        return {pair.key: pair.value.decode() for pair in listing.items}


async def _refusal(tls: TlsIdentity, member: str, key: str) -> str:
    async with EtcdClient([member], tls, call_timeout_s=4) as client:
        try:
            await client.get(key)
        except EtcdError as error:
            return str(error)
    return ""


print(json.dumps(asyncio.run(ask(Path(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4:]))))
