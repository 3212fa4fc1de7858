# SPDX-License-Identifier: Apache-2.0
"""A process that wants the leader lock and then writes on and on, so that a test can freeze it with a real SIGSTOP.

    python -m tests.support.lock_holder <endpoints> <tls directory> <lock key> <data key> <name> <ttl s>

Prints `leader <token>` when elected, `wrote <n>` for the first write, `lost <error class>` when a write is refused.
It ignores `is_leader`, as a leader does that was paused between looking and writing.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from controller_runtime.errors import LostLeadershipError
from controller_runtime.etcd.client import EtcdClient
from controller_runtime.etcd.lock import LeaderLock
from controller_runtime.etcd.values import created_at, put_op
from controller_runtime.foundation.tls import TlsFiles, TlsIdentity


async def main(endpoints: str, directory: str, lock_key: str, data_key: str, name: str, ttl_s: str) -> None:
    tls = TlsIdentity(TlsFiles.in_directory(Path(directory)))
    async with EtcdClient(endpoints.split(","), tls) as client:
        lock = LeaderLock(client, lock_key, name, int(ttl_s), renew_s=0.5)
        await lock.acquire_or_wait(asyncio.Event())
        print("leader", lock.fencing_token, flush=True)
        written = 0
        while True:
            reply = await client.txn([created_at(lock_key, lock.fencing_token)], [put_op(data_key, name.encode())], repeatable=True)
            if not reply.succeeded:
                break
            written += 1
            if written == 1:
                print("wrote", written, flush=True)
            await asyncio.sleep(0.01)
        try:
            await lock.guarded_txn({data_key: name.encode()})
        except LostLeadershipError as error:
            print("lost", type(error).__name__, flush=True)
        await lock.release()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
