# SPDX-License-Identifier: Apache-2.0
"""Who owns what: the cache index by controlling owner, and which children are too many."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from controller_runtime.api.names import decimal
from controller_runtime.kube.kind import Object, controller_owner_of, name_of
from controller_runtime.kube.store import IndexFunction, Store

OWNER_INDEX = "owner"


def owner_uids(obj: Object) -> Iterable[str]:
    """Index function: the uid of the controlling owner."""
    reference = controller_owner_of(obj)
    return () if reference is None else (str(reference["uid"]),)


OWNER_INDEXES: Mapping[str, IndexFunction] = {OWNER_INDEX: owner_uids}


def owned(store: Store, uid: str) -> dict[str, Object]:
    """The children in a cache that the object of `uid` controls, by name."""
    return {name_of(child): child for child in store.by_index(OWNER_INDEX, uid)}


def label_of(obj: Mapping[str, Any], key: str) -> str | None:
    """One label of an object."""
    value = obj["metadata"].get("labels", {}).get(key)
    return None if value is None else str(value)


def surplus(children: Iterable[Object], wanted: Collection[str], index_label: str) -> list[Object]:
    """Children to delete: not `wanted` by name, and numbered. One without a number in `index_label` is left alone."""
    return [child for child in children if name_of(child) not in wanted and decimal(label_of(child, index_label)) is not None]
