# SPDX-License-Identifier: Apache-2.0
"""What is wrong with an InferServiceSet, InferService or InstanceSet before anything is created for it.

Pure, total, and the same at preview and at run time. A finding belongs either to the whole service, then nothing of it
changes, or to one role, then only that role stays as it was and the others run. Each message reads
`<where>: <what>. <how to fix>.`
Seed: operator RFC, 7.1 ("validate"), limits of Kubernetes names, and the visible failures the reference operator hides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from controller_runtime.api.infer_service import PRIORITY_MAX, PRIORITY_MIN, ROLES_MAX, InferServiceSpec
from controller_runtime.api.infer_service_set import SERVICES_MAX, SERVICES_MIN, InferServiceSetSpec
from controller_runtime.api.instance_set import InstanceSetSpec, ServiceTemplate
from controller_runtime.api.label_selector import selects
from controller_runtime.api.labels import GANG_SCHEDULE, SCHEDULING_STRATEGY, index_labels
from controller_runtime.api.meta import DNS_LABEL_MAX
from controller_runtime.api.names import infer_service_name, instance_service_name, role_service_name, workload_name

STRATEGIES = ("Parallel", "Priority")
STATEFUL_SET = "StatefulSet"
STATEFUL_SET_NAME_MAX = 52
"""The revision label of its pods is the name, a dash and ten characters, and a label holds 63."""
GANG_NEEDS_PODGROUP = "label gang-schedule is true, but PodGroup not supported now, please check if volcano installed in k8s"


@dataclass(frozen=True)
class Capabilities:
    """What the operator and its cluster can do."""

    workloads: frozenset[tuple[str, str]] = frozenset({("apps/v1", "Deployment"), ("apps/v1", "StatefulSet")})
    """(apiVersion, kind) of every workload handler."""
    pod_groups: bool = False
    """Gang scheduling is available."""
    autoscaling: bool = False
    """HorizontalPodAutoscalers of autoscaling/v2 are available."""
    node_ports: range = range(30000, 32768)
    """The API server's service node port range."""


CapabilitiesNow: TypeAlias = Callable[[], Capabilities]
"""What is possible at this moment: kinds are installed and removed while the operator runs."""


