# SPDX-License-Identifier: Apache-2.0
"""ClusterD's two gRPC services: rank tables and faults, pushed to every subscribed Controller.

A subscriber gets the present state at once and every later one. Only Controllers are served, by the DNS
names in their certificate. A changed revocation list ends all streams: subscribers must show their
certificate again. Seed: controller manual, ClusterD link.
"""

from __future__ import annotations

from typing import Final, TypeVar

from grpclib import GRPCError
from grpclib.const import Status as GrpcStatus
from grpclib.protocol import Peer
from grpclib.server import Stream

from controller_runtime.clusterd.proto import config_pb2, fault_pb2
from controller_runtime.clusterd.proto.config_grpc import ConfigBase
from controller_runtime.clusterd.proto.fault_grpc import FaultBase
from controller_runtime.foundation.log import get_logger
from controller_runtime.foundation.tls_handshake import is_allowed
from simulator.clusterd.latest import Latest

CONTROLLER_SANS: Final = ("ms-controller-cluster.*",)
CODE_OK: Final = 0

log = get_logger(__name__)
C = TypeVar("C")
R = TypeVar("R")


class Admission:
    """Decides who is served. `job_id` empty: every job."""

    def __init__(self, job_id: str) -> None:
        self._job_id = job_id

    def check(self, peer: Peer, job_id: str) -> None:
        """Refuse a caller that is no Controller, or asks for another job.

        Raises:
            GRPCError: PERMISSION_DENIED or NOT_FOUND.
        """
        certificate = peer.cert() or {}
        sans = frozenset(str(name) for kind, name in certificate.get("subjectAltName", ()) if kind == "DNS")
        if not is_allowed(sans, CONTROLLER_SANS):
            log.warning("caller not allowed here", sans=sans)
            raise GRPCError(GrpcStatus.PERMISSION_DENIED, "only Controllers are served here")
        if self._job_id and job_id != self._job_id:
            raise GRPCError(GrpcStatus.NOT_FOUND, f"job {job_id!r} is not known; this ClusterD serves {self._job_id!r}")


class ConfigService(ConfigBase):
    """Pushes rank tables (JSON text)."""

    def __init__(self, admission: Admission, tables: Latest[str]) -> None:
        self._admission = admission
        self._tables = tables

    async def Register(  # noqa: N802 - named by the generated base class
        self, stream: Stream[config_pb2.ClientInfo, config_pb2.Status]
    ) -> None:
        """Accept a Controller."""
        client = await _received(stream)
        self._admission.check(stream.peer, client.jobId)
        await stream.send_message(config_pb2.Status(code=CODE_OK, info=""))

    async def SubscribeRankTable(  # noqa: N802 - named by the generated base class
        self, stream: Stream[config_pb2.ClientInfo, config_pb2.RankTableStream]
    ) -> None:
        """Send the present table and every later one."""
        client = await _received(stream)
        self._admission.check(stream.peer, client.jobId)
        log.info("rank table subscribed", job=client.jobId, role=client.role)
        async for table in self._tables.changes():
            await stream.send_message(config_pb2.RankTableStream(jobId=client.jobId, rankTable=table))


class FaultService(FaultBase):
    """Pushes fault messages."""

    def __init__(self, admission: Admission, faults: Latest[fault_pb2.FaultMsgSignal]) -> None:
        self._admission = admission
        self._faults = faults

    async def Register(  # noqa: N802 - named by the generated base class
        self, stream: Stream[fault_pb2.ClientInfo, fault_pb2.Status]
    ) -> None:
        """Accept a Controller."""
        client = await _received(stream)
        self._admission.check(stream.peer, client.jobId)
        await stream.send_message(fault_pb2.Status(code=CODE_OK, info=""))

    async def SubscribeFaultMsgSignal(  # noqa: N802 - named by the generated base class
        self, stream: Stream[fault_pb2.ClientInfo, fault_pb2.FaultMsgSignal]
    ) -> None:
        """Send the present faults and every later message."""
        client = await _received(stream)
        self._admission.check(stream.peer, client.jobId)
        log.info("faults subscribed", job=client.jobId, role=client.role)
        async for message in self._faults.changes():
            await stream.send_message(message)


async def _received(stream: Stream[C, R]) -> C:
    message = await stream.recv_message()
    if message is None:
        raise GRPCError(GrpcStatus.INVALID_ARGUMENT, "the request has no ClientInfo")
    return message
