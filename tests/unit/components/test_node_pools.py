# SPDX-License-Identifier: Apache-2.0
"""Pools of nodes: labels, and the look at what the nodes offer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from pulumi import RunError

from components.node_pools import NodePools, NodePoolsArgs, checked_npus
from controller_runtime.api.stack import PoolSpec
from controller_runtime.errors import ConfigError
from tests.support.pulumi_mocks import NPUS, Inventory, declare

NPU = "huawei.com/Ascend910"


def pools(requested: int = 8, *, preview: bool = False) -> Inventory:
    spec = PoolSpec(hardware_type="800I A2(32G)", node_selector={"hardware-type": "a2"}, nodes=2, node_names=("n1", "n2"))
    args = NodePoolsArgs({"prefill": spec}, {"prefill": requested})
    return declare(lambda: NodePools("pools", args), preview=preview)


def status(offered: str | None) -> Any:
    return SimpleNamespace(allocatable={} if offered is None else {NPU: offered})


@pytest.mark.parametrize("preview", [False, True])
def test_each_named_node_is_labelled_and_looked_at(preview: bool) -> None:
    assert pools(preview=preview).names() == [
        ("ascend-pd:index:NodePools", "pools"),
        ("kubernetes:core/v1:Node", "pools-n1-seen"),
        ("kubernetes:core/v1:Node", "pools-n2-seen"),
        ("kubernetes:core/v1:NodePatch", "pools-n1"),
        ("kubernetes:core/v1:NodePatch", "pools-n2"),
    ]


def test_a_node_gets_the_labels_its_pool_selects() -> None:
    patch = next(each for each in pools().of("kubernetes:core/v1:NodePatch") if each.metadata["name"] == "n1")

    assert patch.metadata["labels"] == {"hardware-type": "a2"}


def test_a_node_that_offers_what_a_pod_requests_is_accepted() -> None:
    assert checked_npus("n1", "prefill", 8, status("8")) == 8


@pytest.mark.parametrize("offered", ["4", "0", None])
def test_a_node_that_offers_less_is_refused_with_both_numbers(offered: str | None) -> None:
    with pytest.raises(ConfigError) as refused:
        checked_npus("n1", "prefill", 8, status(offered))

    assert str(refused.value) == (
        f"node n1 of pool prefill: offers {offered or 0} {NPU}, a pod requests 8."
        " Start the device plugin there, lower npus_per_pod, or name other nodes."
    )


def test_a_stack_with_such_a_node_is_not_declared() -> None:
    pools(requested=int(NPUS))

    with pytest.raises(RunError, match=r"node n[12] of pool prefill: offers 16 .*, a pod requests 17\."):
        pools(requested=int(NPUS) + 1)