@dataclass(frozen=True)
class Findings:
    """Problems, in the order of the spec. Empty: valid."""

    service: tuple[str, ...] = ()
    roles: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Per role name; only roles with problems."""

    @property
    def messages(self) -> tuple[str, ...]:
        """All of them, those of the whole service first."""
        return (*self.service, *(message for messages in self.roles.values() for message in messages))


def check_set(name: str, spec: InferServiceSetSpec, can: Capabilities) -> Findings:
    """Check a set with all its services, including node ports that overlap between two of them."""
    if not SERVICES_MIN <= spec.services <= SERVICES_MAX:
        return Findings((f"replicas: is {spec.services}, allowed {SERVICES_MIN}-{SERVICES_MAX}. Set a number in that range.",))
    offsets = range(spec.services)
    return _check(infer_service_name(name, spec.services - 1), spec.template, offsets, can)


def check_service(name: str, spec: InferServiceSpec, offset: int, can: Capabilities) -> Findings:
    """Check one InferService; `offset` is its place in its set, which its node ports move by."""
    return _check(name, spec, range(offset, offset + 1), can)


def check_role(service: str, role: InstanceSetSpec, strategy: str, offsets: range, can: Capabilities) -> tuple[str, ...]:
    """Check one role of the service or services at `offsets`; `service` is the longest of their names."""
    where = f"role {role.name}"
    return tuple(f"{where}: {message}" for message in _role_problems(service, role, strategy, offsets, can))


def check_instance_set(service: str, role: InstanceSetSpec, labels: Mapping[str, str], offset: int, can: Capabilities) -> tuple[str, ...]:
    """Check one InstanceSet, whose labels may have been written by hand. `service` and `offset` are of its InferService."""
    strategy = labels.get(SCHEDULING_STRATEGY) or STRATEGIES[0]
    if strategy not in STRATEGIES:
        return (f"label {SCHEDULING_STRATEGY} is {strategy}. Use one of {', '.join(STRATEGIES)}.",)
    if labels.get(GANG_SCHEDULE) == "true" and not can.pod_groups:
        return (f"role {role.name}: {GANG_NEEDS_PODGROUP}.",)
    return check_role(service, role, strategy, range(offset, offset + 1), can)


def _check(name: str, spec: InferServiceSpec, offsets: range, can: Capabilities) -> Findings:
    whole = [*_role_list_problems(spec), *_node_port_overlaps(spec, offsets)]
    strategy = spec.scheduling_strategy.effective
    roles = {role.name: found for role in spec.roles if (found := check_role(name, role, strategy, offsets, can))}
    return Findings(tuple(whole), roles)


def _role_list_problems(spec: InferServiceSpec) -> Iterator[str]:
    if len(spec.roles) > ROLES_MAX:
        yield f"roles: are {len(spec.roles)}, allowed {ROLES_MAX}. Split the service."
    for name, count in Counter(role.name for role in spec.roles).items():
        if count > 1:
            yield f"role {name}: is there {count} times. Give each role its own name."


def _node_port_overlaps(spec: InferServiceSpec, offsets: range) -> Iterator[str]:
    """Two services of the whole set that would ask for one port of the nodes."""
    seen: dict[tuple[int, str], str] = {}
    for offset in offsets:
        for role in spec.roles:
            for service, port in _node_ports(role):
                if not (declared := _number(port.get("nodePort"))):
                    continue
                key = declared + offset, str(port.get("protocol") or "TCP")
                place = f"service {service.name} of role {role.name}, nodePort {declared} of service {offset}"
                if key in seen:
                    yield f"{place}: becomes {key[0]}, which {seen[key]} has too. Leave as many ports between them as there are services."
                    return
                seen[key] = place


def _role_problems(service: str, role: InstanceSetSpec, strategy: str, offsets: range, can: Capabilities) -> Iterator[str]:
    if role.replicas is None:
        yield "replicas is missing. Set the number of instances; 0 switches the role off."
    if strategy == "Priority" and role.priority is not None and not PRIORITY_MIN <= role.priority <= PRIORITY_MAX:
        yield f"priority is {role.priority}, allowed {PRIORITY_MIN}-{PRIORITY_MAX}. Set a number in that range."
    if role.metadata.labels.get(GANG_SCHEDULE) == "true" and not can.pod_groups:
        yield f"{GANG_NEEDS_PODGROUP}."
    if not role.rollout.can_move:
        yield "rolloutStrategy: maxUnavailable and maxSurge are both 0, so no instance could ever be updated. Set one of them to 1."
    kind = role.workload.kind if role.workload else ""
    if role.workload is None:
        yield "workload is missing. Set apiVersion apps/v1 and kind Deployment or StatefulSet."
    elif (role.workload.api_version, kind) not in can.workloads:
        known = ", ".join(sorted(f"{version} {name}" for version, name in can.workloads))
        yield f"workload {role.workload.api_version} {kind} has no handler. Use one of {known}."
    yield from _workload_spec_problems(service, role)
    for each in role.services:
        yield from _service_problems(each, offsets, can)
    yield from _name_problems(service, role, kind)


def _workload_spec_problems(service: str, role: InstanceSetSpec) -> Iterator[str]:
    if not role.spec:
        yield "spec is missing or empty. Give the workload's spec."
        return
    pods = role.spec.get("replicas")
    if pods is not None and (_number(pods) is None or pods < 0):
        yield f"spec.replicas is {pods!r}, not a number of pods. Set 0 or more, or leave it out for 1."
    template = role.spec.get("template")
    if not isinstance(template, dict):
        yield "spec.template is missing. Give the pod template."
        return
    selector = role.spec.get("selector")
    if selector is None:
        return
    labels = {**((template.get("metadata") or {}).get("labels") or {}), **index_labels(service, role.name, 0)}
    if not isinstance(selector, dict) or not selector:
        yield "spec.selector is empty. Leave it out, then it selects the instance."
    elif not selects(selector, labels):
        yield "spec.selector does not match spec.template.metadata.labels. Make them agree, or leave the selector out."


def _service_problems(service: ServiceTemplate, offsets: range, can: Capabilities) -> Iterator[str]:
    if service.spec.get("type") != "NodePort":
        return
    for port in service.spec.get("ports") or ():
        declared = _number(port.get("nodePort"))
        if not declared:
            yield f"nodePort of service {service.name} should config as non-zero (port {port.get('port')}). Choose a node port."
            continue
        for reached in (declared + offsets.start, declared + offsets[-1]):
            if reached not in can.node_ports:
                allowed = f"{can.node_ports.start}-{can.node_ports.stop - 1}"
                yield f"nodePort {declared} of service {service.name} becomes {reached}, allowed {allowed}. Choose another node port."
                break


def _name_problems(service: str, role: InstanceSetSpec, kind: str) -> Iterator[str]:
    last = max((role.replicas or 0) - 1, 0) + role.rollout.max_surge
    names = [(role_service_name(each.name, service, role.name), "Service", DNS_LABEL_MAX) for each in role.services]
    if kind == STATEFUL_SET:
        names.append((workload_name(service, role.name, last), kind, STATEFUL_SET_NAME_MAX))
    elif kind:
        names.append((workload_name(service, role.name, last), kind, DNS_LABEL_MAX))
    if kind == STATEFUL_SET or not role.services:
        names.append((instance_service_name(service, role.name, last), "Service", DNS_LABEL_MAX))
    for name, of, limit in names:
        if len(name) > limit:
            yield f"name of {of} {name} has {len(name)} characters, limit {limit}. Shorten the name of the role, service or set."
        elif "." in name:
            yield f"name of {of} {name} has a dot. Remove it from the name of the InferService or its set."


def _node_ports(role: InstanceSetSpec) -> Iterable[tuple[ServiceTemplate, Mapping[str, Any]]]:
    return ((each, port) for each in role.services if each.spec.get("type") == "NodePort" for port in each.spec.get("ports") or ())


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
