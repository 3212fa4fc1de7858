# SPDX-License-Identifier: Apache-2.0
"""Runs in a pod: holds a watch on every member with a stolen certificate and knocks again whenever one ends.

Arguments: folder of the certificate, prefix to watch, etcd members. Prints one JSON object per thing that happens:
`watching`, `saw` (a key), `ended`, `refused`, each with `member`.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from grpclib.exceptions import GRPCError

from controller_runtime.etcd.endpoints import TRANSPORT_ERRORS, Endpoints
from controller_runtime.etcd.proto import etcd_pb2 as pb
from controller_runtime.etcd.proto.etcd_grpc import WatchStub
from controller_runtime.etcd.values import prefix_end
from controller_runtime.foundation.tls import TlsFiles, TlsIdentity

PAUSE_S = 0.5


async def spy(directory: Path, prefix: str, members: list[str]) -> None:
    """Watch until killed."""
    endpoints = Endpoints(members, TlsIdentity(TlsFiles.in_directory(directory)))
    async with asyncio.TaskGroup() as group:
        for member in range(len(members)):
            group.create_task(_hold(endpoints, member, prefix))


async def _hold(endpoints: Endpoints, member: int, prefix: str) -> None:
    while True:
        is_open = False
        try:
            async with WatchStub(endpoints.channel(member)).Watch.open() as stream:
                create = pb.WatchCreateRequest(key=prefix.encode(), range_end=prefix_end(prefix))
                await stream.send_message(pb.WatchRequest(create_request=create))
                while (message := await stream.recv_message()) is not None:
                    if message.created:
                        is_open = True
                        _tell(member, "watching", "")
                    for event in message.events:
                        _tell(member, "saw", event.kv.key.decode())
        except (GRPCError, *TRANSPORT_ERRORS) as error:
            _tell(member, "ended" if is_open else "refused", f"{type(error).__name__}: {error}")
        else:
            _tell(member, "ended", "by the member")
        endpoints.failed(member)
        await asyncio.sleep(PAUSE_S)


def _tell(member: int, what: str, detail: str) -> None:
    print(json.dumps({"member": member, "what": what, "detail": detail}), flush=True)


asyncio.run(spy(Path(sys.argv[1]), sys.argv[2], sys.argv[3:]))
