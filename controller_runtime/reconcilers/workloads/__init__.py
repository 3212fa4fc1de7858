# SPDX-License-Identifier: Apache-2.0
"""Workload handlers: one per kind of workload that can carry an instance."""

from __future__ import annotations

from controller_runtime.reconcilers.workloads.base import WorkloadHandler
from controller_runtime.reconcilers.workloads.deployment import DeploymentHandler
from controller_runtime.reconcilers.workloads.stateful_set import StatefulSetHandler

__all__ = ["HANDLERS", "WorkloadHandler", "handler_of"]

HANDLERS: tuple[WorkloadHandler, ...] = (DeploymentHandler(), StatefulSetHandler())


def handler_of(api_version: str, kind: str) -> WorkloadHandler | None:
    """The handler of a kind, None when no handler carries it."""
    return next((each for each in HANDLERS if (each.kind.api_version, each.kind.kind) == (api_version, kind)), None)
