# SPDX-License-Identifier: Apache-2.0
"""`ascend-pd`: what people run beside `pulumi`. Runs `pulumi` and `kubectl` as processes.

`status` answers what an operator asks first; `smoke` sends a request as a user would; `client-files` lets a user
send more; `pr-summary` turns a preview into Markdown for a pull request; `rollout plan` shows the steps of an update.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from controller_runtime.cli import rollout
from controller_runtime.cli.client_access import find_entry, how_to_ask, read_client_files, write_client_files
from controller_runtime.cli.cluster_view import ClusterView, read_cluster, settled
from controller_runtime.cli.preview_summary import read_preview, summarise
from controller_runtime.cli.processes import run_json
from controller_runtime.cli.smoke import DEFAULT_PROMPT, Prober, summary
from controller_runtime.cli.status_page import StackOutputs, problems, render
from controller_runtime.errors import AscendPdError, ConfigError

CLIENT_DIRECTORY = Path("build/client")
SMOKE_SECRET = "smoke-tls"

app = typer.Typer(help=__doc__, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
app.add_typer(rollout.app, name="rollout")

Stack = Annotated[str, typer.Option(help="Name of the Pulumi stack.", envvar="PULUMI_STACK")]
ClientSecret = Annotated[str, typer.Option(help="Secret of the client identity, in the workload's namespace.")]


@app.command()
def status(
    stack: Stack = "dev",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
    wait_s: Annotated[float, typer.Option(min=0.0, help="Look again this long while something is wrong.")] = 0.0,
) -> None:
    """Show nodes, pods, etcd, roles, certificates and how to send a request. Exit 1 when something is wrong."""
    outputs = _outputs(stack)
    view = settled(lambda: read_cluster(outputs.namespaces), lambda seen: not problems(outputs, seen), wait_s)
    found = problems(outputs, view)
    if as_json:
        typer.echo(json.dumps({"cluster": view.model_dump(mode="json"), "problems": found}))
    else:
        typer.echo(render(outputs, view, found, _request_lines(outputs, view)))
    raise typer.Exit(1 if found else 0)


@app.command()
def smoke(
    stack: Stack = "dev",
    endpoint: Annotated[str | None, typer.Option(help="https://host:port to dial. Default: a node and the node port.")] = None,
    server_name: Annotated[str | None, typer.Option(help="Name the certificate must carry. Default: that of the stack.")] = None,
    secret: ClientSecret = SMOKE_SECRET,
    prompt: Annotated[str, typer.Option(help="What to ask.")] = DEFAULT_PROMPT,
    expect_trace: Annotated[bool, typer.Option(help="The answer must name both pods, as the simulated engine does.")] = True,
    timeout_s: Annotated[float, typer.Option(min=0.1, help="Bound of one attempt.")] = 60.0,
    wait_s: Annotated[float, typer.Option(min=0.0, help="Keep trying this long; 0: one attempt.")] = 30.0,
) -> None:
    """Send one request through the Coordinator. Exit 0 answered, 1 not answered, 78 bad input."""
    outputs = _outputs(stack)
    namespace = outputs.namespaces["workload"]
    if endpoint is None:
        endpoint = find_entry(outputs.endpoint, namespace, read_cluster(outputs.namespaces)).url
    if not endpoint.startswith("https://"):
        raise ConfigError(f"--endpoint: {endpoint!r} is not https://host:port. The inference entry speaks mutual TLS only.")
    name = server_name or outputs.server_name
    with tempfile.TemporaryDirectory(prefix="ascend-pd-") as directory:
        write_client_files(Path(directory), read_client_files(namespace, secret))
        verdict = Prober(endpoint, Path(directory), prompt, timeout_s, name, expect_trace=expect_trace).run(wait_s)
    typer.echo(summary(verdict))
    typer.echo(json.dumps(verdict.model_dump(exclude_none=True)))
    raise typer.Exit(0 if verdict.passed else 1)


@app.command("client-files")
def client_files(
    directory: Annotated[Path, typer.Argument(help="Where ca.crt, tls.crt, tls.key and crl.pem go.")] = CLIENT_DIRECTORY,
    stack: Stack = "dev",
    secret: ClientSecret = SMOKE_SECRET,
) -> None:
    """Write the files a client needs to send requests, readable by you alone."""
    write_client_files(directory, read_client_files(_outputs(stack).namespaces["workload"], secret))


@app.command("pr-summary")
def pr_summary(
    events: Annotated[typer.FileText, typer.Argument(help="Engine events of `pulumi preview --json`; - reads standard input.")],
    markdown: Annotated[Path, typer.Option(help="Where the Markdown goes.")] = Path("build/preview.md"),
    as_json: Annotated[Path, typer.Option("--json", help="Where the JSON goes.")] = Path("build/preview.json"),
    stack: Stack = "dev",
) -> None:
    """Summarise a preview without any secret, for a pull request. Exit 0 when it passed, 1 when not, 78 for other input."""
    found = read_preview(events, stack)
    page = summarise(found)
    markdown.write_text(page)
    as_json.write_text(found.model_dump_json(indent=2) + "\n")
    typer.echo(page)
    raise typer.Exit(0 if found.passed else 1)


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


def _outputs(stack: str) -> StackOutputs:
    return StackOutputs.model_validate(run_json(["pulumi", "stack", "output", "--json", "--stack", stack]))


def _request_lines(outputs: StackOutputs, view: ClusterView) -> str:
    """Say how to send a request, or why that does not work from outside."""
    try:
        entry = find_entry(outputs.endpoint, outputs.namespaces["workload"], view)
    except ConfigError as error:
        return str(error)
    lines = how_to_ask(entry, [sys.argv[0], "client-files"], CLIENT_DIRECTORY)
    return f". ./.env.sh\n{lines}" if Path(".env.sh").is_file() else lines


if __name__ == "__main__":
    sys.exit(main())
