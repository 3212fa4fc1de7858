# SPDX-License-Identifier: Apache-2.0
"""A watch without gaps or repeats across lost connections, silent members and leader changes.

Invariants
- After a reconnect the watch goes on one revision after the last event seen. Batches can be cut off in the middle of a long
  history, so only events (and marks without events) move that point, never the header of a batch.
- Silence is not trusted: half way to the idle limit a progress mark is asked for; without any message the member is left.
  (HTTP/2 pings alone noticed a frozen member after 35 s, measured.)
- A start older than the compaction ends with `CompactedError`: the caller lists again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass
from typing import Any

from grpclib.client import Stream
from grpclib.exceptions import GRPCError

from controller_runtime.etcd.endpoints import REQUIRE_LEADER, RETRIED_STATUS, TRANSPORT_ERRORS, Endpoints
from controller_runtime.etcd.errors import CompactedError, EtcdDeniedError, refusal
from controller_runtime.etcd.proto import etcd_pb2 as pb
from controller_runtime.etcd.proto.etcd_grpc import WatchStub
from controller_runtime.etcd.values import KeyValue, prefix_end
from controller_runtime.foundation.backoff import Backoff

WatchStream = Stream[pb.WatchRequest, pb.WatchResponse]


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """One change. `value` None: the key was deleted (or its lease ended)."""

    key: str
    value: bytes | None
    revision: int
    pair: KeyValue


@dataclass(frozen=True, slots=True)
class WatchBatch:
    """Changes in order; none means: everything up to `revision` was delivered."""

    revision: int
    events: tuple[WatchEvent, ...]


async def watch(
    endpoints: Endpoints, key: str, start_revision: int, *, is_prefix: bool, idle_s: float, with_marks: bool
) -> AsyncGenerator[WatchBatch, None]:
    """Yield changes of `key` (or of all keys with that prefix) from `start_revision` on; 0 means from now.

    Never ends by itself. `with_marks` also yields progress marks (batches without events). Close it (`aclose`) when done.

    Raises:
        CompactedError, EtcdDeniedError
    """
    cursor = _Cursor(key, start_revision)
    range_end = prefix_end(key) if is_prefix else b""
    backoff = Backoff(0.05, 1.0)
    while True:
        index = endpoints.current
        try:
            async with WatchStub(endpoints.channel(index)).Watch.open(metadata=REQUIRE_LEADER) as stream:
                try:
                    create = pb.WatchCreateRequest(
                        key=key.encode(), range_end=range_end, start_revision=cursor.next_revision, progress_notify=True
                    )
                    await asyncio.wait_for(stream.send_message(pb.WatchRequest(create_request=create)), idle_s)
                    async for message in _messages(stream, idle_s):
                        backoff.reset()
                        batch = cursor.take(message)
                        if batch is not None and (batch.events or with_marks):
                            yield batch
                finally:
                    with contextlib.suppress(*TRANSPORT_ERRORS):
                        await stream.cancel()
        except GRPCError as error:
            if error.status not in RETRIED_STATUS:
                raise refusal("Watch", error) from error
        except TRANSPORT_ERRORS:
            pass
        endpoints.failed(index)
        await asyncio.sleep(backoff.next_s())


async def _messages(stream: WatchStream, idle_s: float) -> AsyncIterator[pb.WatchResponse]:
    """Yield messages until the stream ends; `TimeoutError` after `idle_s` of silence in spite of a question.

    The receiving task is kept across waits: cancelling a half-read message would lose the stream's framing.
    """
    receiving: asyncio.Task[Any] | None = None
    has_asked = False
    try:
        while True:
            receiving = receiving or asyncio.create_task(stream.recv_message())
            done, _ = await asyncio.wait({receiving}, timeout=idle_s / 2)
            if done:
                message, receiving, has_asked = receiving.result(), None, False
                if message is None:
                    raise ConnectionResetError("watch stream ended")
                yield message
            elif has_asked:
                raise TimeoutError("watch is silent")
            else:
                has_asked = True
                async with asyncio.timeout(idle_s / 2):
                    await stream.send_message(pb.WatchRequest(progress_request=pb.WatchProgressRequest()))
    finally:
        if receiving is not None:
            receiving.cancel()
            await asyncio.gather(receiving, return_exceptions=True)


class _Cursor:
    """Where the watch goes on after a reconnect."""

    def __init__(self, key: str, start_revision: int) -> None:
        self.next_revision = start_revision
        self._key = key

    def take(self, message: pb.WatchResponse) -> WatchBatch | None:
        """Return the message as a batch, None for one that carries nothing, and move on."""
        if message.compact_revision:
            raise CompactedError(self._key, message.compact_revision)
        if message.canceled:
            if "permission denied" in message.cancel_reason.lower() or "PermissionDenied" in message.cancel_reason:
                raise EtcdDeniedError(f"etcd watch on {self._key}: {message.cancel_reason}. Check the roles of the certificate's CN.")
            raise ConnectionResetError(message.cancel_reason or "watch canceled")
        revision = message.header.revision
        if message.created:
            self.next_revision = self.next_revision or revision + 1
            return None
        events = tuple(_event(event) for event in message.events if event.kv.mod_revision >= self.next_revision)
        if message.events:
            revision = message.events[-1].kv.mod_revision
        self.next_revision = max(self.next_revision, revision + 1)
        return WatchBatch(revision, events) if events or not message.events else None


def _event(event: pb.Event) -> WatchEvent:
    pair = KeyValue.of(event.kv)
    return WatchEvent(pair.key, None if event.type == pb.Event.DELETE else pair.value, pair.mod_revision, pair)
