# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import time
from collections.abc import Mapping

import pytest

from tests.support.deployed_stack import NAMESPACES, DeployedStack
from tests.support.real_lab import until

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900), pytest.mark.xdist_group("lab")]

POLICY = ("networkpolicy", "allow-mindie-server", "-n", NAMESPACES["workload"])
TRANSFER_PORT = 1030
FAILS_WITHIN_S = 10.0
RESET = "for process in $(pgrep -x sim-server); do nsenter --target $process --net ss --kill dport = :%d; done"


def test_a_request_fails_in_clear_words_while_prefill_and_decode_cannot_exchange_their_cache(stack: DeployedStack) -> None:
    assert stack.smoke(wait_s=30).passed
    allowed = stack.lab.get(*POLICY)["spec"]
    cut = {side: [rule for rule in allowed[side] if rule["ports"][0]["port"] != TRANSFER_PORT] for side in ("ingress", "egress")}
    assert cut["ingress"] != allowed["ingress"]
    assert cut["egress"] != allowed["egress"]

    _set_rules(stack, cut)
    try:
        until("no new link gets through", lambda: not _reset_and_ask(stack), timeout_s=30)
        begin = time.monotonic()
        failed = stack.smoke(timeout_s=60)
        assert time.monotonic() - begin < FAILS_WITHIN_S
    finally:
        _set_rules(stack, allowed)

    assert not failed.passed
    assert "status 503" in failed.reason
    assert "link" in failed.reason
    healed = stack.smoke(wait_s=90)
    assert healed.passed, healed.reason


def _reset_and_ask(stack: DeployedStack) -> bool:
    """Policies govern new connections; one that stands is reset, as any network does now and then."""
    stack.lab.run("exec", "node5", "--", "sh", "-c", RESET % TRANSFER_PORT)
    return stack.smoke().passed


def _set_rules(stack: DeployedStack, rules: Mapping[str, object]) -> None:
    changes = {side: rules[side] for side in ("ingress", "egress")}
    stack.lab.kubectl("patch", *POLICY, "--type=merge", "-p", json.dumps({"spec": changes}))
