# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.deployed_stack import DeployedStack

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900), pytest.mark.xdist_group("lab")]


def test_an_up_that_was_killed_while_it_waited_for_a_new_object_is_finished_by_the_next_one(stack: DeployedStack) -> None:
    before = stack.lab.get("jobs", "-n", "mindie")["items"]
    stack.up_killed_at("Waiting for Job", decision__decode_slo_ms=49)
    pending = _state(stack)["pending_operations"]
    assert {one["resource"]["type"] for one in pending} == {"kubernetes:batch/v1:Job"}

    cancelled = stack.pulumi("cancel", "--yes")
    assert cancelled.code == 0, cancelled.text
    done = stack.up()

    assert done.code == 0, done.text
    jobs = stack.lab.get("jobs", "-n", "mindie")["items"]
    assert [job["status"]["succeeded"] for job in jobs] == [1]
    assert {job["metadata"]["uid"] for job in jobs}.isdisjoint(job["metadata"]["uid"] for job in before)
    tidied = stack.pulumi("refresh", "--clear-pending-creates", "--yes", "--skip-preview")
    assert tidied.code == 0, tidied.text
    assert not _state(stack).get("pending_operations")
    assert stack.preview().changes == ()


def _state(stack: DeployedStack) -> dict[str, Any]:
    exported = stack.pulumi("stack", "export")
    assert exported.code == 0, exported.text
    deployment: dict[str, Any] = json.loads(exported.text)["deployment"]
    return deployment
