# SPDX-License-Identifier: Apache-2.0
"""A valid stack configuration and changes to it."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

VALID: dict[str, Any] = {
    "network": {"api_server": [{"cidr": "10.99.0.1/32", "port": 26043}]},
    "pools": {
        "prefill": {"hardware_type": "800I A2(32G)", "node_selector": {"hardware-type": "800I-A2-32G"}, "node_names": ["node4"]},
        "decode": {"hardware_type": "800I A2(64G)", "node_selector": {"hardware-type": "800I-A2-64G"}, "node_names": ["node5"]},
    },
    "workload": {
        "heterogeneous": True,
        "prefill": {"instances": 1, "npus_per_pod": 4, "pool": "prefill"},
        "decode": {"instances": 1, "npus_per_pod": 4, "pool": "decode"},
    },
}


def stack(changes: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Copy the valid stack and apply changes."""
    return changed(VALID, changes or {})


def changed(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Copy a stack and apply changes: dotted path -> value, None removes the setting."""
    raw = copy.deepcopy(dict(base))
    for path, value in changes.items():
        *parents, last = path.split(".")
        node = raw
        for part in parents:
            node = node.setdefault(part, {})
        if value is None:
            node.pop(last, None)
        else:
            node[last] = copy.deepcopy(value)
    return raw
