# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from tests.support.deployed_stack import NAMESPACES, DeployedStack

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900), pytest.mark.xdist_group("lab")]


def test_up_brings_a_stack_that_has_proved_itself_with_one_request(stack: DeployedStack) -> None:
    jobs = stack.lab.get("jobs", "-n", NAMESPACES["workload"], "-l", "app=pd-proof")["items"]

    assert [job["status"]["succeeded"] for job in jobs] == [1]
    assert stack.all_ready()


def test_a_preview_of_the_deployed_stack_shows_no_change(stack: DeployedStack) -> None:
    preview = stack.preview()

    assert preview.changes == ()
    assert preview.unchanged > 100


def test_a_request_from_this_machine_is_answered_by_one_prefill_and_one_decode_pod(stack: DeployedStack) -> None:
    verdict = stack.smoke(wait_s=30)

    assert verdict.passed, verdict.reason
    assert verdict.endpoint.endswith(":31015")
    assert verdict.trace is not None
    roles = {name: pod.role for name, pod in stack.pods().items()}
    assert roles[verdict.trace.prefill.pod] == "prefill"
    assert roles[verdict.trace.decode.pod] == "decode"
