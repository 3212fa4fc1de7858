# SPDX-License-Identifier: Apache-2.0
"""`sim-fault`: put faults on a simulated Server, or heal it, from inside its pod.

kubectl exec pd-0-decode-0-0 -c server -- sim-fault slow --factor 5
kubectl exec pd-0-decode-0-0 -c server -- sim-fault drop-link hang
kubectl exec pd-0-decode-0-0 -c server -- sim-fault --heal
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from controller_runtime.api.ports import ServerPorts
from controller_runtime.api.server_api import SERVER_SANS
from controller_runtime.errors import StatusError
from controller_runtime.foundation.http_client import HttpClient
from controller_runtime.foundation.supervisor import run
from simulator.server.faults import FAULTS_PATH, Fault, FaultKind, FaultList
from simulator.serving import POD_IP, identity

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def sim_fault(
    pod_ip: Annotated[str, POD_IP],
    kinds: Annotated[list[FaultKind] | None, typer.Argument(help="Faults to put on; they replace all others. None: show.")] = None,
    factor: Annotated[float, typer.Option(min=1, help="How much slower `slow` makes it.")] = 10.0,
    peer: Annotated[int | None, typer.Option(help="Server id that `drop-link` cuts off; default all.")] = None,
    heal: Annotated[bool, typer.Option(help="Remove all faults.")] = False,
    tls_dir: Annotated[Path, typer.Option(envvar="TLS_DIR", help="Identity mindie-server.")] = Path("/mnt/tls/mindie-server"),
    admin_port: Annotated[int, typer.Option(envvar="SIM_ADMIN_PORT")] = ServerPorts().admin,
) -> None:
    """Replace, show or remove the faults of one Server; prints what is active then, as JSON."""
    wanted = FaultList(faults=tuple(Fault(kind=kind, factor=factor, peer=peer) for kind in kinds or ()))
    host = f"[{pod_ip}]" if ":" in pod_ip else pod_ip

    async def main(stop: asyncio.Event) -> None:
        client = HttpClient(identity(tls_dir))
        method = "PUT" if kinds or heal else "GET"
        try:
            reply = await client.request(
                method, f"https://{host}:{admin_port}{FAULTS_PATH}", json=wanted.model_dump(mode="json"), expect_sans=SERVER_SANS
            )
        finally:
            await client.close()
        if reply.status != 200:
            raise StatusError(f"{host}:{admin_port}: answered {reply.status}. Check that this is a simulated Server.", reply.status)
        typer.echo(FaultList.model_validate_json(reply.body).model_dump_json(exclude_none=True))

    raise typer.Exit(run(main, "sim-fault", "WARN"))


def main() -> None:
    """Run the command line."""
    app()


if __name__ == "__main__":
    main()
