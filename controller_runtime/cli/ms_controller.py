# SPDX-License-Identifier: Apache-2.0
"""`ms-controller`: run the MS Controller, or only check its configuration.

Exit codes: 0 clean stop, 1 any failure (as the manual has it); with `--check-config` 0 valid, 78 not.
Seed: controller manual, `MINDIE_MS_CONTROLLER_CONFIG_FILE_PATH`.
"""

from __future__ import annotations

import os
from typing import Annotated

import typer

from controller_runtime.api.ports import ControllerPorts
from controller_runtime.errors import ConfigError
from controller_runtime.foundation.log import configure_logging, get_logger
from controller_runtime.foundation.supervisor import run
from controller_runtime.ms.config import load, log_level
from controller_runtime.ms.controller import Controller
from controller_runtime.ms.outlets import load_identities

COMPONENT = "ms-controller"

log = get_logger(__name__)
app = typer.Typer(add_completion=False)


@app.command()
def ms_controller(
    config: Annotated[str | None, typer.Option(help="Path of ms_controller.json; wins over the environment.")] = None,
    check_config: Annotated[bool, typer.Option("--check-config", help="Check the file and the identities it names, then end.")] = False,
    status_port: Annotated[int, typer.Option(help="Port of /v1/readiness and /metrics.")] = ControllerPorts().status,
) -> None:
    """Give MindIE Servers their roles and tell Coordinators whom to use."""
    configure_logging(COMPONENT, log_level(os.environ))
    try:
        settings = load(os.environ, config)
        if check_config:
            load_identities(settings)
    except ConfigError as error:
        _report(error)
        raise typer.Exit(error.exit_code if check_config else 1) from error
    if check_config:
        log.info("configuration is valid", path=str(settings.path))
        return
    code = run(Controller(settings, status_port=status_port).run, COMPONENT, log_level(os.environ, settings.config))
    raise typer.Exit(1 if code else 0)


def main() -> None:
    """Entry point."""
    app()


def _report(error: ConfigError) -> None:
    for problem in error.problems:
        log.error("configuration refused", err=problem)
    log.error("[Exit] Exit because of initializing failure")
