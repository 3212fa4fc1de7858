# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from controller_runtime.kube.presence import serves

ESTABLISHED = [{"type": "Established", "status": "True"}]


def crd(conditions: list[dict[str, str]] | None = None, served: bool = True, **metadata: str) -> dict[str, Any]:
    return {
        "metadata": {"name": "x", **metadata},
        "spec": {"versions": [{"name": "v1", "served": served}]},
        "status": {"conditions": ESTABLISHED if conditions is None else conditions},
    }


def test_a_kind_is_served_once_it_is_established() -> None:
    assert serves(crd(), "v1")


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(crd([]), id="no condition yet"),
        pytest.param(crd([{"type": "Established", "status": "False"}]), id="names not accepted"),
        pytest.param(crd(served=False), id="version switched off"),
        pytest.param(crd(deletionTimestamp="2026-01-01T00:00:00Z"), id="being deleted"),
        pytest.param({"metadata": {}, "spec": {}}, id="just written"),
    ],
)
def test_a_kind_is_not_served_otherwise(other: dict[str, Any]) -> None:
    assert not serves(other, "v1")


def test_another_version_says_nothing_about_ours() -> None:
    assert not serves(crd(), "v1beta1")
