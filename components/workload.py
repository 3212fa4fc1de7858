# SPDX-License-Identifier: Apache-2.0
"""What the long-running components of a stack share: account, Deployment, Service, disruption budget."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pulumi import Resource, ResourceOptions
from pulumi_kubernetes.apps.v1 import Deployment
from pulumi_kubernetes.core.v1 import ConfigMap, Service
from pulumi_kubernetes.policy.v1 import PodDisruptionBudget

from components.pods import Manifest

CONFIG_ANNOTATION = "ascend-pd.io/config-hash"
READY_TIMEOUT_S = 300


@dataclass(frozen=True)
class Place:
    """Where objects of one component go and what they are called. `prefix`: of resource names in the program."""

    prefix: str
    name: str
    namespace: str
    labels: Mapping[str, str]

    def metadata(self, name: str | None = None) -> Any:
        """Metadata of an object with these labels."""
        return {"name": name or self.name, "namespace": self.namespace, "labels": dict(self.labels)}


def deployment(
    place: Place,
    replicas: int,
    template: Manifest,
    opts: ResourceOptions,
    depends_on: Sequence[Resource] = (),
    *,
    one_ready: bool = False,
) -> Deployment:
    """Declare a Deployment that Pulumi awaits. Two replicas on different hosts replace one at a time.

    `one_ready`: by design one replica is Ready and the others stand by. Then nobody can await all of them, and replacing
    one at a time would wait for ever for the standby: all are replaced together.
    """
    spec: dict[str, Any] = {
        "replicas": replicas,
        "selector": {"matchLabels": dict(place.labels)},
        "template": template,
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": replicas if one_ready else 1, "maxSurge": 0}},
    }
    metadata = place.metadata()
    metadata["annotations"] = {"pulumi.com/skipAwait": "true"} if one_ready else {"pulumi.com/timeoutSeconds": str(READY_TIMEOUT_S)}
    return Deployment(
        f"{place.prefix}-deployment",
        metadata=metadata,
        spec=spec,
        opts=ResourceOptions.merge(opts, ResourceOptions(depends_on=list(depends_on))),
    )


def service(
    place: Place, name: str, ports: Mapping[str, int], opts: ResourceOptions, node_ports: Mapping[str, int] | None = None
) -> Service:
    """Declare a Service. `node_ports`: port name -> fixed port on every node; none means cluster-internal.

    Nobody awaits it: its pods' Deployment is awaited already, with a bound of ours.
    """
    listed = [
        {"name": port_name, "port": port, **({"nodePort": node_ports[port_name]} if node_ports and port_name in node_ports else {})}
        for port_name, port in ports.items()
    ]
    spec: dict[str, Any] = {"selector": dict(place.labels), "ports": listed, "type": "NodePort" if node_ports else "ClusterIP"}
    if node_ports:
        spec["externalTrafficPolicy"] = "Cluster"
    metadata = place.metadata(name)
    metadata["annotations"] = {"pulumi.com/skipAwait": "true"}
    return Service(f"{place.prefix}-service", metadata=metadata, spec=spec, opts=opts)


def disruption_budget(place: Place, opts: ResourceOptions) -> PodDisruptionBudget:
    """Let a drain take one pod at a time."""
    spec: Any = {"maxUnavailable": 1, "selector": {"matchLabels": dict(place.labels)}}
    return PodDisruptionBudget(f"{place.prefix}-budget", metadata=place.metadata(), spec=spec, opts=opts)


def config_map(place: Place, name: str, files: Mapping[str, Any], opts: ResourceOptions) -> tuple[ConfigMap, str]:
    """Declare a ConfigMap of JSON files; returns it with the hash that its pods carry, so that a change rolls them."""
    data = {file: json.dumps(content, indent=2, sort_keys=True) for file, content in files.items()}
    digest = hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:16]
    return ConfigMap(f"{place.prefix}-{name}", metadata=place.metadata(name), data=data, opts=opts), digest
