# SPDX-License-Identifier: Apache-2.0
"""The local copy of a collection, with indexes.

Invariants: an object is projected before it is stored, so memory holds only what controllers read; the indexes always
agree with the objects; stored objects are shared and never changed in place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from controller_runtime.kube.kind import Object, name_of, namespace_of, resource_version_of, uid_of

Project: TypeAlias = Callable[[Object], Object]
IndexFunction: TypeAlias = Callable[[Object], Iterable[str]]
Change: TypeAlias = tuple[Object | None, Object | None]
"""`(old, new)`: no old means appeared, no new means gone."""
Key: TypeAlias = tuple[str, str]
"""`(namespace, name)`; the namespace of a cluster-wide object is `""`."""


def without_managed_fields(obj: Object) -> Object:
    """The default projection: field ownership is often half of an object and no controller reads it."""
    obj["metadata"].pop("managedFields", None)
    return obj


class Store:
    """Objects of one kind by `(namespace, name)`. `indexes` maps an index name to a function from object to keys."""

    def __init__(self, project: Project | None = None, indexes: Mapping[str, IndexFunction] | None = None) -> None:
        self._project = project or without_managed_fields
        self._objects: dict[Key, Object] = {}
        self._functions = dict(indexes or {})
        self._indexes: dict[str, dict[str, set[Key]]] = {name: {} for name in self._functions}

    def __len__(self) -> int:
        return len(self._objects)

    def get(self, namespace: str | None, name: str) -> Object | None:
        """One object, or None when it does not exist (or is not known yet)."""
        return self._objects.get((namespace or "", name))

    def all(self) -> list[Object]:
        """Every object, ordered by namespace and name."""
        return [self._objects[key] for key in sorted(self._objects)]

    def by_index(self, index: str, key: str) -> list[Object]:
        """The objects for which the function of `index` gave `key`, ordered by namespace and name."""
        return [self._objects[found] for found in sorted(self._indexes[index].get(key, ()))]

    def upsert(self, obj: Object) -> list[Change]:
        """Take in one observed object. No change when its resource version is already here; two when its name was reused."""
        key = (namespace_of(obj), name_of(obj))
        old = self._objects.get(key)
        if old is not None and resource_version_of(old) == resource_version_of(obj):
            return []
        new = self._project(obj)
        self._unindex(key, old)
        self._objects[key] = new
        self._index(key, new)
        if old is not None and uid_of(old) != uid_of(new):
            return [(old, None), (None, new)]
        return [(old, new)]

    def remove(self, namespace: str | None, name: str) -> list[Change]:
        """Forget one object."""
        key = (namespace or "", name)
        old = self._objects.pop(key, None)
        if old is None:
            return []
        self._unindex(key, old)
        return [(old, None)]

    def replace(self, items: Iterable[Object]) -> list[Change]:
        """Make the store equal to a complete list; what is missing from it was deleted unseen."""
        seen: set[Key] = set()
        changes: list[Change] = []
        for item in items:
            seen.add((namespace_of(item), name_of(item)))
            changes += self.upsert(item)
        for namespace, name in [key for key in self._objects if key not in seen]:
            changes += self.remove(namespace, name)
        return changes

    def _index(self, key: Key, obj: Object) -> None:
        for name, function in self._functions.items():
            for value in function(obj):
                self._indexes[name].setdefault(value, set()).add(key)

    def _unindex(self, key: Key, old: Object | None) -> None:
        if old is None:
            return
        for name, function in self._functions.items():
            index = self._indexes[name]
            for value in function(old):
                if (keys := index.get(value)) is not None:
                    keys.discard(key)
                    if not keys:
                        del index[value]
