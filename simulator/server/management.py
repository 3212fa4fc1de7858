# SPDX-License-Identifier: Apache-2.0
"""Management and admin ports of a simulated Server.

Management answers the Controller, probes and the node manager; admin (fault injection) answers only
holders of a Server's own or the request user's certificate.
Seed: controller manual, Server interfaces.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web
from pydantic import BaseModel, ValidationError

from controller_runtime.api.roles import Role
from controller_runtime.api.server_api import (
    CONFIG_PATH,
    RESULT_OK,
    STATUS_PATH,
    STATUS_PATH_V2,
    STOP_PATH,
    RoleMember,
    RoleReply,
    RoleRequest,
    RoleRequestV2,
    role_path,
)
from controller_runtime.foundation.log import get_logger
from simulator.server.engine import Engine, Peer
from simulator.server.faults import FAULTS_PATH, FaultBoard, FaultKind, FaultList
from simulator.server.links import LinkKeeper
from simulator.server.refused import RefusedError
from simulator.wire import Reason, Refusal

READY_PATH: Final = "/v2/health/ready"
TASKS_PATH: Final = "/v1/tasks"
ENGINE_PATH: Final = "/v1/engine/{command}"
DP_IDS_PER_NODE: Final = 10_000
"""`dp_inst_id` is node id x 10000 + index. Seed: controller manual, data-parallel groups."""

STILL_SWITCHING: Final = "switching"
MANAGEMENT_SANS: Final = ("ms-controller-request-server.*", "probe.*", "node-manager.*", "mindie-server.*")
ADMIN_SANS: Final = ("mindie-server.*", "smoke.*")
_ROLES: Final = (Role.PREFILL, Role.DECODE, Role.FLEX)

log = get_logger(__name__)
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def reply(model: BaseModel, status: int = 200) -> web.Response:
    """Answer with a model in its wire form."""
    return web.Response(
        body=model.model_dump_json(by_alias=True, exclude_none=True).encode(), status=status, content_type="application/json"
    )


@web.middleware
async def refusals(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn refusals and malformed bodies into JSON answers."""
    try:
        return await handler(request)
    except RefusedError as err:
        return reply(err.refusal, err.status)
    except ValidationError as err:
        return reply(Refusal(reason=Reason.BAD_REQUEST, message=f"Body of {request.path}: {err.error_count()} problems: {err}"), 400)


class ManagementApi:
    """Handlers of the management port. `stop` is set when the Server is told to end."""

    def __init__(self, engine: Engine, keeper: LinkKeeper, stop: asyncio.Event) -> None:
        self._engine = engine
        self._keeper = keeper
        self._stop = stop

    def app(self) -> web.Application:
        """Build the application."""
        app = web.Application(middlewares=[refusals])
        app.router.add_get(READY_PATH, self._ready)
        app.router.add_get(CONFIG_PATH, self._config)
        app.router.add_get(STATUS_PATH, self._status)
        app.router.add_get(STATUS_PATH_V2, self._status_v2)
        app.router.add_get(TASKS_PATH, self._tasks)
        app.router.add_get(STOP_PATH, self._stop_service)
        app.router.add_post(ENGINE_PATH, self._engine_command)
        for role in _ROLES:
            app.router.add_post(role_path(role), self._assigner(role))
            app.router.add_post(role_path(role, 2), self._assigner_v2(role))
        return app

    def _check_health(self) -> None:
        if self._engine.faults.has(FaultKind.UNHEALTHY):
            raise RefusedError(Reason.ENGINE_FAULT, "Engine: unhealthy by an injected fault. Heal it through the admin port.")

    async def _ready(self, request: web.Request) -> web.Response:
        self._check_health()
        return web.json_response({"message": "", "status": "0"})

    async def _config(self, request: web.Request) -> web.Response:
        return reply(self._engine.config())

    async def _status(self, request: web.Request) -> web.Response:
        self._check_health()
        return reply(self._engine.status())

    async def _status_v2(self, request: web.Request) -> web.Response:
        self._check_health()
        return reply(self._engine.status_v2())

    async def _tasks(self, request: web.Request) -> web.Response:
        return web.json_response({"tasks": [self._engine.running]})

    async def _engine_command(self, request: web.Request) -> web.Response:
        command = request.match_info["command"]
        if command not in ("pause", "resume"):
            raise RefusedError(Reason.BAD_REQUEST, f"Engine command {command!r}: unknown. Use pause or resume.")
        if command == "pause":
            self._engine.resumed.clear()
        else:
            self._engine.resumed.set()
        log.info("engine command", command=command)
        return web.json_response({})

    def _assigner(self, role: Role) -> Handler:
        async def assign(request: web.Request) -> web.StreamResponse:
            body = RoleRequest.model_validate_json(await request.read())
            return self._assign(role, body.local.id, [Peer(peer.id, peer.server_ip) for peer in body.peers])

        return assign

    def _assigner_v2(self, role: Role) -> Handler:
        async def assign(request: web.Request) -> web.StreamResponse:
            body = RoleRequestV2.model_validate_json(await request.read())
            peers = [Peer(_node_id(members), members[0].server_ip) for members in body.peers if members]
            return self._assign(role, _node_id(body.local), peers)

        return assign

    def _assign(self, role: Role, local_id: int, peers: list[Peer]) -> web.Response:
        if self._engine.faults.has(FaultKind.REFUSE_ROLE):
            raise RefusedError(Reason.ENGINE_FAULT, "Engine: refuses roles by an injected fault. Heal it through the admin port.")
        is_taken = self._engine.assign(role, local_id, peers)
        log.info("role posted", role=role.word, id=local_id, peers=[peer.id for peer in peers], taken=is_taken)
        self._keeper.wake()
        return reply(RoleReply(result=RESULT_OK if is_taken else STILL_SWITCHING))

    async def _stop_service(self, request: web.Request) -> web.Response:
        is_forced = request.query.get("mode") == "Force"
        self._engine.is_stopping = True
        log.info("stop asked for", forced=is_forced, running=self._engine.running)
        if not is_forced:
            await self._engine.idle.wait()
        self._stop.set()
        return web.json_response({"message": "", "status": "0"})


class AdminApi:
    """Handlers of the admin port."""

    def __init__(self, faults: FaultBoard, keeper: LinkKeeper) -> None:
        self._faults = faults
        self._keeper = keeper

    def app(self) -> web.Application:
        """Build the application."""
        app = web.Application(middlewares=[refusals])
        app.router.add_get(FAULTS_PATH, self._get)
        app.router.add_put(FAULTS_PATH, self._put)
        app.router.add_delete(FAULTS_PATH, self._delete)
        return app

    async def _get(self, request: web.Request) -> web.Response:
        return reply(self._faults.active)

    async def _put(self, request: web.Request) -> web.Response:
        return self._replace(FaultList.model_validate_json(await request.read()))

    async def _delete(self, request: web.Request) -> web.Response:
        return self._replace(FaultList())

    def _replace(self, wanted: FaultList) -> web.Response:
        self._faults.replace(wanted.faults)
        self._keeper.wake()
        log.info("faults replaced", faults=[fault.kind.value for fault in wanted.faults])
        return reply(wanted)


def _node_id(members: tuple[RoleMember, ...]) -> int:
    ids = [group.dp_inst_id for member in members for group in member.dp_inst_list]
    if not ids:
        raise RefusedError(Reason.BAD_REQUEST, "Role body: no dp_inst_id names this instance. Send dp_inst_list.")
    return min(ids) // DP_IDS_PER_NODE
