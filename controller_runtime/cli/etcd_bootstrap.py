# SPDX-License-Identifier: Apache-2.0
"""`etcd-bootstrap`: bring etcd's users and roles to the declared state and switch authentication on.

Runs as a Job with the certificate of user `root`; running it again changes nothing. It waits for etcd within a bounded time
and says every few seconds what it waits for.
Exit codes: 0 done, 75 etcd did not answer in time (run again), 78 wrong input or a certificate that is not root's.
Seed: controller manual, etcd access control.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from pydantic import ValidationError

from controller_runtime.api.base import Model
from controller_runtime.errors import ConfigError, DeadlineError
from controller_runtime.etcd.access import Grant, ensure_access, parse_grant
from controller_runtime.etcd.client import EtcdClient
from controller_runtime.etcd.errors import EtcdDeniedError, EtcdUnavailableError
from controller_runtime.foundation.log import get_logger
from controller_runtime.foundation.supervisor import run
from controller_runtime.foundation.tls import TlsFiles, TlsIdentity

COMPONENT = "etcd-bootstrap"
DEFAULT_TLS_DIR = Path("/mnt/tls/etcd-root")
PROGRESS_PERIOD_S = 5.0
RETRY_S = 0.5
MAX_CALL_S = 5.0

log = get_logger(__name__)
app = typer.Typer(add_completion=False)


class GrantsFile(Model):
    """A file of grants: user to prefixes."""

    grants: dict[str, list[str]]


@app.command()
def etcd_bootstrap(
    endpoint: Annotated[list[str], typer.Option(envvar="ETCD_ENDPOINTS", help="https://host:port of a member; repeat for each.")],
    tls_dir: Annotated[Path, typer.Option(envvar="ETCD_TLS_DIR", help="ca.crt tls.crt tls.key crl.pem of root.")] = DEFAULT_TLS_DIR,
    grant: Annotated[list[str] | None, typer.Option(help="user=/prefix/,/prefix/; repeat for each user.")] = None,
    grants_file: Annotated[Path | None, typer.Option(envvar="ETCD_GRANTS_FILE", help='JSON: {"grants": {"user": ["/prefix/"]}}')] = None,
    deadline_s: Annotated[float, typer.Option(min=1, help="Seconds to wait for etcd in all.")] = 300.0,
) -> None:
    """Create users and roles, grant prefixes, enable authentication."""

    async def main(stop: asyncio.Event) -> None:
        grants = [*map(parse_grant, grant or ()), *_from_file(grants_file)]
        _refuse_repeated(grants)
        await bootstrap(endpoint, TlsIdentity(TlsFiles.in_directory(tls_dir)), grants, deadline_s, stop)

    raise typer.Exit(run(main, COMPONENT))


async def bootstrap(endpoints: Sequence[str], tls: TlsIdentity, grants: Sequence[Grant], deadline_s: float, stop: asyncio.Event) -> None:
    """Reach the declared state or raise.

    Raises:
        DeadlineError: etcd did not answer within `deadline_s`, or `stop` was set.
        ConfigError: authentication is on and we are not root.
    """
    begin, told_s = time.monotonic(), -PROGRESS_PERIOD_S
    async with EtcdClient(endpoints, tls, call_timeout_s=min(MAX_CALL_S, deadline_s / 4)) as client:
        while True:
            try:
                changes = await ensure_access(client.auth, grants)
            except EtcdDeniedError as error:
                raise ConfigError(f"{tls.files.cert}: {error} The certificate's CN must be root.") from error
            except EtcdUnavailableError as error:
                waited_s = time.monotonic() - begin
                if waited_s - told_s >= PROGRESS_PERIOD_S:
                    told_s = waited_s
                    log.info("waiting for etcd", waited_s=round(waited_s), deadline_s=deadline_s, err=error)
                if waited_s + RETRY_S >= deadline_s or stop.is_set():
                    raise DeadlineError(f"etcd bootstrap: gave up after {waited_s:.0f} s. {error}") from error
                await asyncio.sleep(RETRY_S)
            else:
                for change in changes:
                    log.info("etcd access changed", change=change)
                log.info("etcd access is as declared", users=[grant.user for grant in grants], changes=len(changes))
                return


def main() -> None:
    """Entry point."""
    app()


def _from_file(path: Path | None) -> list[Grant]:
    if path is None:
        return []
    try:
        found = GrantsFile.model_validate_json(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror}). Mount the grants file.") from error
    except ValidationError as error:
        raise ConfigError(f'{path}: is not {{"grants": {{"user": ["/prefix/"]}}}} ({error.error_count()} problems).') from error
    return [parse_grant(f"{user}={','.join(prefixes)}") for user, prefixes in found.grants.items()]


def _refuse_repeated(grants: Sequence[Grant]) -> None:
    if not grants:
        raise ConfigError("grants: none given, so nobody but root could use etcd. Pass --grant or --grants-file.")
    users = [grant.user for grant in grants]
    if repeated := sorted({user for user in users if users.count(user) > 1}):
        raise ConfigError(f"grants: {', '.join(repeated)} is declared twice. Put all prefixes of a user into one grant.")
