# SPDX-License-Identifier: Apache-2.0
"""Read the rank table, keep the last good one, say what changed.

The file is read whole each time its content may have changed: a ConfigMap update swaps the `..data` link,
so neither the file's own time stamp nor an open handle would show it. A table that is unreadable, invalid
or not yet `completed` leaves the previous one active; each distinct reason is logged once.
Seed: controller manual, `global_rank_table_file_path`, `rank_table_detecting_seconds`.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from prometheus_client import Counter, Gauge
from pydantic import ValidationError

from controller_runtime.api.rank_table import COORDINATOR_GROUP, Device, RankTable
from controller_runtime.errors import ConfigError
from controller_runtime.foundation.log import get_logger
from controller_runtime.foundation.metrics import REGISTRY
from controller_runtime.ms.file_check import DATA_MODE, file_problem
from controller_runtime.ms.rank_table_check import TableRules, table_problems
from controller_runtime.ms.server_spec import ServerKey, ServerSpec, derive_servers

log = get_logger(__name__)

_refused = Counter("ms_rank_table_refused_total", "Rank tables not used, by reason.", ["reason"], registry=REGISTRY)
_accepted = Counter("ms_rank_table_accepted_total", "Rank tables taken over.", registry=REGISTRY)
_servers = Gauge("ms_rank_table_servers", "Servers in the active rank table.", registry=REGISTRY)


@dataclass(frozen=True, slots=True)
class Layout:
    """A table as the controller uses it: Coordinator addresses and Servers, both in file order."""

    coordinators: tuple[str, ...]
    servers: tuple[ServerSpec, ...]


@dataclass(frozen=True, slots=True)
class LayoutDiff:
    """What a new table changes. A Server with other devices is removed and added."""

    removed: tuple[ServerKey, ...]
    added: tuple[ServerSpec, ...]
    kept: tuple[ServerSpec, ...]


def parse_table(data: bytes, rules: TableRules, where: str) -> Layout | None:
    """Parse and check a table; None while ClusterD has not completed it.

    Raises:
        ConfigError: with every problem; `where` names the table in them.
    """
    try:
        table = RankTable.model_validate_json(data)
    except ValidationError as error:
        raise ConfigError([f"rank table {where}: {_place(item['loc'])}: {item['msg']}. Correct it." for item in error.errors()]) from error
    if not table.is_completed:
        return None
    problems = table_problems(table, rules)
    servers = derive_servers(table, rules) if not problems else ()
    problems += [f"Server {ip} with management port {port} appears more than once. Remove one entry." for ip, port in _repeated(servers)]
    if problems:
        raise ConfigError([f"rank table {where}: {problem}" for problem in problems])
    coordinators = table.group(COORDINATOR_GROUP)
    return Layout(tuple(server.server_ip for server in coordinators.server_list) if coordinators else (), servers)


def diff(known: Mapping[ServerKey, ServerSpec], layout: Layout) -> LayoutDiff:
    """Compare what is known with a table. Removed keys are sorted; added and kept follow the file."""
    wanted = {spec.key: spec for spec in layout.servers}
    replaced = {key for key, spec in known.items() if key in wanted and _devices(spec) != _devices(wanted[key])}
    return LayoutDiff(
        removed=tuple(sorted(key for key in known if key not in wanted or key in replaced)),
        added=tuple(spec for key, spec in wanted.items() if key not in known or key in replaced),
        kept=tuple(spec for key, spec in wanted.items() if key in known and key not in replaced),
    )


class RankTableReader:
    """The table file and the last layout that was good.

    `layout` is None until the first good table. `waits_for` says in one sentence why there is none, or why the
    newest table is not used; empty when the newest table is active.
    """

    def __init__(self, path: Path, rules: TableRules, *, check_permission: bool) -> None:
        self._path = path
        self._rules = rules
        self._check_permission = check_permission
        self._digest = b""
        self.layout: Layout | None = None
        self.waits_for = "no rank table was read yet"

    async def poll(self) -> bool:
        """Read the file; True when `layout` was replaced."""
        try:
            data = await asyncio.to_thread(self._read)
        except OSError as error:
            self._refuse("unreadable", f"rank table {self._path}: {error.strerror}. The previous one stays active.")
            return False
        except ConfigError as error:
            self._refuse("permission", str(error))
            return False
        digest = hashlib.sha256(data).digest()
        if digest == self._digest:
            return False
        self._digest = digest
        return self._take(data)

    def _take(self, data: bytes) -> bool:
        try:
            layout = parse_table(data, self._rules, str(self._path))
        except ConfigError as error:
            self._refuse("invalid", f"{error} The previous one stays active.")
            return False
        if layout is None:
            self._refuse("initializing", f"rank table {self._path} is not completed. Waiting for ClusterD.")
            return False
        self.waits_for = ""
        _accepted.inc()
        _servers.set(len(layout.servers))
        log.info("rank table accepted", servers=len(layout.servers), coordinators=len(layout.coordinators))
        if not layout.coordinators:
            log.warning("rank table names no coordinator")
        if self._rules.has_roles and len(layout.servers) < 2:
            log.warning("rank table names fewer than two servers", servers=len(layout.servers))
        is_changed = layout != self.layout
        self.layout = layout
        return is_changed

    def _read(self) -> bytes:
        problem = file_problem(str(self._path), allowed_mode=DATA_MODE, check_permission=self._check_permission)
        if problem and self._path.exists():
            raise ConfigError(f"rank table {self._path} {problem} The previous one stays active.")
        return self._path.read_bytes()

    def _refuse(self, reason: str, why: str) -> None:
        if why == self.waits_for:
            return
        self.waits_for = why
        self._digest = b"" if reason in ("unreadable", "permission") else self._digest
        _refused.labels(reason).inc()
        log.warning("rank table not used", reason=reason, err=why)


def _repeated(servers: Iterable[ServerSpec]) -> list[ServerKey]:
    seen: set[ServerKey] = set()
    repeated: set[ServerKey] = set()
    for spec in servers:
        (repeated if spec.key in seen else seen).add(spec.key)
    return sorted(repeated)


def _devices(spec: ServerSpec) -> tuple[tuple[str, tuple[Device, ...]], ...]:
    return tuple((member.ip, member.devices) for member in spec.members)


def _place(loc: tuple[int | str, ...]) -> str:
    return ".".join(str(part) for part in loc) or "whole file"
