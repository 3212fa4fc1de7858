# SPDX-License-Identifier: Apache-2.0
"""Kubernetes objects as rules see them: plain mappings, possibly wrong, possibly not known yet.

Nothing here trusts a type. What is absent or of the wrong type reads as empty; the API server refuses the latter.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple, TypeAlias, TypeGuard

from controller_runtime.rules.certainty import NotKnown, NotKnownError, known

KubeObject: TypeAlias = Mapping[str, object]
EMPTY: KubeObject = {}

_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")


class ObjectRef(NamedTuple):
    """Names an object for people and for exemptions."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


def reference(obj: KubeObject) -> ObjectRef:
    """Name the object. Never raises: an unknown name reads as a note."""
    metadata = obj.get("metadata")
    fields = metadata if isinstance(metadata, Mapping) else EMPTY
    name = fields.get("name") or fields.get("generateName") or "(unnamed)"
    return ObjectRef(_shown(obj.get("kind", "(no kind)")), _shown(fields.get("namespace", "")), _shown(name))


def members(obj: KubeObject) -> Iterator[KubeObject]:
    """The object itself, or the objects of a list."""
    kind = obj.get("kind")
    if not (isinstance(kind, str) and kind.endswith("List") and is_sequence(obj.get("items"))):
        yield obj
        return
    for item in sequence(obj, "items"):
        if isinstance(item, Mapping):
            yield {"apiVersion": obj.get("apiVersion", ""), "kind": kind.removesuffix("List"), **item}


def get(node: object, *path: str) -> object:
    """Value at a path of keys, None where there is none. Raises NotKnownError on an unknown value on the way or at the end."""
    for key in path:
        if not isinstance(node, Mapping):
            return None
        node = known(node.get(key))
    return node


def mapping(node: object, *path: str) -> KubeObject:
    """Mapping at a path, empty where there is none."""
    value = get(node, *path)
    return value if isinstance(value, Mapping) else EMPTY


def sequence(node: object, *path: str) -> Iterator[object]:
    """Items of the list at a path, known ones first. Raises NotKnownError at the end when one was not known."""
    value = get(node, *path)
    if not is_sequence(value):
        return
    unknown: NotKnown | None = None
    for item in value:
        if isinstance(item, NotKnown):
            unknown = unknown or item
        else:
            yield item
    if unknown is not None:
        raise NotKnownError(unknown)


def is_sequence(value: object) -> TypeGuard[Sequence[object]]:
    """True for a list of values; text is none."""
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def kind_of(obj: KubeObject) -> str:
    """Kind without the suffix of a partial update."""
    kind = obj.get("kind")
    return kind.removesuffix("Patch") if isinstance(kind, str) else ""


def label(item: object, index: int) -> str:
    """How a list item is called in a place: its name, else its position."""
    name = item.get("name") if isinstance(item, Mapping) else None
    return name if isinstance(name, str) and name else str(index)


@lru_cache(maxsize=4096)
def words(name: str) -> tuple[str, ...]:
    """Lower-case words of a key in any spelling: `tls_enable`, `tlsEnabled`, `--tls-enable`, `TLS_ENABLE`."""
    return tuple(word.lower() for word in _WORD.findall(name))


def _shown(value: object) -> str:
    return "(not known yet)" if isinstance(value, NotKnown) else str(value)
