# SPDX-License-Identifier: Apache-2.0
"""The Pulumi program: read one typed stack configuration, declare the stack, export what users need."""

from __future__ import annotations

import sys
from pathlib import Path

import pulumi
from pulumi_kubernetes import Provider

from components.images import image_references
from components.pd_cluster import PdCluster, PdClusterArgs
from controller_runtime.api.stack_rules import read_stack
from controller_runtime.errors import ConfigError

CHECKOUT = Path(__file__).resolve().parent


def main() -> None:
    """Declare the stack."""
    config = read_stack(pulumi.Config("ascend-pd").require_object("stack"))
    provider = Provider(
        "cluster",
        context=config.cluster.context,
        cluster_identifier=config.cluster.identifier,
        enable_server_side_apply=True,
        enable_config_map_mutable=True,
        enable_secret_mutable=True,
    )
    images = image_references(config.images, CHECKOUT / "build" / "images.json")
    cluster = PdCluster("pd", PdClusterArgs(config, images), pulumi.ResourceOptions(providers={"kubernetes": provider}))
    pulumi.export("certificates", cluster.certificates)


try:
    main()
except ConfigError as error:
    for problem in error.problems:
        pulumi.log.error(problem)
    sys.exit(1)
