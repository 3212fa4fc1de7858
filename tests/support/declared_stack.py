# SPDX-License-Identifier: Apache-2.0
"""Whole stacks declared under mocks: from the project's stack files, or from the valid test stack with changes."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from components.images import NAMES
from components.pd_cluster import PdCluster, PdClusterArgs
from components.split import role_split
from controller_runtime.api.stack import StackConfig
from controller_runtime.api.stack_rules import read_stack
from tests.support.pulumi_mocks import Inventory, Registered, declare
from tests.support.stacks import stack

CHECKOUT = Path(__file__).resolve().parents[2]
IMAGES = {name: f"localhost/ascend-pd-{name}@sha256:{index * 64}" for name, index in zip(NAMES, "abc", strict=True)}
ENGINE: dict[str, Any] = {
    "clusterd": {"mode": "external", "host": "clusterd.mindx-dl.svc", "peer": {"pods": {"app": "clusterd"}, "port": 8899}},
    "workload.engine": {"image": "registry.example/mindie:2.1", "settings": "mindie-settings"},
}
"""Changes that put a real engine and a site's ClusterD into a stack."""


def stack_file(name: str) -> StackConfig:
    """Read one of the project's stack files, such as `dev`."""
    return read_stack(yaml.safe_load((CHECKOUT / f"Pulumi.{name}.yaml").read_text())["config"]["ascend-pd:stack"])


def trial_stack(changes: Mapping[str, Any] | None = None) -> StackConfig:
    """The valid test stack with changes: dotted path -> value."""
    return read_stack(stack(changes))


@functools.cache
def _declared(text: str, preview: bool) -> Inventory:
    config = StackConfig.model_validate_json(text)
    args = PdClusterArgs(config, IMAGES, role_split(config).instances)
    return declare(lambda: PdCluster("pd", args), preview=preview)


def declared(config: StackConfig, *, preview: bool = False) -> Inventory:
    """The whole stack `pd`, declared once per configuration; only look at it."""
    return _declared(config.model_dump_json(), preview)


def pod_templates(resource: Registered) -> Iterator[dict[str, Any]]:
    """Every pod template inside an object."""
    spec = resource.inputs.get("spec") or {}
    if resource.type.endswith(":InferServiceSet"):
        yield from (role["spec"]["template"] for role in spec["template"]["roles"])
    elif isinstance(spec, dict) and "template" in spec:
        yield spec["template"]


def containers(template: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Containers of a pod template, those for its start first."""
    return [*template["spec"].get("initContainers", []), *template["spec"]["containers"]]
