# SPDX-License-Identifier: Apache-2.0
"""`ascend-pd`: what people run beside `pulumi`. Runs `pulumi` and `kubectl` as processes.

`status` answers what an operator asks first; `pr-summary` turns a preview into Markdown for a pull request.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from controller_runtime.cli.cluster_view import ClusterView, read_cluster
from controller_runtime.cli.preview_summary import read_preview, summarise
from controller_runtime.cli.processes import run_json
from controller_runtime.cli.status_page import StackOutputs, problems, render
from controller_runtime.errors import AscendPdError, ConfigError

app = typer.Typer(help=__doc__, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)

Stack = Annotated[str, typer.Option(help="Name of the Pulumi stack.")]


@app.command()
def status(
    stack: Stack = "dev",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
) -> None:
    """Show nodes, pods, etcd, roles, certificates and how to send a request. Exit 1 when something is wrong."""
    outputs = StackOutputs.model_validate(run_json(["pulumi", "stack", "output", "--json", "--stack", stack]))
    view: ClusterView = read_cluster(outputs.namespaces)
    found = problems(outputs, view)
    if as_json:
        typer.echo(json.dumps({"cluster": view.model_dump(mode="json"), "problems": found}))
    else:
        typer.echo(render(outputs, view, found))
    raise typer.Exit(1 if found else 0)


@app.command("pr-summary")
def pr_summary(
    preview: Annotated[Path, typer.Argument(help="What `pulumi preview --json` printed.")],
    markdown: Annotated[Path, typer.Option(help="Where the Markdown goes.")] = Path("build/preview.md"),
    summary: Annotated[Path, typer.Option("--json", help="Where the secret-free JSON goes.")] = Path("build/preview.json"),
    stack: Stack = "dev",
) -> None:
    """Summarise a preview without any secret, for a pull request."""
    found = read_preview(preview.read_text(), stack)
    markdown.write_text(summarise(found))
    summary.write_text(found.model_dump_json(indent=2) + "\n")
    typer.echo(summarise(found))


def main() -> int:
    """Run a command; errors of ours become one line each and their exit code."""
    try:
        app()
    except ConfigError as error:
        for problem in error.problems:
            print(problem, file=sys.stderr)
        return error.exit_code
    except AscendPdError as error:
        print(f"ascend-pd: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
