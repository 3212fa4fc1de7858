# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from controller_runtime.api.labels import SERVICE_INDEX
from controller_runtime.kube.kind import Object
from controller_runtime.kube.store import Store
from controller_runtime.reconcilers.ownership import OWNER_INDEXES, owned, surplus


def child(name: str, *, owner: str | None = "u1", index: str | None = None, controller: bool = True) -> Object:
    metadata: Object = {"name": name, "namespace": "ns", "resourceVersion": "1", "uid": name}
    if owner:
        metadata["ownerReferences"] = [{"uid": owner, "kind": "K", "name": "k", "controller": controller}]
    if index is not None:
        metadata["labels"] = {SERVICE_INDEX: index}
    return {"metadata": metadata}


def test_children_are_those_an_object_controls_whatever_their_labels() -> None:
    store = Store(indexes=OWNER_INDEXES)
    store.replace([child("mine"), child("other", owner="u2"), child("nobody", owner=None), child("watched", controller=False)])

    assert list(owned(store, "u1")) == ["mine"]


@pytest.mark.parametrize(
    "index, deleted",
    [
        pytest.param("abc", False, id="V7-no-number"),
        pytest.param(None, False, id="V7-no-label"),
        pytest.param("-1", True, id="V7-negative"),
        pytest.param("7", True, id="V7-too-high"),
        pytest.param("", False, id="empty"),
    ],
)
def test_only_numbered_children_are_surplus(index: str | None, deleted: bool) -> None:
    found = surplus([child("x-9", index=index), child("x-0", index="0")], {"x-0", "x-1"}, SERVICE_INDEX)

    assert bool(found) is deleted
