# SPDX-License-Identifier: Apache-2.0
"""Talk to one Server: read its configuration and status, give it its role.

A failure is a value here, not an exception: the caller counts it against one Server and goes on. The first
failure of a Server in a row is logged with the text operators search for, the following ones only counted.
Seed: controller manual, Server interfaces, table of error texts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import Enum
from typing import Final

from prometheus_client import Counter
from pydantic import ValidationError

from controller_runtime.api.server_api import (
    CONFIG_PATH,
    RESULT_OK,
    SERVER_SANS,
    STATUS_PATH,
    STATUS_PATH_V2,
    RoleReply,
    ServerConfig,
    role_path,
)
from controller_runtime.errors import TransportError
from controller_runtime.foundation.http_client import HttpClient, HttpResponse
from controller_runtime.foundation.log import get_logger
from controller_runtime.foundation.metrics import REGISTRY
from controller_runtime.foundation.tls import TlsIdentity
from controller_runtime.ms.links import SERVER_UNREACHABLE, base_url
from controller_runtime.ms.role_body import RoleBodies
from controller_runtime.ms.server_registry import KnownServer, Wiring
from controller_runtime.ms.status_parser import Report, StatusParser

OK: Final = 200
NO_CODE: Final = -1

log = get_logger(__name__)

_failures = Counter("ms_server_calls_failed_total", "Calls to Servers without a valid answer.", ["call"], registry=REGISTRY)
_posts = Counter("ms_role_posts_total", "Role posts, by result.", ["role", "result"], registry=REGISTRY)


class PostResult(Enum):
    """What a Server made of its role."""

    ACCEPTED = "accepted"
    STILL_SWITCHING = "still_switching"
    FAILED = "failed"


class ServerClient:
    """One client for all Servers. `timeout_s` bounds a call, its retries included."""

    def __init__(
        self,
        http: HttpClient,
        tls: TlsIdentity | None,
        bodies: RoleBodies,
        *,
        is_multi_node: bool,
        timeout_s: float,
        sans: Collection[str] = SERVER_SANS,
    ) -> None:
        self._http = http
        self._tls = tls
        self._bodies = bodies
        self._timeout_s = timeout_s
        self._sans = sans if tls else None
        self._api_version = 2 if is_multi_node else 1
        self._parser = StatusParser(self._api_version)
        self._failing: set[int] = set()

    async def config(self, server: KnownServer) -> ServerConfig | None:
        """`GET /v1/config`, None without a valid answer."""
        answer = await self._call(server, "GET", CONFIG_PATH, "GetNodeConfig")
        if answer is None:
            return None
        try:
            return ServerConfig.model_validate_json(answer.body)
        except ValidationError as error:
            self._bad_reply(server, CONFIG_PATH, error)
            return None

    async def status(self, server: KnownServer) -> Report | None:
        """`GET /v1/status` or `/v2/status`, None without a valid answer."""
        path = STATUS_PATH_V2 if self._api_version == 2 else STATUS_PATH
        answer = await self._call(server, "GET", path, "GetNodeStatus")
        if answer is None:
            return None
        try:
            status = self._parser.parse(server.id, answer.body)
        except ValidationError as error:
            self._bad_reply(server, path, error)
            return None
        self._failing.discard(server.id)
        return status

    async def post_role(self, server: KnownServer, wiring: Wiring, *, is_initial: bool) -> PostResult:
        """`POST /v1|v2/role/{role}`.

        The first role needs status 200 only. A later one needs `{"result": "ok"}` too: another result means
        that the Server is still switching and wants the post again later.

        Raises:
            ConfigError: the Server's devices do not fit the configured parallelism.
        """
        path = role_path(wiring.role, self._api_version)
        body = self._bodies.body(server, wiring)
        code, ret, answer = NO_CODE, -1, None
        try:
            answer = await self._request("POST", server, path, body=body, headers=_JSON)
            code, ret = answer.status, 0
        except TransportError as error:
            log.error(SERVER_UNREACHABLE, server=server.spec.ip, err=error)
        result = _result_of(answer, is_initial=is_initial)
        _posts.labels(wiring.role.word, result.value).inc()
        if result is PostResult.FAILED:
            log.error(
                f"[NodeScheduler]PostSingleRole: request failed, node id {server.id}, ip {server.spec.ip}, "
                f"port {server.spec.ports.mgmt}, ret code {code}, request ret {ret}"
            )
        elif result is PostResult.ACCEPTED:
            log.info("role accepted", server=server.spec.ip, id=server.id, role=wiring.role.word, peers=len(wiring.peers))
        return result

    async def _request(
        self, method: str, server: KnownServer, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> HttpResponse:
        limit_s = self._timeout_s
        return await self._http.request(
            method, self._url(server, path), body=body, headers=headers, expect_sans=self._sans, timeout_s=limit_s, within_s=limit_s
        )

    async def _call(self, server: KnownServer, method: str, path: str, call: str) -> HttpResponse | None:
        code, ret = NO_CODE, -1
        try:
            answer = await self._request(method, server, path)
            if answer.status == OK:
                return answer
            code, ret, why = answer.status, 0, f"status {answer.status}"
        except TransportError as error:
            why = str(error)
        _failures.labels(call).inc()
        if server.id not in self._failing:
            self._failing.add(server.id)
            if ret:
                log.error(SERVER_UNREACHABLE, server=server.spec.ip, err=why)
            log.error(
                f"[ServerRequestHandler]{call}: send request failed, node id {server.id}, ip {server.spec.ip}, "
                f"port {server.spec.ports.mgmt}, ret code {code}, request ret {ret}"
            )
        return None

    def _bad_reply(self, server: KnownServer, path: str, error: ValidationError) -> None:
        _failures.labels("bad_reply").inc()
        if server.id not in self._failing:
            self._failing.add(server.id)
            first = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(str(part) for part in first["loc"])
            log.error("server reply out of range", server=server.spec.ip, path=path, err=f"{place}: {first['msg']}")

    def _url(self, server: KnownServer, path: str) -> str:
        return base_url(server.spec.ip, server.spec.ports.mgmt, self._tls) + path


_JSON: Final = {"Content-Type": "application/json"}


def _result_of(answer: HttpResponse | None, *, is_initial: bool) -> PostResult:
    if answer is None or answer.status != OK:
        return PostResult.FAILED
    if is_initial:
        return PostResult.ACCEPTED
    try:
        reply = RoleReply.model_validate_json(answer.body)
    except ValidationError:
        return PostResult.FAILED
    return PostResult.ACCEPTED if reply.result == RESULT_OK else PostResult.STILL_SWITCHING
