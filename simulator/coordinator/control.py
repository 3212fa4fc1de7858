# SPDX-License-Identifier: Apache-2.0
"""Management, status and metrics ports of a simulated Coordinator.

Ready means: at least one prefill and one decode Server are linked; with a second Coordinator also that the
Controller made this one the master.
Seed: controller manual, Coordinator interfaces.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from aiohttp import web
from prometheus_client import CollectorRegistry, Gauge, generate_latest
from pydantic import BaseModel, ValidationError

from controller_runtime.api.coordinator_api import (
    BACKUP_INFO_PATH,
    INFO_PATH,
    METRICS_PATH,
    OFFLINE_PATH,
    ONLINE_PATH,
    QUERY_TASKS_PATH,
    RECEIVES_PATH,
    REFRESH_PATH,
    TASKS_PATH,
    BackupInfo,
    CoordinatorInfo,
    InstanceIds,
    InstancesRefresh,
    QueryTasks,
    QueryTasksReply,
    ReceivesInfo,
    Tasks,
)
from controller_runtime.foundation.log import get_logger
from simulator.coordinator.answers import error_body
from simulator.coordinator.entry import Entry
from simulator.coordinator.fleet import Fleet
from simulator.coordinator.relay import Relay

log = get_logger(__name__)


class Control:
    """Handlers of the ports that users do not see. `has_backup`: a second Coordinator exists."""

    def __init__(self, fleet: Fleet, relay: Relay, entry: Entry, *, has_backup: bool) -> None:
        self._fleet = fleet
        self._relay = relay
        self._entry = entry
        self._has_backup = has_backup
        self._is_master = not has_backup

    def management_app(self) -> web.Application:
        """Build the management port, for the Controller."""
        app = web.Application(client_max_size=16 * 1024 * 1024, middlewares=[_bad_bodies])
        app.router.add_post(REFRESH_PATH, self._refresh)
        app.router.add_post(OFFLINE_PATH, self._offline)
        app.router.add_post(ONLINE_PATH, self._online)
        app.router.add_get(TASKS_PATH, self._tasks)
        app.router.add_post(QUERY_TASKS_PATH, self._query_tasks)
        app.router.add_get(INFO_PATH, self._info)
        app.router.add_get(RECEIVES_PATH, self._receives)
        app.router.add_post(BACKUP_INFO_PATH, self._backup_info)
        return app

    def status_app(self) -> web.Application:
        """Build the status port, for probes."""
        app = web.Application()
        app.router.add_get("/v1/startup", _up)
        app.router.add_get("/v1/health", _up)
        app.router.add_get("/v1/readiness", self._readiness)
        return app

    def metrics_app(self, registry: CollectorRegistry) -> web.Application:
        """Build the external port."""
        for name, help_text, read in (
            ("sim_coordinator_running_requests", "Requests in work.", lambda: self._fleet.running),
            ("sim_coordinator_servers", "Servers in the last refresh.", lambda: self._fleet.known),
            ("sim_coordinator_linked_pairs", "Linked pairs of prefill and decode Servers.", lambda: len(self._fleet.pairs())),
            ("sim_coordinator_retries", "Tries on another pair since the start.", lambda: self._relay.retries),
        ):
            Gauge(name, help_text, registry=registry).set_function(read)

        async def metrics(request: web.Request) -> web.StreamResponse:
            return web.Response(body=generate_latest(registry), content_type="text/plain")

        app = web.Application()
        app.router.add_get(METRICS_PATH, metrics)
        return app

    async def _refresh(self, request: web.Request) -> web.Response:
        body = InstancesRefresh.model_validate_json(await request.read())
        if self._fleet.refresh(body):
            log.info("servers changed", servers=self._fleet.known, pairs=len(self._fleet.pairs()))
            self._relay.wake()
        return web.json_response({})

    async def _offline(self, request: web.Request) -> web.Response:
        self._fleet.set_offline(InstanceIds.model_validate_json(await request.read()).ids)
        return web.json_response({})

    async def _online(self, request: web.Request) -> web.Response:
        self._fleet.set_online(InstanceIds.model_validate_json(await request.read()).ids)
        self._relay.wake()
        return web.json_response({})

    async def _tasks(self, request: web.Request) -> web.Response:
        ids = request.query.getall("id", [])
        if not ids or not all(id_.isascii() and id_.isdecimal() for id_ in ids):
            return web.json_response(error_body("bad_request", "Query: id is missing or no number. Ask for ?id=<id>."), status=400)
        return _reply(Tasks(tasks=tuple(self._fleet.tasks(int(id_)) for id_ in ids)))

    async def _query_tasks(self, request: web.Request) -> web.Response:
        pair = QueryTasks.model_validate_json(await request.read())
        return _reply(QueryTasksReply(is_end=self._fleet.is_pair_idle(pair.p_id, pair.d_id)))

    async def _info(self, request: web.Request) -> web.Response:
        return _reply(CoordinatorInfo(schedule_info=self._fleet.schedule_info(), request_length_info=self._entry.mean_length))

    async def _receives(self, request: web.Request) -> web.Response:
        return _reply(ReceivesInfo(is_master=self._is_master, recv_flow=self._entry.recent_flow))

    async def _backup_info(self, request: web.Request) -> web.Response:
        verdict = BackupInfo.model_validate_json(await request.read())
        if verdict.is_master != self._is_master:
            log.info("mastership changed", is_master=verdict.is_master, random_pick=verdict.is_random_pick)
        self._is_master = verdict.is_master
        return web.json_response({})

    async def _readiness(self, request: web.Request) -> web.Response:
        if not self._fleet.pairs():
            return web.json_response(error_body("no_pair", "No prefill and decode Server are linked."), status=503)
        if self._has_backup and not self._is_master:
            return web.json_response(error_body("standby", "The other Coordinator is the master."), status=503)
        return await _up(request)


@web.middleware
async def _bad_bodies(request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> web.StreamResponse:
    try:
        return await handler(request)
    except ValidationError as err:
        log.warning("body refused", path=request.path, problems=err.error_count())
        return web.json_response(error_body("bad_request", f"Body of {request.path}: {err}"), status=400)


async def _up(request: web.Request) -> web.Response:
    return web.json_response({"message": "", "status": "0"})


def _reply(model: BaseModel) -> web.Response:
    return web.Response(body=model.model_dump_json().encode(), content_type="application/json")
