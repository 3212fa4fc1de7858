# SPDX-License-Identifier: Apache-2.0
"""S1-S5, S24: what a container may do to its node.

A container's security context wins over its pod's, key by key, where Kubernetes lets both set a key. An explicit
bad value at the pod is a finding even where every container overrides it, as in the Pod Security Standards.
Seed: deployment manual, hardening of pods and images.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from controller_runtime.rules.certainty import certain_first
from controller_runtime.rules.model import Finding, Severity, rule
from controller_runtime.rules.objects import get, mapping, sequence
from controller_runtime.rules.pods import Container, Pod, containers, containers_of, pods

HOST_NAMESPACES: Final = {"hostNetwork": "network", "hostPID": "processes", "hostIPC": "shared memory"}
ALLOWED_PROFILES: Final = ("RuntimeDefault", "Localhost")
ALLOWED_CAPABILITY: Final = "NET_BIND_SERVICE"


@rule(
    "S1",
    title="Every container runs as a user that is not root",
    reason="A process that is root in its container is root on the node as soon as it leaves it.",
    control=("PSS-R running as non-root", "CIS 5.2.7", "NSA pod security: non-root containers"),
    remedy="Set securityContext.runAsNonRoot: true and runAsUser to a number above 0 (ours: 10001), at the pod or at each container",
    severity=Severity.HIGH,
    each=pods,
)
def non_root(pod: Pod) -> Iterator[Finding]:
    """Both values are demanded: `runAsNonRoot` alone trusts the image, `runAsUser` alone can be overridden by it."""
    yield from certain_first([_root_pod(pod), certain_first(_root_container(container) for container in containers_of(pod))])


def _root_pod(pod: Pod) -> Iterator[Finding]:
    if pod.security("runAsNonRoot") is False:
        yield Finding(f"{pod.place}.securityContext.runAsNonRoot", "is false, so containers may run as root")
    if pod.security("runAsUser") == 0:
        yield Finding(f"{pod.place}.securityContext.runAsUser", "is 0, which is root")


def _root_container(container: Container) -> Iterator[Finding]:
    own_non_root, own_user = container.security("runAsNonRoot"), container.security("runAsUser")
    if own_non_root is False:
        yield Finding(container.security_place("runAsNonRoot"), "is false, so the container may run as root")
    elif own_non_root is None and container.pod.security("runAsNonRoot") is None:
        yield Finding(container.security_place("runAsNonRoot"), "is not set, here or at the pod, so the container may run as root")
    elif own_non_root not in (True, None):
        yield Finding(container.security_place("runAsNonRoot"), "is no boolean")
    if own_user is None:
        if container.pod.security("runAsUser") is None:
            yield Finding(container.security_place("runAsUser"), "is not set, here or at the pod, so the image decides who runs")
    elif not _is_user(own_user):
        yield Finding(container.security_place("runAsUser"), "is 0, which is root" if own_user == 0 else "is no user number above 0")


def _is_user(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0


@rule(
    "S2",
    title="No container is privileged",
    reason="A privileged container has every capability and every device of its node.",
    control=("PSS-B privileged containers", "CIS 5.2.2", "NSA pod security"),
    remedy="Remove privileged; give a device through a device plugin instead",
    severity=Severity.CRITICAL,
    each=containers,
)
def no_privileged_container(container: Container) -> Iterator[Finding]:
    """Anything but absent or false is refused."""
    if container.security("privileged") not in (None, False):
        yield Finding(container.security_place("privileged"), "is true, so the container owns the node")


@rule(
    "S3",
    title="No process can gain privileges",
    reason="A set-user-id file in the image would make any process root.",
    control=("PSS-R privilege escalation", "CIS 5.2.6"),
    remedy="Set securityContext.allowPrivilegeEscalation: false on the container",
    severity=Severity.HIGH,
    each=containers,
)
def no_privilege_escalation(container: Container) -> Iterator[Finding]:
    """There is no pod-level value to inherit: each container says it itself."""
    value = container.security("allowPrivilegeEscalation")
    if value is not False:
        said = "is not set, which means true" if value is None else "is true"
        yield Finding(container.security_place("allowPrivilegeEscalation"), f"{said}, so a process can become more than it was started as")


@rule(
    "S4",
    title="Containers drop all capabilities",
    reason="The default set lets a process forge packets, change owners and create devices.",
    control=("PSS-R capabilities", "CIS 5.2.8", "CIS 5.2.9", "CIS 5.2.10"),
    remedy="Set securityContext.capabilities.drop to [ALL] and add nothing but NET_BIND_SERVICE",
    severity=Severity.HIGH,
    each=containers,
)
def all_capabilities_dropped(container: Container) -> Iterator[Finding]:
    """`ALL` is spelled in capitals: the runtime knows no other spelling."""
    capabilities = mapping(container.body, "securityContext", "capabilities")
    place = container.security_place("capabilities")
    yield from certain_first([_added(capabilities, place), _kept(capabilities, place)])


def _added(capabilities: object, place: str) -> Iterator[Finding]:
    for name in sequence(capabilities, "add"):
        if name != ALLOWED_CAPABILITY:
            yield Finding(f"{place}.add", f"adds {name}")


def _kept(capabilities: object, place: str) -> Iterator[Finding]:
    if "ALL" not in sequence(capabilities, "drop"):
        yield Finding(f"{place}.drop", "does not contain ALL, so the container keeps capabilities it does not need")


@rule(
    "S5",
    title="Containers run under a seccomp profile",
    reason="Without one, every system call of the kernel is open to the container.",
    control=("PSS-R seccomp", "PSS-B seccomp (Unconfined)", "CIS 5.7.2"),
    remedy="Set securityContext.seccompProfile.type: RuntimeDefault at the pod, or Localhost with a localhostProfile",
    severity=Severity.HIGH,
    each=pods,
)
def seccomp_profile(pod: Pod) -> Iterator[Finding]:
    """`Unconfined` is refused wherever it stands; what is not set is inherited from the pod."""
    place = f"{pod.place}.securityContext.seccompProfile"
    yield from certain_first(
        [
            _profile(get(pod.spec, "securityContext", "seccompProfile"), place),
            certain_first(_container_profile(container) for container in containers_of(pod)),
        ]
    )


def _container_profile(container: Container) -> Iterator[Finding]:
    own = container.security("seccompProfile")
    place = container.security_place("seccompProfile")
    if own is None and container.pod.security("seccompProfile") is None:
        yield Finding(place, "is not set, here or at the pod, so every system call is allowed")
    yield from _profile(own, place)


def _profile(profile: object, place: str) -> Iterator[Finding]:
    if profile is None:
        return
    kind = get(profile, "type")
    if kind not in ALLOWED_PROFILES:
        yield Finding(f"{place}.type", f"is {kind if kind else 'not set'}, so every system call is allowed")
    elif kind == "Localhost" and not get(profile, "localhostProfile"):
        yield Finding(f"{place}.localhostProfile", "is not set, so no profile is loaded")


@rule(
    "S24",
    title="Pods stay out of the node's namespaces and ports",
    reason="A pod in the node's network bypasses every NetworkPolicy; in its process or IPC namespace it can read other pods.",
    control=("PSS-B host namespaces", "PSS-B host ports", "CIS 5.2.3", "CIS 5.2.4", "CIS 5.2.5", "CIS 5.2.13"),
    remedy="Remove it and publish through a Service",
    severity=Severity.CRITICAL,
    each=pods,
)
def no_host_namespaces(pod: Pod) -> Iterator[Finding]:
    """A host port of 0 is none."""
    yield from certain_first([*(_host_namespace(pod, key) for key in HOST_NAMESPACES), *(_host_ports(c) for c in containers_of(pod))])


def _host_namespace(pod: Pod, key: str) -> Iterator[Finding]:
    if get(pod.spec, key) not in (None, False):
        yield Finding(f"{pod.place}.{key}", f"is true, so the pod shares the node's {HOST_NAMESPACES[key]}")


def _host_ports(container: Container) -> Iterator[Finding]:
    for index, port in enumerate(sequence(container.body, "ports")):
        if (number := get(port, "hostPort")) not in (None, 0):
            yield Finding(f"{container.place}.ports[{index}].hostPort", f"is {number}, a port of the node")
