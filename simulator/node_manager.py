# SPDX-License-Identifier: Apache-2.0
"""`sim-node-manager`: the process beside each Server that the Controller tells to pause, repair or stop its engine.

    GET  /v1/node-manager/running-status           200, or 210 when abnormal
    POST /v1/node-manager/fault-handling-command   {"cmd": "PAUSE_ENGINE"}

It watches the Server's health through the management port. Commands walk through the states
normal -> PAUSE_ENGINE -> pause -> REINIT_NPU -> ready -> START_ENGINE -> normal; STOP_ENGINE ends the Server.
Seed: controller manual, node manager interfaces.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Final

import typer
from aiohttp import web
from pydantic import ValidationError

from controller_runtime.api.ports import ServerPorts
from controller_runtime.api.server_api import (
    FAULT_COMMAND_PATH,
    RUNNING_STATUS_PATH,
    SERVER_SANS,
    STOP_FORCE_QUERY,
    STOP_PATH,
    EngineStatus,
    FaultCommand,
    FaultCommandName,
)
from controller_runtime.errors import TransportError
from controller_runtime.foundation.http_client import HttpClient
from controller_runtime.foundation.http_server import HttpServer
from controller_runtime.foundation.log import get_logger
from controller_runtime.foundation.supervisor import run
from simulator.server.management import ENGINE_PATH, READY_PATH
from simulator.serving import LOG_LEVEL, POD_IP, identity, serve

ABNORMAL_STATUS: Final = 210
ALLOWED_SANS: Final = ("ms-controller-request-server.*", "probe.*", "node-manager.*")
DEFAULT_PORTS: Final = ServerPorts()

log = get_logger(__name__)
app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


class NodeManager:
    """Knows the state of one Server's engine. `server_url` is its management port, `reinit_s` how long NPUs take."""

    def __init__(self, client: HttpClient, server_url: str, period_s: float, reinit_s: float) -> None:
        self._client = client
        self._server_url = server_url
        self._period_s = period_s
        self._reinit_s = reinit_s
        self._status = EngineStatus.INIT
        self._repair: asyncio.Task[None] | None = None

    def app(self) -> web.Application:
        """Build the application."""
        app = web.Application()
        app.router.add_get(RUNNING_STATUS_PATH, self._running_status)
        app.router.add_post(FAULT_COMMAND_PATH, self._command)
        return app

    async def run(self, stop: asyncio.Event) -> None:
        """Look at the Server's health once a period until `stop`."""
        while not stop.is_set():
            await self.look()
            try:
                async with asyncio.timeout(self._period_s):
                    await stop.wait()
            except TimeoutError:
                continue
        if self._repair is not None:
            self._repair.cancel()

    async def look(self) -> None:
        """Ask the Server once. Commanded states stay until the next command."""
        if self._status in (EngineStatus.PAUSE, EngineStatus.BUSY, EngineStatus.READY):
            return
        is_up = await self._server_answers(READY_PATH)
        if is_up:
            self._become(EngineStatus.NORMAL)
        elif self._status is not EngineStatus.INIT:
            self._become(EngineStatus.ABNORMAL)

    async def _running_status(self, request: web.Request) -> web.Response:
        status = ABNORMAL_STATUS if self._status is EngineStatus.ABNORMAL else 200
        return web.json_response({"status": self._status.value}, status=status)

    async def _command(self, request: web.Request) -> web.Response:
        try:
            command = FaultCommand.model_validate_json(await request.read()).cmd
        except ValidationError as err:
            return web.json_response({"Message": f"unknown command: {err.errors()[0]['msg']}"}, status=400)
        log.info("command received", command=command.value, status=self._status.value)
        if not await self._obey(command):
            return web.json_response({"Message": f"{command} failed: the Server does not answer"}, status=400)
        return web.json_response({})

    async def _obey(self, command: FaultCommandName) -> bool:
        match command:
            case FaultCommandName.PAUSE_ENGINE | FaultCommandName.PAUSE_ENGINE_ROCE:
                return await self._engine("pause", EngineStatus.PAUSE)
            case FaultCommandName.REINIT_NPU:
                self._become(EngineStatus.BUSY)
                self._repair = asyncio.create_task(self._reinit())
                return True
            case FaultCommandName.START_ENGINE:
                return await self._engine("resume", EngineStatus.NORMAL)
            case FaultCommandName.STOP_ENGINE:
                self._become(EngineStatus.ABNORMAL)
                return await self._server_answers(STOP_PATH + STOP_FORCE_QUERY)

    async def _engine(self, command: str, then: EngineStatus) -> bool:
        is_done = await self._server_answers(ENGINE_PATH.format(command=command), "POST")
        if is_done:
            self._become(then)
        return is_done

    async def _reinit(self) -> None:
        await asyncio.sleep(self._reinit_s)
        self._become(EngineStatus.READY)

    async def _server_answers(self, path: str, method: str = "GET") -> bool:
        try:
            reply = await self._client.request(method, self._server_url + path, expect_sans=SERVER_SANS)
        except TransportError as err:
            log.debug("server does not answer", path=path, err=err)
            return False
        return reply.status == 200

    def _become(self, status: EngineStatus) -> None:
        if status is not self._status:
            log.info("engine status changed", before=self._status.value, now=status.value)
        self._status = status


@app.command()
def sim_node_manager(
    pod_ip: Annotated[str, POD_IP],
    tls_dir: Annotated[Path, typer.Option(envvar="TLS_DIR", help="Identity node-manager.")] = Path("/mnt/tls/node-manager"),
    port: Annotated[int, typer.Option(envvar="SIM_NODE_MANAGER_PORT")] = DEFAULT_PORTS.node_manager,
    server_management_port: Annotated[int, typer.Option(envvar="SIM_MANAGEMENT_PORT")] = DEFAULT_PORTS.management,
    heartbeat_s: Annotated[float, typer.Option(envvar="SIM_HEARTBEAT_S", min=0.01, help="Period of the health look.")] = 1.0,
    reinit_s: Annotated[float, typer.Option(envvar="SIM_REINIT_S", min=0, help="How long REINIT_NPU takes.")] = 2.0,
    log_level: Annotated[str, LOG_LEVEL] = "INFO",
) -> None:
    """Run a simulated node manager until SIGTERM."""

    async def main(stop: asyncio.Event) -> None:
        tls = identity(tls_dir)
        client = HttpClient(tls)
        host = f"[{pod_ip}]" if ":" in pod_ip else pod_ip
        manager = NodeManager(client, f"https://{host}:{server_management_port}", heartbeat_s, reinit_s)
        try:
            await serve([HttpServer(manager.app(), pod_ip, port, tls, ALLOWED_SANS)], [tls], [manager.run], stop)
        finally:
            await client.close()

    raise typer.Exit(run(main, "sim-node-manager", log_level))


def main() -> None:
    """Run the command line."""
    app()
