# SPDX-License-Identifier: Apache-2.0
"""Wires the three controllers: which caches they read and which changes wake them.

A controller is woken by changes of its own objects that are not its own status writes, and by its children. A child that has
just appeared and says nothing about itself yet is our own write coming back, so it wakes nobody.
Seed: operator RFC, 5.2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial

from controller_runtime.api.infer_validation import Capabilities
from controller_runtime.api.labels import OPERATOR, OPERATOR_VALUE, SCHEDULING_STRATEGY
from controller_runtime.foundation.clock import Clock, SystemClock
from controller_runtime.kube.client import KubeClient
from controller_runtime.kube.controller import Controller, itself, owner
from controller_runtime.kube.events import EventRecorder
from controller_runtime.kube.informer import Informer
from controller_runtime.kube.kind import (
    HORIZONTAL_POD_AUTOSCALER,
    INFER_SERVICE,
    INFER_SERVICE_SET,
    INSTANCE_SET,
    POD_GROUP,
    SERVICE,
    Kind,
    Object,
    name_of,
    namespace_of,
    uid_of,
)
from controller_runtime.kube.lease import LeaseElector
from controller_runtime.kube.manager import Manager
from controller_runtime.kube.optional_informer import OptionalInformer
from controller_runtime.kube.presence import CrdPresence, DiscoveredPresence, Presence
from controller_runtime.kube.store import Store
from controller_runtime.kube.workqueue import Request
from controller_runtime.reconcilers.apply import ChildWriter
from controller_runtime.reconcilers.fault_handling import FaultHandling
from controller_runtime.reconcilers.faults.look import FaultCaches
from controller_runtime.reconcilers.infer_service import InferServiceReconciler
from controller_runtime.reconcilers.infer_service_set import InferServiceSetReconciler
from controller_runtime.reconcilers.instance_set import Caches, InstanceSetReconciler
from controller_runtime.reconcilers.node_cleaner import DELAY_S
from controller_runtime.reconcilers.ownership import OWNER_INDEXES, label_of, owned, owner_uids
from controller_runtime.reconcilers.priority import PRIORITY, changes_order, hands_on
from controller_runtime.reconcilers.publish import StatusPublisher
from controller_runtime.reconcilers.scaling import Scaling
from controller_runtime.reconcilers.workloads import HANDLERS

COMPONENT = "infer-operator"
MANAGED = f"{OPERATOR}={OPERATOR_VALUE}"
WORKERS = 4


@dataclass(frozen=True)
class OperatorSettings:
    """What a site may change."""

    workers: int = WORKERS
    """Reconciles at a time, per controller."""
    capabilities: Capabilities = field(default_factory=Capabilities)
    """Those that do not depend on what the cluster has installed."""
    namespace: str | None = None
    """Of the operator's ConfigMap; None: there is none, all its switches are on."""
    node_cleaner_delay_s: float | None = DELAY_S
    """How long a node must be not ready before its pods are removed; None: they never are."""


