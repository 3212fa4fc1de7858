# SPDX-License-Identifier: Apache-2.0
"""Deployments: stateless instances. Seed: operator RFC, 5.3 and 7.2."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controller_runtime.api.meta import JsonObject
from controller_runtime.kube.kind import DEPLOYMENT, Kind
from controller_runtime.reconcilers.differences import equal
from controller_runtime.reconcilers.pod_groups import must_gather
from controller_runtime.reconcilers.role_view import RoleView
from controller_runtime.reconcilers.workloads.base import build, is_current, pods_of


class DeploymentHandler:
    """An instance is one Deployment."""

    kind: Kind = DEPLOYMENT
    is_service_headless = False

    def desired(self, view: RoleView, index: int) -> JsonObject:
        """The Deployment of one instance."""
        return build(self.kind, view, index)

    def has_instance_service(self, view: RoleView) -> bool:
        """Only when the role declares no Service: then nothing else leads to its pods."""
        return not view.instance_set.spec.services

    def is_ready(self, workload: Mapping[str, Any]) -> bool:
        """Ready, available and updated pods all equal the wish (more is a rollout under way), Available and Progressing hold.

        No other pod may be there: while a new one does not start, the old one is ready in its place.
        """
        status = workload.get("status", {})
        holding = {each["type"] for each in status.get("conditions", ()) if each.get("status") == "True"}
        counts = {status.get(field, 0) for field in ("readyReplicas", "availableReplicas", "updatedReplicas")}
        is_rid_of_old_pods = status.get("replicas", 0) <= status.get("updatedReplicas", 0)
        return is_current(workload) and counts == {pods_of(workload)} and is_rid_of_old_pods and {"Available", "Progressing"} <= holding

    def waits_for_present_pods(self, live: Mapping[str, Any]) -> bool:
        """Never: new pods are made beside the old ones."""
        return False

    def must_recreate(self, desired: Mapping[str, Any], live: Mapping[str, Any]) -> bool:
        """Only the selector never changes; and a gang forms at once."""
        return must_gather(desired, live) or not equal(desired["spec"]["selector"], live["spec"].get("selector"))
