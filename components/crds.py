# SPDX-License-Identifier: Apache-2.0
"""The three custom resource definitions, rendered from the models that the operator uses."""

from __future__ import annotations

from pulumi import ComponentResource, ResourceOptions
from pulumi_kubernetes.apiextensions.v1 import CustomResourceDefinition

from controller_runtime.api.crds import all_crds


class Crds(ComponentResource):
    """InferServiceSet, InferService and InstanceSet. Deleting a definition deletes every object of its kind."""

    TOKEN = "ascend-pd:index:Crds"

    definitions: list[CustomResourceDefinition]

    def __init__(self, name: str, opts: ResourceOptions | None = None) -> None:
        """Declare one definition per kind."""
        super().__init__(self.TOKEN, name, {}, opts)
        self.definitions = [
            CustomResourceDefinition(
                f"{name}-{manifest['spec']['names']['singular']}",
                metadata=manifest["metadata"],
                spec=manifest["spec"],
                opts=ResourceOptions(parent=self),
            )
            for manifest in all_crds()
        ]
        self.register_outputs({})
