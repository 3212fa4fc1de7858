# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from lab.errors import LabError
from lab.topology import DEFAULT_COUNTS, NodeSpec, nodes_of, parse_counts


def test_nodes_are_numbered_infra_first_then_prefill_then_decode() -> None:
    nodes = nodes_of({"decode": 1, "infra": 2, "prefill": 1})

    assert [(node.name, node.class_name) for node in nodes] == [
        ("node1", "infra"),
        ("node2", "infra"),
        ("node3", "prefill"),
        ("node4", "decode"),
    ]


def test_the_default_lab_has_five_nodes_and_npus_on_two() -> None:
    assert [node.npus for node in nodes_of(DEFAULT_COUNTS)] == [0, 0, 0, 8, 8]


def test_prefill_and_decode_nodes_differ_in_hardware_type_without_spaces() -> None:
    prefill, decode = NodeSpec(4, "prefill").labels, NodeSpec(5, "decode").labels

    assert prefill["hardware-type"] == "800I-A2-32G"
    assert decode["hardware-type"] == "800I-A2-64G"
    assert {key: prefill[key] for key in ("accelerator", "accelerator-type")} == {
        "accelerator": "huawei-Ascend910",
        "accelerator-type": "module-910b-8",
    }
    assert "accelerator" not in NodeSpec(1, "infra").labels


def test_counts_are_read_from_the_command_line() -> None:
    assert parse_counts("infra=1, decode=2") == {"infra": 1, "decode": 2}


@pytest.mark.parametrize("text", ["infra", "infra=", "infra=-1", "infra=x"])
def test_counts_of_another_form_are_refused(text: str) -> None:
    with pytest.raises(LabError, match="is not CLASS=COUNT"):
        parse_counts(text)


@pytest.mark.parametrize(
    ("counts", "message"),
    [({"gpu": 1}, "class gpu is unknown"), ({"infra": -1}, "zero or more"), ({}, "0 nodes"), ({"infra": 201}, "201 nodes")],
)
def test_impossible_counts_are_refused(counts: dict[str, int], message: str) -> None:
    with pytest.raises(LabError, match=message):
        nodes_of(counts)
