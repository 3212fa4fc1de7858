# SPDX-License-Identifier: Apache-2.0
"""Is a live object already what we want? Answered without a write, so that an unchanged cluster stays silent.

A desired object carries the digest of its own content. So a live object that has every stated field was applied from the
same template (a template that only lost a field has another digest) and was not edited since. Fields we do not state belong
to others: API server defaults, sidecars, autoscalers. Absent equals empty, and quantities compare by value, because the API server stores
`1000m` as `1` and drops empty strings.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from controller_runtime.api.labels import APPLIED_HASH
from controller_runtime.api.meta import API_VERSION, JsonObject
from controller_runtime.api.quantities import quantity

HASH_LENGTH = 16


def with_hash(desired: JsonObject) -> JsonObject:
    """A copy of `desired` that carries its own digest as an annotation. The digest depends on the content only."""
    metadata = desired["metadata"]
    annotations = {**metadata.get("annotations", {}), APPLIED_HASH: digest(desired)}
    return {**desired, "metadata": {**metadata, "annotations": annotations}}


def is_as_wanted(live: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether an apply would change nothing. A spec of our own kinds has one owner, so there an extra field is a difference too."""
    is_ours = wanted.get("apiVersion") == API_VERSION
    return covers(live, wanted) and (not is_ours or equal(live.get("spec"), wanted.get("spec")))


def fingerprint(live: Mapping[str, Any]) -> str:
    """Digest of what an apply can change: labels, annotations and spec. Equal means another apply would change nothing new."""
    metadata = live["metadata"]
    return digest([metadata.get("uid"), metadata.get("labels"), metadata.get("annotations"), live.get("spec")])


def covers(live: Any, desired: Any) -> bool:
    """Whether `live` has everything `desired` states. Lists of mappings match in any order, other lists exactly."""
    if desired is None or (live is None and _is_empty(desired)):
        return True
    if isinstance(desired, Mapping):
        return isinstance(live, Mapping) and all(covers(live.get(key), value) for key, value in desired.items())
    if isinstance(desired, list):
        if not isinstance(live, list):
            return False
        if desired and all(isinstance(item, Mapping) for item in desired):
            return all(any(covers(candidate, item) for candidate in live) for item in desired)
        return len(live) == len(desired) and all(covers(one, other) for one, other in zip(live, desired, strict=True))
    return bool(live == desired) or _same_quantity(live, desired)


def equal(one: Any, other: Any) -> bool:
    """Deep equality in which absent equals empty. For objects we own whole, where an extra field is a difference."""
    if _is_empty(one) and _is_empty(other):
        return True
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return all(equal(one.get(key), other.get(key)) for key in one.keys() | other.keys())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(equal(a, b) for a, b in zip(one, other, strict=True))
    return bool(one == other)


def digest(value: object) -> str:
    """Of any JSON value: the same content, the same digest."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:HASH_LENGTH]


def _same_quantity(one: object, other: object) -> bool:
    value = quantity(one)
    return value is not None and value == quantity(other)


def _is_empty(value: object) -> bool:
    """Absent, an empty string or list, or a mapping of nothing but these. 0 and false are values."""
    if isinstance(value, Mapping):
        return all(_is_empty(each) for each in value.values())
    return value is None or value in ("", [])
