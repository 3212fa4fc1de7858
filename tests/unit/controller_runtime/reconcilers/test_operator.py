# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from controller_runtime.reconcilers.operator import is_news, is_wish

BEFORE: dict[str, Any] = {"metadata": {"uid": "u", "generation": 1, "labels": {"a": "b"}}, "status": {}}


def after(status: Any = None, **metadata: Any) -> dict[str, Any]:
    return {"metadata": {**BEFORE["metadata"], "resourceVersion": "2", **metadata}, "status": status or {}}


@pytest.mark.parametrize(
    "change",
    [{"generation": 2}, {"labels": {}}, {"annotations": {"a": "b"}}, {"deletionTimestamp": "t"}, {"uid": "v"}, {"ownerReferences": [1]}],
)
def test_every_change_but_one_of_the_status_is_a_wish(change: dict[str, Any]) -> None:
    assert is_wish(BEFORE, after(**change))


def test_a_status_write_of_our_own_wakes_nobody() -> None:
    assert not is_wish(BEFORE, after({"replicas": 1}))


def test_appearing_and_going_are_wishes() -> None:
    assert is_wish(None, BEFORE)
    assert is_wish(BEFORE, None)


def test_a_child_is_news_when_it_changed_went_or_was_already_observed() -> None:
    assert is_news(BEFORE, after({"replicas": 1}))
    assert is_news(BEFORE, None)
    assert is_news(None, after({"observedGeneration": 1}))


def test_a_child_that_was_just_made_is_no_news() -> None:
    assert not is_news(None, BEFORE)
    assert not is_news(None, {"metadata": {}})
