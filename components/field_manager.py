# SPDX-License-Identifier: Apache-2.0
"""One name for whoever writes a stack's workloads, so that an interrupted `pulumi up` can be run again.

Left alone, the provider signs an object with a name made anew whenever it does not know it yet. After an interruption it
meets its own earlier write as somebody else's and refuses: server-side apply reports a conflict on every list or
structure that the API server completed (`fieldRef`, `volumeClaimTemplates`). Workloads are what an interruption hits:
they are awaited for seconds to minutes, everything else is written at once. Source: pulumi-kubernetes, field managers.
"""

from __future__ import annotations

from collections.abc import Mapping

from pulumi import ResourceTransformationArgs, ResourceTransformationResult

ANNOTATION = "pulumi.com/patchFieldManager"
FIELD_MANAGER = "ascend-pd"
AWAITED = ("Deployment", "StatefulSet", "Job", "InferServiceSet")


def sign(args: ResourceTransformationArgs) -> ResourceTransformationResult | None:
    """Transformation of resources: put the name on every awaited workload."""
    metadata = args.props.get("metadata")
    if not args.type_.startswith("kubernetes:") or args.type_.rpartition(":")[2] not in AWAITED or not isinstance(metadata, Mapping):
        return None
    annotations = {**(metadata.get("annotations") or {}), ANNOTATION: FIELD_MANAGER}
    return ResourceTransformationResult({**args.props, "metadata": {**metadata, "annotations": annotations}}, args.opts)
