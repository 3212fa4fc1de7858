# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from lab.api_client import ApiClient, ApiError
from lab.lifecycle import ready_nodes


class _Answers(ApiClient):
    """Answers `nodes` without a server."""

    def __init__(self, *nodes: dict[str, Any]) -> None:
        self._nodes = nodes

    def get(self, path: str) -> dict[str, Any]:
        if not self._nodes:
            raise ApiError("no answer", 0)
        return {"items": list(self._nodes)}


def _node(name: str, status: str, heartbeat: str = "2026-01-01T10:00:00Z") -> dict[str, Any]:
    return {"metadata": {"name": name}, "status": {"conditions": [{"type": "Ready", "status": status, "lastHeartbeatTime": heartbeat}]}}


def test_only_nodes_that_say_ready_count() -> None:
    assert ready_nodes(_Answers(_node("a", "True"), _node("b", "Unknown"), {"metadata": {"name": "c"}})) == {"a"}


def test_a_node_that_said_ready_before_it_was_started_does_not_count() -> None:
    client = _Answers(_node("old", "True", "2026-01-01T10:00:00Z"), _node("new", "True", "2026-01-01T10:00:05Z"))

    assert ready_nodes(client, datetime(2026, 1, 1, 10, 0, 5, 900, UTC)) == {"new"}


def test_no_node_is_ready_while_the_api_server_does_not_answer() -> None:
    assert ready_nodes(_Answers()) == set()
