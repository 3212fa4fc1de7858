# SPDX-License-Identifier: Apache-2.0
"""The Pulumi program: read one typed stack configuration, declare the stack, export what users need."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pulumi
from pulumi_kubernetes import Provider

from components.images import image_references
from components.pd_cluster import PdCluster, PdClusterArgs
from components.split import role_split
from controller_runtime.api.stack import StackConfig
from controller_runtime.api.stack_rules import read_stack
from controller_runtime.errors import ConfigError

DEV_STACK = "dev"
BUILT_IMAGES = Path(__file__).resolve().parent / "build" / "images.json"


def main() -> None:
    """Declare the stack."""
    _refuse_settings_of_another_stack()
    config = read_stack(pulumi.Config("ascend-pd").require_object("stack"))
    images = image_references(config.images, BUILT_IMAGES)
    split = role_split(config)
    provider = _provider(config)
    cluster = PdCluster("pd", PdClusterArgs(config, images, split.instances), pulumi.ResourceOptions(providers={"kubernetes": provider}))
    pulumi.export("endpoint", cluster.endpoint)
    pulumi.export("namespaces", config.namespaces.model_dump())
    pulumi.export("instances", split.instances)
    pulumi.export("decision", split.reason)
    pulumi.export("certificates", cluster.certificates)
    pulumi.export("revocation_lists", cluster.revocation_lists)
    pulumi.export("proof", cluster.proof)


def _refuse_settings_of_another_stack() -> None:
    """`.env.sh` names the dev stack's file, and an option in the environment counts for every stack."""
    stack, file = pulumi.get_stack(), Path(os.environ.get("PULUMI_OPTION_CONFIG_FILE", ""))
    if file.name == f"Pulumi.{DEV_STACK}.yaml" and stack != DEV_STACK:
        raise ConfigError(
            f"stack {stack}: PULUMI_OPTION_CONFIG_FILE is the file of stack {DEV_STACK}. Run `unset PULUMI_OPTION_CONFIG_FILE`."
        )


def _provider(config: StackConfig) -> Provider:
    return Provider(
        "cluster",
        context=config.cluster.context,
        cluster_identifier=config.cluster.identifier,
        enable_server_side_apply=True,
        enable_config_map_mutable=True,
        enable_secret_mutable=True,
    )


try:
    main()
except ConfigError as error:
    for problem in error.problems:
        pulumi.log.error(problem)
    sys.exit(1)
