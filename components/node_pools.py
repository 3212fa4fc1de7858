# SPDX-License-Identifier: Apache-2.0
"""Pools of existing nodes for prefill and decode: labelled when named, and checked against what roles request.

Nodes are never created. The check runs at preview, from the node objects, when the cluster can be read;
otherwise at `up`. Source: deployment manual, hardware-type labels of heterogeneous nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pulumi import ComponentResource, Output, ResourceOptions, RunError
from pulumi_kubernetes.core.v1 import Node, NodePatch

from controller_runtime.api.stack import NPU_RESOURCE, PoolSpec
from controller_runtime.errors import ConfigError


@dataclass(frozen=True)
class NodePoolsArgs:
    """`requests`: pool name -> the largest number of NPUs that one pod of a role asks of it."""

    pools: Mapping[str, PoolSpec]
    requests: Mapping[str, int]


class NodePools(ComponentResource):
    """Labels the named nodes of each pool and refuses nodes that offer fewer NPUs than a pod requests.

    `checked`: node name -> NPUs found.
    """

    TOKEN = "ascend-pd:index:NodePools"

    checked: Output[dict[str, int]]
    labelled: list[NodePatch]

    def __init__(self, name: str, args: NodePoolsArgs, opts: ResourceOptions | None = None) -> None:
        """Declare one patch and one look per named node."""
        super().__init__(self.TOKEN, name, {"pools": sorted(args.pools)}, opts)
        self.labelled = []
        found: dict[str, Output[int]] = {}
        for pool_name, pool in args.pools.items():
            for node in pool.node_names:
                self.labelled.append(self._label(name, node, pool))
                found[node] = self._look(name, node, pool_name, args.requests.get(pool_name, 0))
        self.checked = Output.all(**found)
        self.register_outputs({"checked": self.checked})

    def _label(self, name: str, node: str, pool: PoolSpec) -> NodePatch:
        metadata = {"name": node, "labels": dict(pool.node_selector), "annotations": {"pulumi.com/patchForce": "true"}}
        return NodePatch(f"{name}-{node}", metadata=metadata, opts=ResourceOptions(parent=self))

    def _look(self, name: str, node: str, pool: str, request: int) -> Output[int]:
        seen = Node.get(f"{name}-{node}-seen", node, opts=ResourceOptions(parent=self))
        return seen.status.apply(lambda status: _checked(node, pool, request, status))


def _checked(node: str, pool: str, request: int, status: Any) -> int:
    """Look as `checked_npus` does; Pulumi prints a RunError without a trace."""
    try:
        return checked_npus(node, pool, request, status)
    except ConfigError as error:
        raise RunError(str(error)) from error


def checked_npus(node: str, pool: str, request: int, status: Any) -> int:
    """Read how many NPUs a node offers.

    Raises:
        ConfigError: fewer than one pod requests.
    """
    offered = int((status.allocatable or {}).get(NPU_RESOURCE, "0"))
    if offered < request:
        raise ConfigError(
            f"node {node} of pool {pool}: offers {offered} {NPU_RESOURCE}, a pod requests {request}."
            " Start the device plugin there, lower npus_per_pod, or name other nodes."
        )
    return offered
