# SPDX-License-Identifier: Apache-2.0
"""`sim-coordinator`: the MindIE Coordinator's ports and pair picking.

Ports: inference 1025, management 1026, metrics 1028, status 1029; all mutual TLS.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer
from prometheus_client import CollectorRegistry

from controller_runtime.api.ports import CoordinatorPorts
from controller_runtime.foundation.clock import SystemClock
from controller_runtime.foundation.http_client import HttpClient
from controller_runtime.foundation.http_server import HttpServer
from controller_runtime.foundation.supervisor import run
from simulator.coordinator.control import Control
from simulator.coordinator.entry import Entry
from simulator.coordinator.fleet import Fleet
from simulator.coordinator.relay import Relay, RelaySpec
from simulator.serving import LOG_LEVEL, POD_IP, identity, serve

DEFAULT_PORTS = CoordinatorPorts()
DEFAULT_SPEC = RelaySpec()
MANAGEMENT_SANS = ("ms-controller-request-coordinator.*",)
STATUS_SANS = ("probe.*", "ms-controller-request-coordinator.*")

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def sim_coordinator(
    pod_ip: Annotated[str, POD_IP],
    tls_dir: Annotated[Path, typer.Option(envvar="TLS_DIR", help="Identity ms-coordinator.")] = Path("/mnt/tls/ms-coordinator"),
    predict_port: Annotated[int, typer.Option(envvar="SIM_PREDICT_PORT")] = DEFAULT_PORTS.predict,
    management_port: Annotated[int, typer.Option(envvar="SIM_MANAGEMENT_PORT")] = DEFAULT_PORTS.management,
    external_port: Annotated[int, typer.Option(envvar="SIM_EXTERNAL_PORT")] = DEFAULT_PORTS.external,
    status_port: Annotated[int, typer.Option(envvar="SIM_STATUS_PORT")] = DEFAULT_PORTS.status,
    model_name: Annotated[str, typer.Option(envvar="SIM_MODEL_NAME", help="Model named in answers.")] = "llama2-70B",
    max_requests: Annotated[int, typer.Option(envvar="SIM_MAX_REQUESTS", min=1, max=90000)] = 10000,
    body_limit_mib: Annotated[int, typer.Option(envvar="SIM_BODY_LIMIT_MIB", min=1, max=20)] = 1,
    max_retry: Annotated[int, typer.Option(envvar="SIM_MAX_RETRY", min=1, max=10)] = DEFAULT_SPEC.max_retry,
    schedule_timeout_s: Annotated[
        float, typer.Option(envvar="SIM_SCHEDULE_TIMEOUT_S", min=0.01, help="How long a request waits for a pair.")
    ] = DEFAULT_SPEC.schedule_timeout_s,
    first_token_timeout_s: Annotated[
        float, typer.Option(envvar="SIM_FIRST_TOKEN_TIMEOUT_S", min=0.01)
    ] = DEFAULT_SPEC.first_token_timeout_s,
    token_timeout_s: Annotated[float, typer.Option(envvar="SIM_TOKEN_TIMEOUT_S", min=0.01)] = DEFAULT_SPEC.token_timeout_s,
    cooldown_s: Annotated[float, typer.Option(envvar="SIM_COOLDOWN_S", min=0, help="How long a failed Server is the last choice.")] = 5.0,
    backup: Annotated[bool, typer.Option(envvar="SIM_BACKUP", help="A second Coordinator exists: only the master is ready.")] = False,
    log_level: Annotated[str, LOG_LEVEL] = "INFO",
) -> None:
    """Run a simulated Coordinator until SIGTERM."""
    spec = RelaySpec(
        max_retry=max_retry,
        schedule_timeout_s=schedule_timeout_s,
        first_token_timeout_s=first_token_timeout_s,
        token_timeout_s=token_timeout_s,
    )

    async def main(stop: asyncio.Event) -> None:
        tls = identity(tls_dir)
        clock = SystemClock()
        client = HttpClient(tls)
        registry = CollectorRegistry()
        fleet = Fleet(clock, cooldown_s)
        relay = Relay(fleet, client, spec)
        entry = Entry(fleet, relay, clock, model_name, max_requests, registry)
        control = Control(fleet, relay, entry, has_backup=backup)
        servers = [
            HttpServer(control.status_app(), pod_ip, status_port, tls, STATUS_SANS),
            HttpServer(control.metrics_app(registry), pod_ip, external_port, tls),
            HttpServer(control.management_app(), pod_ip, management_port, tls, MANAGEMENT_SANS),
            HttpServer(entry.app(body_limit_mib), pod_ip, predict_port, tls),
        ]
        try:
            await serve(servers, [tls], [], stop)
        finally:
            await client.close()

    raise typer.Exit(run(main, "sim-coordinator", log_level))


def main() -> None:
    """Run the command line."""
    app()
