# SPDX-License-Identifier: Apache-2.0
"""`infer-operator`: run the Infer Operator.

Flags are spelled as the reference operator spells them; one dash or two. Exit codes: 0 clean stop, 2 bad command line,
78 bad setting, 75 start again (lease lost, API server not there), 1 anything else.
Seed: operator RFC, 8.3 and 10.1.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Annotated

import typer
from aiohttp import web

from controller_runtime.api.infer_validation import Capabilities
from controller_runtime.api.operator_rbac import LEASE_NAME
from controller_runtime.api.ports import OPERATOR_HEALTH, OPERATOR_METRICS
from controller_runtime.cli.go_flags import normalise
from controller_runtime.cli.log_file import LogFile, LogFileSettings
from controller_runtime.errors import ConfigError
from controller_runtime.foundation.http_server import HttpServer
from controller_runtime.foundation.log import configure_logging, get_logger
from controller_runtime.foundation.metrics import metrics_response
from controller_runtime.foundation.profiling import add_debug_routes
from controller_runtime.foundation.supervisor import run
from controller_runtime.foundation.tls import TlsFiles, TlsIdentity
from controller_runtime.kube.client import KubeClient
from controller_runtime.kube.config import load_config
from controller_runtime.kube.lease import LeaseElector
from controller_runtime.kube.manager import Manager
from controller_runtime.reconcilers.node_cleaner import DELAY_S
from controller_runtime.reconcilers.operator import COMPONENT, OperatorSettings, build_operator

LEVELS = {-1: "DEBUG", 0: "INFO", 1: "WARNING", 2: "ERROR", 3: "CRITICAL"}
LOG_FILE = Path("/var/log/mindx-dl/infer-operator/infer-operator.log")
NODE_PORTS = "30000-32767"
SWITCHES = frozenset({"isCompress", "enable-healthz", "leader-elect", "node-cleaner", "profiling", "version"})

log = get_logger(__name__)
app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@dataclass(frozen=True)
class Address:
    """Where a listener binds."""

    host: str
    port: int


@dataclass(frozen=True)
class Options:
    """The command line, understood."""

    kubeconfig: str | None
    health: Address | None
    metrics: Address
    metrics_tls: Path | None
    profiling: bool
    leader_elect: bool
    namespace: str | None
    qps: float
    burst: int
    settings: OperatorSettings


@app.command()
def infer_operator(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
    log_level: Annotated[int, typer.Option("--logLevel", min=-1, max=3, help="-1 debug, 0 info, 1 warning, 2 error, 3 critical.")] = 0,
    max_age: Annotated[int, typer.Option("--maxAge", min=7, max=700, help="Days to keep rotated log files.")] = 7,
    is_compress: Annotated[bool, typer.Option("--isCompress/--no-isCompress", help="Compress rotated log files.")] = False,
    log_file: Annotated[Path | None, typer.Option("--logFile", help=f"Copy of the log; without this flag {LOG_FILE} if writable.")] = None,
    max_backups: Annotated[int, typer.Option("--maxBackups", min=1, max=180, help="Rotated log files to keep.")] = 5,
    snapshot_timeout: Annotated[int, typer.Option("--snapshotTimeout", hidden=True)] = 60,
    enable_healthz: Annotated[bool, typer.Option("--enable-healthz/--no-enable-healthz", help="Serve /, /healthz, /readyz.")] = False,
    healthz_address: Annotated[str, typer.Option("--healthz-address", help="PORT or HOST:PORT, plain http. Host: POD_IP.")] = str(
        OPERATOR_HEALTH
    ),
    metrics_address: Annotated[str, typer.Option("--metrics-address", help="PORT or HOST:PORT of /metrics. Host: POD_IP.")] = str(
        OPERATOR_METRICS
    ),
    metrics_tls_dir: Annotated[
        Path | None, typer.Option("--metrics-tls-dir", help="ca.crt, tls.crt, tls.key, crl.pem. Without it no metrics are served.")
    ] = None,
    profiling: Annotated[
        bool, typer.Option("--profiling/--no-profiling", help="Serve /debug/profile and /debug/tasks beside /metrics.")
    ] = False,
    kubeconfig: Annotated[str | None, typer.Option("--kubeconfig", help="Before KUBECONFIG, the pod's account, ~/.kube/config.")] = None,
    leader_elect: Annotated[bool, typer.Option("--leader-elect/--no-leader-elect", help="Work only while holding the lease.")] = True,
    namespace: Annotated[
        str | None, typer.Option("--namespace", help="Of lease and settings; without this flag POD_NAMESPACE, else the account's.")
    ] = None,
    workers: Annotated[
        int, typer.Option("--concurrent-reconciles", "--workers", min=1, max=64, help="Reconciles at a time, per controller.")
    ] = 4,
    qps: Annotated[float, typer.Option("--kube-api-qps", min=1, help="API requests a second.")] = 200.0,
    burst: Annotated[int, typer.Option("--kube-api-burst", min=1, help="API requests at once.")] = 400,
    node_cleaner: Annotated[
        bool, typer.Option("--node-cleaner/--no-node-cleaner", help="Remove the pods of instances from nodes that are lost.")
    ] = True,
    node_cleaner_delay: Annotated[
        float, typer.Option("--node-cleaner-delay", min=0, help="Seconds that a node must be not ready to count as lost.")
    ] = DELAY_S,
    node_ports: Annotated[
        str, typer.Option("--service-node-port-range", help="The API server's flag of that name; node ports outside are refused.")
    ] = NODE_PORTS,
) -> None:
    """Turn InferServiceSets, InferServices and InstanceSets into workloads and Services."""
    if version:
        typer.echo(f"{COMPONENT} version: {_version()}")
        return
    level = LEVELS[log_level]
    configure_logging(COMPONENT, level)
    try:
        options = Options(
            kubeconfig=kubeconfig,
            health=_address("--healthz-address", healthz_address) if enable_healthz else None,
            metrics=_address("--metrics-address", metrics_address),
            metrics_tls=metrics_tls_dir,
            profiling=profiling,
            leader_elect=leader_elect,
            namespace=namespace,
            qps=qps,
            burst=burst,
            settings=OperatorSettings(
                workers,
                Capabilities(node_ports=_range(node_ports)),
                node_cleaner_delay_s=node_cleaner_delay if node_cleaner else None,
            ),
        )
        copy = _log_copy(log_file, LogFileSettings(log_file or LOG_FILE, max_age, max_backups, is_compress))
    except ConfigError as error:
        for problem in error.problems:
            log.error("configuration refused", err=problem)
        raise typer.Exit(error.exit_code) from error
    if snapshot_timeout != 60:
        log.warning("setting without effect, snapshots are not offered", flag="--snapshotTimeout")
    if profiling and metrics_tls_dir is None:
        log.warning("setting without effect, no metrics are served", flag="--profiling")
    with copy:
        code = run(lambda stop: operate(options, stop), COMPONENT, level)
    raise typer.Exit(code)


async def operate(options: Options, stop: asyncio.Event) -> None:
    """Run the operator with its listeners until `stop` is set."""
    config = load_config(options.kubeconfig)
    client = KubeClient(config, qps=options.qps, burst=options.burst)
    namespace = options.namespace or os.environ.get("POD_NAMESPACE") or config.namespace
    elector = LeaseElector(client, namespace, LEASE_NAME, _identity()) if options.leader_elect else None
    manager = build_operator(client, replace(options.settings, namespace=namespace), elector=elector)
    try:
        async with _health(manager, options.health), _metrics(options):
            await manager.run(stop)
    finally:
        await client.close()


def health_app(manager: Manager) -> web.Application:
    """`/` and `/healthz`: the loop turns. `/readyz`: every cache is filled."""

    async def alive(_request: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def ready(_request: web.Request) -> web.Response:
        if manager.is_synced:
            return web.Response(text="ok")
        return web.Response(status=503, text="unhealthy: caches are not filled yet")

    health = web.Application()
    health.router.add_get("/", alive)
    health.router.add_get("/healthz", alive)
    health.router.add_get("/readyz", ready)
    return health


@contextlib.asynccontextmanager
async def _health(manager: Manager, address: Address | None) -> AsyncIterator[None]:
    if address is None:
        yield
        return
    async with HttpServer(health_app(manager), address.host, address.port, None):
        log.info("health served", host=address.host, port=address.port)
        yield


@contextlib.asynccontextmanager
async def _metrics(options: Options) -> AsyncIterator[None]:
    if options.metrics_tls is None:
        yield
        return
    identity = TlsIdentity(TlsFiles.in_directory(options.metrics_tls))
    metrics = web.Application()
    metrics.router.add_get("/metrics", metrics_response)
    if options.profiling:
        add_debug_routes(metrics)
    watch = asyncio.create_task(identity.watch())
    try:
        async with HttpServer(metrics, options.metrics.host, options.metrics.port, identity):
            log.info("metrics served", host=options.metrics.host, port=options.metrics.port)
            yield
    finally:
        watch.cancel()
        await asyncio.wait({watch})


def _address(flag: str, text: str) -> Address:
    host, _, port = text.rpartition(":")
    host = host.strip("[]") or os.environ.get("POD_IP") or "127.0.0.1"
    if not port.isdigit() or not 1025 <= int(port) <= 65535:
        raise ConfigError(f"{flag} {text}: is not PORT or HOST:PORT with a port in 1025-65535. Give one.")
    return Address(host, int(port))


def _range(text: str) -> range:
    first, _, last = text.partition("-")
    if not (first.isdigit() and last.isdigit() and 1 <= int(first) <= int(last) <= 65535):
        raise ConfigError(f"--service-node-port-range {text}: is not FIRST-LAST. Give the API server's range.")
    return range(int(first), int(last) + 1)


def _log_copy(asked: Path | None, settings: LogFileSettings) -> contextlib.AbstractContextManager[object]:
    """The log file, or nothing when nobody asked for one and the default place cannot be written (a read-only root)."""
    try:
        return _redirected(LogFile(settings, sys.stdout))
    except ConfigError as error:
        if asked is not None:
            raise
        log.info("no log file, standard output only", err=error)
        return contextlib.nullcontext()


@contextlib.contextmanager
def _redirected(stream: LogFile) -> Iterator[None]:
    with stream, contextlib.redirect_stdout(stream):
        yield


def _version() -> str:
    try:
        return metadata.version("ascend-pd")
    except metadata.PackageNotFoundError:
        return "unpackaged"


def _identity() -> str:
    return f"{os.environ.get('POD_NAME') or socket.gethostname()}_{secrets.token_hex(4)}"


def main() -> None:
    """Entry point."""
    app(args=normalise(sys.argv[1:], SWITCHES))


if __name__ == "__main__":
    main()
