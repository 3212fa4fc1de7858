# SPDX-License-Identifier: Apache-2.0
"""Subscribe to ClusterD: register, then receive rank tables until the stream ends; again, with backoff, for ever.

A peer that is silent to pings, or a change of our certificates or of the CRL, ends the stream too.

Seed: controller manual, `cluster_port`, `cluster_tls_items`; flow and message forms as ClusterD publishes them.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Collection
from typing import Final

from grpclib.exceptions import GRPCError, StreamTerminatedError
from prometheus_client import Counter, Gauge

from controller_runtime.clusterd.proto import config_pb2
from controller_runtime.clusterd.proto.config_grpc import ConfigStub
from controller_runtime.errors import TransportError
from controller_runtime.foundation.backoff import Backoff
from controller_runtime.foundation.grpc_link import hang_up, open_channel
from controller_runtime.foundation.log import get_logger
from controller_runtime.foundation.metrics import REGISTRY
from controller_runtime.foundation.tls import TlsIdentity

ROLE: Final = "mindie-ms-controller"
CALL_TIMEOUT_S: Final = 5.0
RETRY_BASE_S, RETRY_CAP_S = 1.0, 30.0

log = get_logger(__name__)

_connected = Gauge("clusterd_subscribed", "1 while the rank table stream stands.", registry=REGISTRY)

_failures = Counter("clusterd_failures_total", "Streams that ended or could not be made.", registry=REGISTRY)


class ClusterdClient:
    """One job's link to ClusterD at `host`:`port`; `expect_sans` are the names ClusterD's certificate may carry."""

    def __init__(self, host: str, port: int, job_id: str, tls: TlsIdentity | None, expect_sans: Collection[str]) -> None:
        self._host = host
        self._port = port
        self._tls = tls
        self._expect_sans = expect_sans
        self._info = config_pb2.ClientInfo(jobId=job_id, role=ROLE)

    async def follow_rank_tables(self, on_table: Callable[[str], Awaitable[None]]) -> None:
        """Call `on_table` with every table (JSON text). Runs until cancelled; a lost stream is made again."""
        backoff = Backoff(RETRY_BASE_S, RETRY_CAP_S)
        while True:
            try:
                await self._subscribe(on_table, backoff)
            except TransportError as error:
                _failures.inc()
                log.warning("rank table stream lost", err=error)
            finally:
                _connected.set(0)
            await asyncio.sleep(backoff.next_s())

    async def _subscribe(self, on_table: Callable[[str], Awaitable[None]], backoff: Backoff) -> None:
        context = self._tls.client_context(("h2",), expect_sans=self._expect_sans) if self._tls else None
        channel = open_channel(self._host, self._port, context)
        forget = self._tls.on_change(lambda: hang_up(channel)) if self._tls else None
        try:
            stub = ConfigStub(channel)
            await stub.Register(self._info, timeout=CALL_TIMEOUT_S)
            async with stub.SubscribeRankTable.open() as stream:
                await stream.send_message(self._info, end=True)
                log.info("rank table subscribed", host=self._host)
                async for message in stream:
                    backoff.reset()
                    _connected.set(1)
                    await on_table(message.rankTable)
        except (GRPCError, StreamTerminatedError, TimeoutError, ssl.SSLError, OSError) as error:
            raise TransportError(
                f"ClusterD {self._host}:{self._port}: {str(error) or type(error).__name__}. Check that it runs."
            ) from error
        finally:
            if forget is not None:
                forget()
            hang_up(channel)
