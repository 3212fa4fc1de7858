# SPDX-License-Identifier: Apache-2.0
"""The three CustomResourceDefinitions, rendered from the models so that the two never differ.

A structural schema has no references, no null unions and no titles; defaults stay out of it because an
absent field must stay absent in what the user wrote.
Seed: operator RFC, 6.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from pydantic import BaseModel

from controller_runtime.api.infer_service import InferService
from controller_runtime.api.infer_service_set import InferServiceSet
from controller_runtime.api.instance_set import InstanceSet
from controller_runtime.api.meta import GROUP, VERSION, JsonObject

DROPPED = frozenset({"title", "default", "$defs"})
SCALE = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}


class CrdKind(NamedTuple):
    """One kind and what the API server must know besides its schema."""

    model: type[BaseModel]
    plural: str
    short_name: str
    scale: JsonObject | None


KINDS = (
    CrdKind(InferServiceSet, "inferservicesets", "iss", SCALE),
    CrdKind(InferService, "inferservices", "is", None),
    CrdKind(InstanceSet, "instancesets", "ist", {**SCALE, "labelSelectorPath": ".status.labelSelector"}),
)


def all_crds() -> list[dict[str, Any]]:
    """Render InferServiceSet, InferService and InstanceSet, in that order. A fresh copy on each call."""
    return [_crd(kind) for kind in KINDS]


def _crd(kind: CrdKind) -> JsonObject:
    name = kind.model.__name__
    subresources: JsonObject = {"status": {}}
    if kind.scale is not None:
        subresources["scale"] = dict(kind.scale)
    version = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": structural_schema(kind.model)},
        "subresources": subresources,
        "additionalPrinterColumns": [
            {"name": "Ready", "type": "integer", "jsonPath": ".status.readyReplicas"},
            {"name": "Desired", "type": "integer", "jsonPath": ".status.replicas"},
            {"name": "Reason", "type": "string", "jsonPath": ".status.conditions[?(@.type=='Ready')].reason", "priority": 1},
            {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        ],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": name,
                "listKind": f"{name}List",
                "plural": kind.plural,
                "singular": name.lower(),
                "shortNames": [kind.short_name],
            },
            "versions": [version],
        },
    }


def structural_schema(model: type[BaseModel]) -> JsonObject:
    """Turn a model into an OpenAPI v3 structural schema; apiVersion, kind and metadata are the API server's."""
    full = model.model_json_schema(by_alias=True)
    schema = _structural(full, full["$defs"])
    schema["properties"].update({"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"}})
    schema["required"] = ["metadata", "spec"]
    return schema


def _structural(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> JsonObject:
    merged = dict(schema)
    for part in merged.pop("anyOf", ()):
        if part != {"type": "null"}:
            merged = {**part, **merged}
    if "$ref" in merged:
        target = definitions[merged.pop("$ref").rsplit("/", 1)[1]]
        return _structural({**target, **merged}, definitions)
    merged = {key: value for key, value in merged.items() if key not in DROPPED}
    if "x-kubernetes-preserve-unknown-fields" in merged:
        merged.pop("additionalProperties", None)
        return merged
    if "properties" in merged:
        merged["properties"] = {name: _structural(each, definitions) for name, each in merged["properties"].items()}
    for nested in ("items", "additionalProperties"):
        if nested in merged:
            merged[nested] = _structural(merged[nested], definitions)
    return merged
