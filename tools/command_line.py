# SPDX-License-Identifier: Apache-2.0
"""The commands: parse, call the part that does the work, turn its error into a line and an exit code."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from types import FrameType

from tools.builder import Builder, keeps_caches
from tools.catalogue import CATALOGUE, select
from tools.doctor import render_json, render_text, run_checks
from tools.env_file import DEV_STACK, write_env_file
from tools.errors import ToolsError
from tools.packages import install_packages, missing_packages
from tools.places import Places
from tools.progress import Progress
from tools.stack_file import write_stack_file
from tools.stack_state import drop_dead_locks, ensure_stack, forget_stack
from tools.virtual_environment import ensure_virtual_environment


def main(arguments: list[str] | None = None) -> int:
    """Run one command; the value is the process's exit code."""
    options = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, _stop)
    try:
        code: int = options.run(options, Places.of_user(os.environ))
    except ToolsError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; the same command goes on where it stopped", file=sys.stderr)
        return 130
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools", description="Build, find and check what pip cannot install.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    build = commands.add_parser("build", help="make every binary present in .tools")
    build.add_argument("--only", nargs="+", default=[], metavar="NAME", help="these binaries only: " + " ".join(b.name for b in CATALOGUE))
    build.add_argument("--keep-go-caches", action="store_true", help="keep about 20 GB of Go caches for a faster next build")
    build.set_defaults(run=_build)

    doctor = commands.add_parser("doctor", help="check everything the other commands need")
    doctor.add_argument("--json", action="store_true", help="print the report as JSON")
    doctor.set_defaults(run=_doctor)

    setup = commands.add_parser("setup", help="make .venv from the lock and install missing system packages")
    setup.add_argument("--venv-only", action="store_true", help="leave system packages alone")
    setup.set_defaults(run=_setup)

    env = commands.add_parser("env", help="write .env.sh, which makes a bare pulumi or kubectl act on the dev stack")
    env.set_defaults(run=_env)

    stack = commands.add_parser("stack", help="make the dev stack known to Pulumi and free of locks of dead processes")
    stack.set_defaults(run=_stack)

    forget = commands.add_parser("forget-stack", help="drop the state of the dev stack, for a cluster that is thrown away with it")
    forget.set_defaults(run=_forget_stack)
    return parser


def _build(options: argparse.Namespace, places: Places) -> int:
    started_s = time.monotonic()
    builder = Builder(places, os.environ)
    binaries = select(options.only)
    progress = Progress(len(binaries))
    builder.build(binaries, progress)
    if not keeps_caches(os.environ, options.keep_go_caches) and builder.remove_go_caches():
        progress.say(f"removed Go's caches below {places.cache} (--keep-go-caches keeps them)")
    progress.say(f"{len(binaries)} binaries current in {places.bin} and {places.pulumi_home} after {time.monotonic() - started_s:.1f} s")
    return 0


def _doctor(options: argparse.Namespace, places: Places) -> int:
    checks = run_checks(places, os.environ)
    print(render_json(checks) if options.json else render_text(checks))
    return 0 if all(check.ok for check in checks) else 1


def _setup(options: argparse.Namespace, places: Places) -> int:
    """Make the environment even when packages cannot be installed: much of the project works without them."""
    refusal: ToolsError | None = None
    missing = [] if options.venv_only else missing_packages(os.environ)
    if missing:
        try:
            install_packages(missing, os.environ, print)
        except ToolsError as error:
            refusal = error
    ensure_virtual_environment(places, print)
    write_env_file(places)
    write_stack_file(places, DEV_STACK)
    if refusal:
        raise refusal
    return 0


def _env(_options: argparse.Namespace, places: Places) -> int:
    write_stack_file(places, DEV_STACK)
    print(f"wrote {write_env_file(places)}; use it with: . ./{places.env_file.name}")
    return 0


def _stack(_options: argparse.Namespace, places: Places) -> int:
    ensure_stack(places, DEV_STACK, os.environ)
    drop_dead_locks(places, DEV_STACK)
    return 0


def _forget_stack(_options: argparse.Namespace, places: Places) -> int:
    forget_stack(places, DEV_STACK)
    return 0


def _stop(_signal: int, _frame: FrameType | None) -> None:
    raise SystemExit(143)
