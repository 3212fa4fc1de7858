# SPDX-License-Identifier: Apache-2.0
"""Does a set of labels satisfy a metav1.LabelSelector? The API server's rules, for a check before it is asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """All of `matchLabels` and `matchExpressions` hold. An empty selector selects everything."""
    pairs = selector.get("matchLabels") or {}
    return all(labels.get(key) == value for key, value in pairs.items()) and all(
        _holds(expression, labels) for expression in selector.get("matchExpressions") or ()
    )


def _holds(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    key, values = expression.get("key", ""), expression.get("values") or ()
    match expression.get("operator"):
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
        case _:
            return False
