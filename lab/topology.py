# SPDX-License-Identifier: Apache-2.0
"""Which nodes a lab has: classes of machines as data, and how many of each.

Labels are those the scheduling rules of a PD deployment select on. Seed: deployment manual, node labels for
heterogeneous prefill (800I A2 32G) and decode (800I A2 64G).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lab.addresses import MAX_NODES
from lab.errors import LabError

POOL_LABEL = "ascend-pd/pool"
NPU_RESOURCE = "huawei.com/Ascend910"
_A2 = {"accelerator": "huawei-Ascend910", "accelerator-type": "module-910b-8"}


@dataclass(frozen=True)
class NodeClass:
    """One kind of machine. `npus`: devices the NPU plugin offers; 0 means no plugin runs."""

    pool: str
    labels: Mapping[str, str]
    npus: int


CLASSES: Mapping[str, NodeClass] = {
    "infra": NodeClass("infra", {}, 0),
    "prefill": NodeClass("prefill", {**_A2, "hardware-type": "800I-A2-32G"}, 8),
    "decode": NodeClass("decode", {**_A2, "hardware-type": "800I-A2-64G"}, 8),
}
DEFAULT_COUNTS: Mapping[str, int] = {"infra": 3, "prefill": 1, "decode": 1}


@dataclass(frozen=True)
class NodeSpec:
    """Node `node<index>` (1-based) of a class."""

    index: int
    class_name: str

    @property
    def name(self) -> str:
        return f"node{self.index}"

    @property
    def npus(self) -> int:
        return CLASSES[self.class_name].npus

    @property
    def labels(self) -> dict[str, str]:
        """Labels the node registers with."""
        node_class = CLASSES[self.class_name]
        return {
            POOL_LABEL: node_class.pool,
            "topology.kubernetes.io/zone": f"z{self.index}",
            **node_class.labels,
        }


def nodes_of(counts: Mapping[str, int]) -> tuple[NodeSpec, ...]:
    """Number the nodes: infra first, then prefill, then decode.

    Raises:
        LabError: an unknown class, a negative count, no node, or more than 200.
    """
    for class_name, count in counts.items():
        if class_name not in CLASSES:
            raise LabError(f"--nodes: class {class_name} is unknown. Use {', '.join(CLASSES)}.")
        if count < 0:
            raise LabError(f"--nodes: {class_name} is {count}. Give zero or more.")
    names = [name for name in CLASSES for _ in range(counts.get(name, 0))]
    if not 1 <= len(names) <= MAX_NODES:
        raise LabError(f"--nodes: {len(names)} nodes, allowed 1-{MAX_NODES}. Change the counts.")
    return tuple(NodeSpec(index, name) for index, name in enumerate(names, start=1))


def parse_counts(text: str) -> dict[str, int]:
    """Read `infra=3,prefill=1,decode=1`.

    Raises:
        LabError: not of that form.
    """
    counts: dict[str, int] = {}
    for item in text.split(","):
        name, _, count = item.partition("=")
        if not count.strip().isdigit():
            raise LabError(f"--nodes: {item!r} is not CLASS=COUNT. Write for example infra=3,prefill=1,decode=1.")
        counts[name.strip()] = int(count)
    return counts
