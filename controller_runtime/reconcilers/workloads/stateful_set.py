# SPDX-License-Identifier: Apache-2.0
"""StatefulSets: instances whose pods have names and order. Seed: operator RFC, 5.3 and 7.2."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controller_runtime.api.meta import JsonObject
from controller_runtime.api.names import instance_service_name
from controller_runtime.kube.kind import STATEFUL_SET, Kind
from controller_runtime.reconcilers.differences import covers, equal
from controller_runtime.reconcilers.pod_groups import must_gather
from controller_runtime.reconcilers.role_view import RoleView
from controller_runtime.reconcilers.workloads.base import build, is_current, pods_of


class StatefulSetHandler:
    """An instance is one StatefulSet behind its own headless Service."""

    kind: Kind = STATEFUL_SET
    is_service_headless = True

    def desired(self, view: RoleView, index: int) -> JsonObject:
        """The StatefulSet of one instance."""
        workload = build(self.kind, view, index)
        workload["spec"]["serviceName"] = instance_service_name(view.service, view.role, index)
        return workload

    def has_instance_service(self, view: RoleView) -> bool:
        """Always: its pods' names resolve through it."""
        return True

    def is_ready(self, workload: Mapping[str, Any]) -> bool:
        """Ready and updated pods equal the wish, and no two revisions are under way."""
        status = workload.get("status", {})
        counts = {status.get(field, 0) for field in ("readyReplicas", "updatedReplicas")}
        current, update = status.get("currentRevision"), status.get("updateRevision")
        is_settled = not (current and update) or current == update
        return is_current(workload) and counts == {pods_of(workload)} and is_settled

    def waits_for_present_pods(self, live: Mapping[str, Any]) -> bool:
        """With pods in order it does: its controller replaces no pod before all of them are ready (kubernetes issue 67250)."""
        return (live["spec"].get("podManagementPolicy") or "OrderedReady") == "OrderedReady" and pods_of(live) > 0

    def must_recreate(self, desired: Mapping[str, Any], live: Mapping[str, Any]) -> bool:
        """Selector, Service name, pod management and volume claims never change; and a gang forms at once."""
        want, have = desired["spec"], live["spec"]
        return (
            must_gather(desired, live)
            or not equal(want["selector"], have.get("selector"))
            or want["serviceName"] != have.get("serviceName")
            or (want.get("podManagementPolicy") or "OrderedReady") != (have.get("podManagementPolicy") or "OrderedReady")
            or len(want.get("volumeClaimTemplates") or ()) != len(have.get("volumeClaimTemplates") or ())
            or not covers(have.get("volumeClaimTemplates"), want.get("volumeClaimTemplates"))
        )
