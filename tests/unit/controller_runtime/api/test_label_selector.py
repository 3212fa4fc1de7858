# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from controller_runtime.api.label_selector import selects

LABELS = {"app": "infer", "tier": "gold"}


@pytest.mark.parametrize(
    "selector, holds",
    [
        ({}, True),
        ({"matchLabels": {"app": "infer"}}, True),
        ({"matchLabels": {"app": "infer", "tier": "lead"}}, False),
        ({"matchLabels": {"zone": "a"}}, False),
        ({"matchExpressions": [{"key": "tier", "operator": "In", "values": ["gold", "lead"]}]}, True),
        ({"matchExpressions": [{"key": "tier", "operator": "In", "values": ["lead"]}]}, False),
        ({"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["gold"]}]}, False),
        ({"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["a"]}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "Exists"}]}, True),
        ({"matchExpressions": [{"key": "zone", "operator": "Exists"}]}, False),
        ({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}, False),
        ({"matchExpressions": [{"key": "app", "operator": "Like"}]}, False),
        ({"matchLabels": None, "matchExpressions": None}, True),
    ],
)
def test_a_selector_selects_as_the_api_server_does(selector: dict[str, Any], holds: bool) -> None:
    assert selects(selector, LABELS) is holds
