# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from tests.support.deployed_stack import DeployedStack
from tests.support.real_lab import until

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900), pytest.mark.xdist_group("lab")]


def test_a_second_decode_instance_changes_one_object_and_serves_while_nothing_else_restarts(stack: DeployedStack) -> None:
    before = stack.states()
    changes = [(one.operation, one.kind, one.properties) for one in stack.preview(workload__decode__instances=2).changes]
    assert changes == [("update", "kubernetes:mindcluster.huawei.com/v1:InferServiceSet", ("spec.template.roles[1].replicas",))]

    done = stack.up(workload__decode__instances=2)

    assert done.code == 0, done.text
    decodes = {name for name, pod in stack.pods().items() if pod.role == "decode"}
    assert len(decodes) == 2
    served: set[str] = set()

    def has_answered_everywhere() -> bool:
        trace = stack.smoke(wait_s=10).trace
        assert trace is not None
        served.add(trace.decode.pod)
        return served == decodes

    until("both decode pods have served", has_answered_everywhere, timeout_s=60)
    after = stack.states()
    assert {name: after.get(name) for name in before} == before
    assert after.keys() - before.keys() == decodes - before.keys()
