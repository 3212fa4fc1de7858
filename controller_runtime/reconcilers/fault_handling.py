# SPDX-License-Identifier: Apache-2.0
"""Wires what handles faults: the caches of pods and nodes, the switch in the operator's ConfigMap, the node cleaner.

The switch acts on every part at run time; what happened while it was off is looked at when it comes on again.
"""

from __future__ import annotations

from functools import partial

from controller_runtime.api.labels import OPERATOR, OPERATOR_VALUE
from controller_runtime.api.operator_rbac import CONFIG_NAME
from controller_runtime.foundation.clock import Clock
from controller_runtime.kube.controller import Controller, itself
from controller_runtime.kube.events import EventRecorder
from controller_runtime.kube.informer import Informer
from controller_runtime.kube.kind import CONFIG_MAP, NODE, POD
from controller_runtime.kube.manager import Manager
from controller_runtime.reconcilers.faults.look import FaultCaches
from controller_runtime.reconcilers.faults.lost_pods import LostPods
from controller_runtime.reconcilers.faults.pods import POD_INDEXES, project_pod
from controller_runtime.reconcilers.faults.rescheduler import Rescheduler
from controller_runtime.reconcilers.faults.triggers import instance_set_of, is_fault_news
from controller_runtime.reconcilers.node_cleaner import NodeCleaner
from controller_runtime.reconcilers.node_state import project_node, went_not_ready
from controller_runtime.reconcilers.operator_config import OperatorConfig, OperatorConfigReconciler

NODE_WORKERS = 4


class FaultHandling:
    """The parts, added to `manager` as they are asked for. `pods`: the cache of pods of instances."""

    def __init__(self, manager: Manager, events: EventRecorder, clock: Clock, namespace: str | None) -> None:
        self._manager, self._events, self._clock = manager, events, clock
        self._config = OperatorConfig()
        pods = Informer(manager.client, POD, label_selector=f"{OPERATOR}={OPERATOR_VALUE}", project=project_pod, indexes=POD_INDEXES)
        self.pods = manager.add_informer(pods)
        self._lost = LostPods(pods.store, clock)
        pods.add_handler(self._lost.observe)
        if namespace is not None:
            self._follow_config(namespace)

    def rescheduler(self, caches: FaultCaches) -> Rescheduler:
        """What rebuilds instances."""
        return Rescheduler(self._manager.client, caches, self._lost, self._events, self._clock, self._config.handles_faults)

    def wake(self, controller: Controller, instance_sets: Informer, caches: FaultCaches) -> None:
        """Let faults wake the controller of InstanceSets."""
        controller.watch(self.pods, instance_set_of(caches), when=is_fault_news)
        self._config.on_switch_on(partial(controller.wake_all, instance_sets))

    def clean_nodes(self, caches: FaultCaches, delay_s: float) -> None:
        """Remove pods from lost nodes."""
        nodes = self._manager.add_informer(Informer(self._manager.client, NODE, project=project_node))
        cleaner = NodeCleaner(
            self._manager.client,
            nodes.store,
            self.pods.store,
            caches.infer_services,
            caches.sets,
            self._clock,
            self._config.handles_faults,
            delay_s,
        )
        controller = self._manager.add_controller(Controller("node-cleaner", cleaner.reconcile, NODE_WORKERS))
        controller.watch(nodes, itself, when=went_not_ready)
        self._config.on_switch_on(partial(controller.wake_all, nodes))

    def _follow_config(self, namespace: str) -> None:
        config_maps = Informer(self._manager.client, CONFIG_MAP, namespace, field_selector=f"metadata.name={CONFIG_NAME}")
        self._manager.add_informer(config_maps)
        config_maps.add_handler(self._config.observe)
        reconciler = OperatorConfigReconciler(config_maps.store, self._events)
        controller = self._manager.add_controller(Controller("operator-config", reconciler.reconcile, 1))
        controller.watch(config_maps, itself)
