# SPDX-License-Identifier: Apache-2.0
"""`sim-clusterd`: watches pods and nodes, keeps the global rank table, pushes tables and faults over gRPC.

Ports: gRPC 8899 for Controllers, health 8900 for probes; both mutual TLS. Needs from the API server:
get, list, watch on pods of the stack's namespace and on nodes; create ConfigMaps there, get and patch its own.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Final

import typer
from aiohttp import web
from grpclib.server import Server

from controller_runtime.api.edges import CONTROLLER_APP, COORDINATOR_APP, SERVER_APP
from controller_runtime.api.ports import CLUSTERD, CLUSTERD_HEALTH
from controller_runtime.clusterd.proto.fault_pb2 import FaultMsgSignal
from controller_runtime.foundation.http_server import HttpServer
from controller_runtime.foundation.log import get_logger
from controller_runtime.foundation.supervisor import run
from controller_runtime.foundation.tls import TlsIdentity
from controller_runtime.kube.client import KubeClient
from controller_runtime.kube.config import load_config
from simulator.clusterd.latest import Latest
from simulator.clusterd.publisher import Publisher, Watched
from simulator.clusterd.service import Admission, ConfigService, FaultService
from simulator.serving import LOG_LEVEL, POD_IP, identity, serve

HEALTH_PORT: Final = CLUSTERD_HEALTH
HEALTH_SANS: Final = ("probe.*", "clusterd.*")

log = get_logger(__name__)
app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


class GrpcListener:
    """The two services on one port, behind mutual TLS."""

    def __init__(self, host: str, port: int, tls: TlsIdentity, job_id: str, tables: Latest[str], faults: Latest[FaultMsgSignal]) -> None:
        admission = Admission(job_id)
        self._host, self._port, self._tls = host, port, tls
        self._streams: tuple[Latest[str], Latest[FaultMsgSignal]] = (tables, faults)
        self._server = Server([ConfigService(admission, tables), FaultService(admission, faults)])

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop`."""
        forget = self._tls.on_change(self._end_streams)
        await self._server.start(self._host, self._port, ssl=self._tls.server_context_for(("h2",)))
        log.info("listening", host=self._host, port=self._port, protocol="grpc")
        try:
            await stop.wait()
        finally:
            forget()
            self._end_streams()
            self._server.close()
            await self._server.wait_closed()

    def _end_streams(self) -> None:
        for stream in self._streams:
            stream.end_subscriptions()


@app.command()
def sim_clusterd(
    pod_ip: Annotated[str, POD_IP],
    tls_dir: Annotated[Path, typer.Option(envvar="TLS_DIR", help="Identity clusterd.")] = Path("/mnt/tls/clusterd"),
    port: Annotated[int, typer.Option(envvar="SIM_GRPC_PORT")] = CLUSTERD,
    health_port: Annotated[int, typer.Option(envvar="SIM_HEALTH_PORT", help="GET /v1/health for probes.")] = HEALTH_PORT,
    namespace: Annotated[str, typer.Option(envvar="SIM_NAMESPACE", help="Namespace of the stack's pods and ConfigMap.")] = "mindie",
    config_map: Annotated[str, typer.Option(envvar="SIM_CONFIG_MAP", help="ConfigMap to keep.")] = "global-ranktable",
    controller_selector: Annotated[str, typer.Option(envvar="SIM_CONTROLLER_SELECTOR")] = f"app={CONTROLLER_APP}",
    coordinator_selector: Annotated[str, typer.Option(envvar="SIM_COORDINATOR_SELECTOR")] = f"app={COORDINATOR_APP}",
    server_selector: Annotated[str, typer.Option(envvar="SIM_SERVER_SELECTOR")] = f"app={SERVER_APP}",
    job_id: Annotated[str, typer.Option(envvar="SIM_JOB_ID", help="Job that Controllers ask for; empty: any.")] = "",
    kubeconfig: Annotated[str | None, typer.Option(help="Default: KUBECONFIG, in-cluster, ~/.kube/config.")] = None,
    log_level: Annotated[str, LOG_LEVEL] = "INFO",
) -> None:
    """Run a simulated ClusterD until SIGTERM."""
    watched = Watched(namespace, controller_selector, coordinator_selector, server_selector, config_map)

    async def main(stop: asyncio.Event) -> None:
        tls = identity(tls_dir)
        client = KubeClient(load_config(kubeconfig), field_manager="sim-clusterd")
        tables: Latest[str] = Latest()
        faults: Latest[FaultMsgSignal] = Latest()
        publisher = Publisher(client, watched, job_id, tables, faults)
        listener = GrpcListener(pod_ip, port, tls, job_id, tables, faults)
        try:
            await serve(
                [HttpServer(_health_app(publisher), pod_ip, health_port, tls, HEALTH_SANS)], [tls], [publisher.run, listener.run], stop
            )
        finally:
            await client.close()

    raise typer.Exit(run(main, "sim-clusterd", log_level))


def _health_app(publisher: Publisher) -> web.Application:
    async def health(request: web.Request) -> web.Response:
        is_synced = publisher.is_synced
        return web.json_response(
            {"message": "" if is_synced else "caches are not filled yet", "status": "0"}, status=200 if is_synced else 503
        )

    app = web.Application()
    app.router.add_get("/v1/health", health)
    app.router.add_get("/v1/startup", health)
    app.router.add_get("/v1/readiness", health)
    return app


def main() -> None:
    """Run the command line."""
    app()
