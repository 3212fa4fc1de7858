# SPDX-License-Identifier: Apache-2.0
"""`sim-server`: a MindIE Server without NPUs.

Ports: data 1025, management 1026, metrics 1027, KV transfer 1030, fault injection 1031; all mutual TLS.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from controller_runtime.api.ports import ServerPorts
from controller_runtime.api.server_api import SERVER_SANS
from controller_runtime.foundation.clock import SystemClock
from controller_runtime.foundation.http_client import HttpClient
from controller_runtime.foundation.http_server import HttpServer
from controller_runtime.foundation.log import get_logger
from controller_runtime.foundation.supervisor import run
from simulator.server.data import COORDINATOR_SANS, data_app, kv_app, metrics_app
from simulator.server.engine import Engine, EngineSpec
from simulator.server.faults import Fault, FaultBoard, FaultKind
from simulator.server.inference import Inference
from simulator.server.links import LinkKeeper
from simulator.server.management import ADMIN_SANS, MANAGEMENT_SANS, AdminApi, ManagementApi
from simulator.serving import LOG_LEVEL, POD_IP, POD_NAME, identity, serve
from simulator.timing import EngineTiming

DEFAULT_PORTS = ServerPorts()
DEFAULT_SPEC = EngineSpec()

log = get_logger(__name__)
app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def sim_server(
    pod_ip: Annotated[str, POD_IP],
    pod_name: Annotated[str, POD_NAME],
    tls_dir: Annotated[Path, typer.Option(envvar="TLS_DIR", help="Identity mindie-server.")] = Path("/mnt/tls/mindie-server"),
    data_port: Annotated[int, typer.Option(envvar="SIM_DATA_PORT")] = DEFAULT_PORTS.data,
    management_port: Annotated[int, typer.Option(envvar="SIM_MANAGEMENT_PORT")] = DEFAULT_PORTS.management,
    metrics_port: Annotated[int, typer.Option(envvar="SIM_METRICS_PORT")] = DEFAULT_PORTS.metrics,
    kv_port: Annotated[int, typer.Option(envvar="SIM_KV_PORT", help="The same on all Servers.")] = DEFAULT_PORTS.transfer,
    admin_port: Annotated[int, typer.Option(envvar="SIM_ADMIN_PORT")] = DEFAULT_PORTS.admin,
    model_name: Annotated[str, typer.Option(envvar="SIM_MODEL_NAME")] = DEFAULT_SPEC.model_name,
    performance_model: Annotated[str, typer.Option(envvar="SIM_PERFORMANCE_MODEL", help="Profile that sets the pace.")] = "llama2-70B",
    machine: Annotated[str, typer.Option(envvar="SIM_MACHINE", help="Profile that sets the pace.")] = "800I-A2",
    tensor_parallel: Annotated[int, typer.Option(envvar="SIM_TENSOR_PARALLEL", min=1)] = 8,
    time_scale: Annotated[float, typer.Option(envvar="SIM_TIME_SCALE", min=0.0, help="0.1: ten times faster than the hardware.")] = 1.0,
    max_seq_len: Annotated[int, typer.Option(envvar="SIM_MAX_SEQ_LEN", min=1)] = DEFAULT_SPEC.max_seq_len,
    max_output_len: Annotated[int, typer.Option(envvar="SIM_MAX_OUTPUT_LEN", min=1)] = DEFAULT_SPEC.max_output_len,
    block_size: Annotated[int, typer.Option(envvar="SIM_BLOCK_SIZE", min=1, max=128)] = DEFAULT_SPEC.block_size,
    slots: Annotated[int, typer.Option(envvar="SIM_SLOTS", min=1, max=5000)] = DEFAULT_SPEC.slots,
    blocks: Annotated[int, typer.Option(envvar="SIM_BLOCKS", min=1)] = DEFAULT_SPEC.blocks,
    role_load_s: Annotated[float, typer.Option(envvar="SIM_ROLE_LOAD_S", min=0)] = DEFAULT_SPEC.role_load_s,
    link_period_s: Annotated[float, typer.Option(envvar="SIM_LINK_PERIOD_S", min=0.01)] = DEFAULT_SPEC.link_period_s,
    link_timeout_s: Annotated[float, typer.Option(envvar="SIM_LINK_TIMEOUT_S", min=0.01)] = DEFAULT_SPEC.link_timeout_s,
    kv_ttl_s: Annotated[float, typer.Option(envvar="SIM_KV_TTL_S", min=0.01)] = DEFAULT_SPEC.kv_ttl_s,
    fault: Annotated[list[FaultKind] | None, typer.Option(envvar="SIM_FAULTS", help="Faults active from the start.")] = None,
    log_level: Annotated[str, LOG_LEVEL] = "INFO",
) -> None:
    """Run a simulated MindIE Server until SIGTERM or a stop call."""
    spec = EngineSpec(
        model_name=model_name,
        max_seq_len=max_seq_len,
        max_output_len=max_output_len,
        block_size=block_size,
        slots=slots,
        blocks=blocks,
        role_load_s=role_load_s,
        link_period_s=link_period_s,
        link_timeout_s=link_timeout_s,
        kv_ttl_s=kv_ttl_s,
    )

    async def main(stop: asyncio.Event) -> None:
        timing = EngineTiming(time_scale, performance_model, machine, tensor_parallel)
        tls = identity(tls_dir)
        faults = FaultBoard()
        faults.replace(Fault(kind=kind) for kind in fault or ())
        engine = Engine(spec, pod_name, pod_ip, SystemClock(), faults)
        client = HttpClient(tls)
        keeper = LinkKeeper(engine, client, kv_port)
        inference = Inference(engine, keeper, timing)
        servers = [
            HttpServer(kv_app(engine), pod_ip, kv_port, tls, SERVER_SANS),
            HttpServer(data_app(inference), pod_ip, data_port, tls, COORDINATOR_SANS),
            HttpServer(metrics_app(engine, inference), pod_ip, metrics_port, tls),
            HttpServer(AdminApi(faults, keeper).app(), pod_ip, admin_port, tls, ADMIN_SANS),
            HttpServer(ManagementApi(engine, keeper, stop).app(), pod_ip, management_port, tls, MANAGEMENT_SANS),
        ]
        try:
            await serve(servers, [tls], [keeper.run], stop)
        finally:
            await client.close()

    raise typer.Exit(run(main, "sim-server", log_level))


def main() -> None:
    """Run the command line."""
    app()
