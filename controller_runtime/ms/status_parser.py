# SPDX-License-Identifier: Apache-2.0
"""Parse Server statuses without parsing, or keeping, the same links again and again.

In a big cluster nearly all of a status is its list of links, and that list is nearly always the one of the last
poll. So the text from `"linkStatus"` on is compared with the last one of that Server and only the rest is parsed;
equal sets of links are one object. A body where that cannot be done (other key order, anything unexpected) is
parsed whole.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from pydantic import ValidationError

from controller_runtime.api.roles import CurrentRole, RoleState
from controller_runtime.api.server_api import Resource, ServerStatus, ServerStatusV2

LINKS_KEY: Final = b'"linkStatus"'
MAX_SHARED_SETS: Final = 4096
MAX_REMEMBERED: Final = 4096
"""More than a rank table holds; reached only when many Servers have come and gone."""


@dataclass(frozen=True, slots=True)
class Report:
    """What a Server says about itself. `active`: peers whose link stands; `targets`: all peers it has."""

    role_state: RoleState
    current_role: CurrentRole
    resource: Resource
    active: frozenset[int] = frozenset()
    targets: frozenset[int] = frozenset()

    @classmethod
    def of(cls, status: ServerStatus | ServerStatusV2) -> Report:
        """The same facts from either version of the interface."""
        peers = status.link_status.peers
        targets = frozenset(peer.target for peer in peers)
        return cls(status.service.role_status, status.service.current_role, _resource_of(status), status.link_status.active, targets)


class StatusParser:
    """Parses `/v1/status` or, with `api_version` 2, `/v2/status`; remembers one body per Server."""

    def __init__(self, api_version: int) -> None:
        self._kind: type[ServerStatus] | type[ServerStatusV2] = ServerStatusV2 if api_version == 2 else ServerStatus
        self._last: dict[int, tuple[bytes, int, Report]] = {}
        self._sets: dict[frozenset[int], frozenset[int]] = {}

    def parse(self, server_id: int, body: bytes) -> Report:
        """Return the report of a body.

        Raises:
            pydantic.ValidationError: the body is not a valid status.
        """
        start = body.find(LINKS_KEY)
        report: Report | None = None
        if (last := self._last.get(server_id)) is not None:
            if last[0] == body:
                return last[2]
            if start > 0 and body[start:] == last[0][last[1] :]:
                report = self._parse_rest(body[:start], last[2])
        if report is None:
            whole = Report.of(self._kind.model_validate_json(body))
            report = replace(whole, active=self._shared(whole.active), targets=self._shared(whole.targets))
        if len(self._last) > MAX_REMEMBERED:
            self._last.clear()
        self._last[server_id] = (body, start if start > 0 else len(body), report)
        return report

    def _parse_rest(self, head: bytes, last: Report) -> Report | None:
        try:
            rest = Report.of(self._kind.model_validate_json(head.rstrip().removesuffix(b",") + b"}"))
        except ValidationError:
            return None
        return replace(rest, active=last.active, targets=last.targets)

    def _shared(self, ids: frozenset[int]) -> frozenset[int]:
        if len(self._sets) > MAX_SHARED_SETS:
            self._sets.clear()
        return self._sets.setdefault(ids, ids)


def _resource_of(status: ServerStatus | ServerStatusV2) -> Resource:
    if isinstance(status, ServerStatus):
        return status.resource
    return Resource(
        avail_slots_num=status.resource.total_avail_npu_slots_num,
        avail_block_num=status.resource.total_avail_npu_block_num,
    )
