# SPDX-License-Identifier: Apache-2.0
"""Pod templates as every part of the stack writes them: non-root, read-only, no token, files from Secrets.

Plain Kubernetes mappings (camelCase), so that one builder serves typed resources and custom resources.
Source: deployment manual, hardening of the sample manifests; Pod Security Standards, restricted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from controller_runtime.api.pki import Identity
from controller_runtime.api.stack import Resources

Manifest = dict[str, Any]

CONTAINER_UID = 10001
SECRET_MODE = 0o440
CONFIG_MODE = 0o640
CONFIG_ROOT = "/mnt/configmap"
LOST_NODE_TOLERATION_S = 30

CONTAINER_SECURITY: Manifest = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
POD_SECURITY: Manifest = {
    "runAsNonRoot": True,
    "runAsUser": CONTAINER_UID,
    "runAsGroup": CONTAINER_UID,
    "fsGroup": CONTAINER_UID,
    "fsGroupChangePolicy": "OnRootMismatch",
    "seccompProfile": {"type": "RuntimeDefault"},
}


@dataclass(frozen=True)
class Volume:
    """A volume and where the container mounts it."""

    name: str
    path: str
    source: Manifest
    read_only: bool = True


@dataclass(frozen=True)
class Container:
    """One container. `env`: literal values; POD_IP, POD_NAME, POD_NAMESPACE and HOST_IP are always there."""

    name: str
    image: str | Any
    command: Sequence[str]
    resources: Resources
    args: Sequence[str] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    volumes: Sequence[Volume] = ()
    ports: Mapping[str, int] = field(default_factory=dict)
    probes: Mapping[str, Manifest] = field(default_factory=dict)
    npus: int = 0
    npu_resource: str = ""
    working_dir: str | None = None


def tls_volume(identity: Identity) -> Volume:
    """Mount the Secret of an identity below /mnt/tls."""
    return Volume(f"tls-{identity.name}", identity.directory, {"secret": {"secretName": identity.secret, "defaultMode": SECRET_MODE}})


def config_volume(config_map: str, path: str, *, optional: bool = False) -> Volume:
    """Mount a whole ConfigMap as a directory, so that changes reach the pod."""
    source = {"configMap": {"name": config_map, "defaultMode": CONFIG_MODE}}
    if optional:
        source["configMap"]["optional"] = True
    return Volume(config_map, path, source)


def scratch_volume(name: str, path: str, size: str = "64Mi") -> Volume:
    """Give the container an empty writable directory of bounded size."""
    return Volume(name, path, {"emptyDir": {"sizeLimit": size}}, read_only=False)


def exec_probe(command: Sequence[str], *, period_s: int, timeout_s: int, failures: int) -> Manifest:
    """Probe by a command in the container: the way through mutual TLS."""
    return {"exec": {"command": list(command)}, "periodSeconds": period_s, "timeoutSeconds": timeout_s, "failureThreshold": failures}


def http_probe(path: str, port: int, *, period_s: int, timeout_s: int, failures: int) -> Manifest:
    """Probe by plain HTTP from the node, for the two ports that allow it."""
    return {"httpGet": {"path": path, "port": port}, "periodSeconds": period_s, "timeoutSeconds": timeout_s, "failureThreshold": failures}


def tls_probe(
    port: int,
    path: str,
    *,
    period_s: int = 10,
    failures: int = 3,
    identity: Identity | None = None,
    command: Sequence[str] = ("probe",),
) -> Manifest:
    """Probe a mutual-TLS listener with the `probe` entry point, as `probe` unless another identity is given."""
    tls_dir = [] if identity is None else ["--tls-dir", identity.directory]
    return exec_probe([*command, "--port", str(port), "--path", path, *tls_dir], period_s=period_s, timeout_s=5, failures=failures)


def pod_template(
    *,
    labels: Mapping[str, str],
    containers: Sequence[Container],
    service_account: str | None,
    annotations: Mapping[str, Any] | None = None,
    node_selector: Mapping[str, str] | None = None,
    affinity: Manifest | None = None,
    mounts_token: bool = False,
    grace_s: int = 30,
    restart_policy: str | None = None,
    init_containers: Sequence[Container] = (),
) -> Manifest:
    """Assemble a pod template that passes the restricted profile."""
    volumes = {volume.name: volume.source for container in (*init_containers, *containers) for volume in container.volumes}
    spec: Manifest = {
        "automountServiceAccountToken": mounts_token,
        "enableServiceLinks": False,
        "securityContext": POD_SECURITY,
        "terminationGracePeriodSeconds": grace_s,
        "containers": [_container(container) for container in containers],
        "volumes": [{"name": name, **source} for name, source in volumes.items()],
    }
    if init_containers:
        spec["initContainers"] = [_container(container) for container in init_containers]
    if service_account is not None:
        spec["serviceAccountName"] = service_account
    if node_selector:
        spec["nodeSelector"] = dict(node_selector)
    if affinity is not None:
        spec["affinity"] = affinity
    if restart_policy is not None:
        spec["restartPolicy"] = restart_policy
    else:
        spec["tolerations"] = [
            {
                "key": f"node.kubernetes.io/{reason}",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": LOST_NODE_TOLERATION_S,
            }
            for reason in ("not-ready", "unreachable")
        ]
    metadata: Manifest = {"labels": dict(labels)}
    if annotations:
        metadata["annotations"] = dict(annotations)
    return {"metadata": metadata, "spec": spec}


def spread_over_hosts(labels: Mapping[str, str]) -> Manifest:
    """Demand one pod with these labels per host."""
    term = {"labelSelector": {"matchLabels": dict(labels)}, "topologyKey": "kubernetes.io/hostname"}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def _container(container: Container) -> Manifest:
    resources = container.resources
    limits: Manifest = {"memory": resources.memory_limit or resources.memory}
    requests: Manifest = {"cpu": resources.cpu, "memory": resources.memory}
    if container.npus:
        limits[container.npu_resource] = requests[container.npu_resource] = str(container.npus)
    built: Manifest = {
        "name": container.name,
        "image": container.image,
        "imagePullPolicy": "IfNotPresent",
        "command": list(container.command),
        "env": [*_downward_env(), *({"name": name, "value": value} for name, value in container.env.items())],
        "resources": {"requests": requests, "limits": limits},
        "securityContext": CONTAINER_SECURITY,
        "volumeMounts": [_mount(volume) for volume in container.volumes],
    }
    if container.working_dir is not None:
        built["workingDir"] = container.working_dir
    if container.args:
        built["args"] = list(container.args)
    if container.ports:
        built["ports"] = [{"name": name, "containerPort": port} for name, port in container.ports.items()]
    return built | {f"{kind}Probe": probe for kind, probe in container.probes.items()}


def _mount(volume: Volume) -> Manifest:
    mount: Manifest = {"name": volume.name, "mountPath": volume.path}
    return mount | {"readOnly": True} if volume.read_only else mount


def _downward_env() -> list[Manifest]:
    fields = {
        "POD_IP": "status.podIP",
        "POD_NAME": "metadata.name",
        "POD_NAMESPACE": "metadata.namespace",
        "HOST_IP": "status.hostIP",
    }
    return [{"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in fields.items()]