def build_operator(
    client: KubeClient,
    settings: OperatorSettings | None = None,
    *,
    elector: LeaseElector | None = None,
    clock: Clock | None = None,
) -> Manager:
    """Make the operator. It works once its `run` is called, and leads when `elector` says so (without one: always)."""
    settings = settings or OperatorSettings()
    clock = clock or SystemClock()
    client = client.fenced(elector.check) if elector is not None else client
    manager = Manager(client, elector)

    def cache(kind: Kind, label_selector: str = "") -> Informer:
        return manager.add_informer(Informer(client, kind, label_selector=label_selector, indexes=OWNER_INDEXES))

    def optional(kind: Kind, presence: Callable[[KubeClient, Kind], Presence]) -> OptionalInformer:
        found = OptionalInformer(client, kind, presence(client, kind), label_selector=MANAGED, indexes=OWNER_INDEXES)
        return manager.add_informer(found)

    sets, infer_services, instance_sets = cache(INFER_SERVICE_SET), cache(INFER_SERVICE), cache(INSTANCE_SET)
    services = cache(SERVICE, MANAGED)
    workloads = {handler.kind: cache(handler.kind, MANAGED) for handler in HANDLERS}
    pod_groups, autoscalers = optional(POD_GROUP, CrdPresence), optional(HORIZONTAL_POD_AUTOSCALER, DiscoveredPresence)
    events = EventRecorder(client, COMPONENT, clock=clock)

    def can() -> Capabilities:
        return replace(settings.capabilities, pod_groups=pod_groups.is_available, autoscaling=autoscalers.is_available)

    set_reconciler = InferServiceSetReconciler(
        sets.store, infer_services.store, ChildWriter(client), StatusPublisher(client, events), can, clock
    )
    service_reconciler = InferServiceReconciler(
        infer_services.store, instance_sets.store, ChildWriter(client), StatusPublisher(client, events), can, clock
    )
    caches = Caches(
        instance_sets.store,
        infer_services.store,
        services.store,
        {kind: each.store for kind, each in workloads.items()},
        pod_groups.store,
    )
    faults = FaultHandling(manager, events, clock, settings.namespace)
    fault_caches = FaultCaches(faults.pods.store, instance_sets.store, infer_services.store, sets.store, caches.workloads)
    rescheduler = faults.rescheduler(fault_caches)
    writer = ChildWriter(client)
    scaling = Scaling(autoscalers.store, writer, can)
    instance_set_reconciler = InstanceSetReconciler(caches, writer, StatusPublisher(client, events), rescheduler, scaling, can, clock)

    set_controller = manager.add_controller(Controller("infer-service-set", set_reconciler.reconcile, settings.workers))
    set_controller.watch(sets, itself, when=is_wish)
    set_controller.watch(infer_services, owner(INFER_SERVICE_SET), when=is_news)
    service_controller = manager.add_controller(Controller("infer-service", service_reconciler.reconcile, settings.workers))
    service_controller.watch(infer_services, itself, when=is_wish)
    service_controller.watch(instance_sets, owner(INFER_SERVICE), when=is_news)
    instance_set_controller = manager.add_controller(Controller("instance-set", instance_set_reconciler.reconcile, settings.workers))
    instance_set_controller.watch(instance_sets, itself, when=is_wish)
    instance_set_controller.watch(instance_sets, partial(siblings, instance_sets.store), when=hands_on)
    instance_set_controller.watch(infer_services, partial(roles, instance_sets.store), when=changes_order)
    for informer in (services, *workloads.values()):
        instance_set_controller.watch(informer, owner(INSTANCE_SET), when=is_news)
    for informer in (pod_groups, autoscalers):
        instance_set_controller.watch(informer, owner(INSTANCE_SET), when=is_drift)
    for optional_kind in (pod_groups, autoscalers):
        for controller, own in ((set_controller, sets), (service_controller, infer_services), (instance_set_controller, instance_sets)):
            optional_kind.on_availability(partial(controller.wake_all, own))
    faults.wake(instance_set_controller, instance_sets, fault_caches)
    if settings.node_cleaner_delay_s is not None:
        faults.clean_nodes(fault_caches, settings.node_cleaner_delay_s)
    return manager


def siblings(instance_sets: Store, obj: Object) -> Iterable[Request]:
    """The other InstanceSets of the same InferService that go by priority."""
    if label_of(obj, SCHEDULING_STRATEGY) != PRIORITY:
        return ()
    return (request for uid in owner_uids(obj) for request in _owned(instance_sets, uid) if request.name != name_of(obj))


def roles(instance_sets: Store, infer_service: Object) -> Iterable[Request]:
    """The InstanceSets of an InferService."""
    return _owned(instance_sets, uid_of(infer_service))


def _owned(store: Store, uid: str) -> Iterable[Request]:
    return (Request(namespace_of(child), name) for name, child in owned(store, uid).items())


def is_wish(old: Object | None, new: Object | None) -> bool:
    """Whether anything but the status changed."""
    if old is None or new is None:
        return True
    keys = ("uid", "generation", "labels", "annotations", "deletionTimestamp", "ownerReferences")
    return any(old["metadata"].get(key) != new["metadata"].get(key) for key in keys)


def is_news(old: Object | None, new: Object | None) -> bool:
    """Whether a child changed or went, or appeared with something to say (its status was observed)."""
    return old is not None or (new is not None and bool(new.get("status", {}).get("observedGeneration")))


def is_drift(old: Object | None, new: Object | None) -> bool:
    """Whether somebody changed or removed what we made. What its controller reports in its status is not for us."""
    return old is not None and (new is None or is_wish(old, new) or old.get("spec") != new.get("spec"))
