# SPDX-License-Identifier: Apache-2.0
"""Names of everything below an InferServiceSet, and what can be read back from them.

Clients compute Service host names from these patterns before the objects exist, so they never change.
Seed: operator RFC, 5.4 and 9; patterns as the reference operator writes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from controller_runtime.api.labels import SERVICE_INDEX, SET_NAME


def infer_service_name(set_name: str, index: int) -> str:
    """`<set>-<i>`."""
    return f"{set_name}-{index}"


def instance_set_name(service: str, role: str) -> str:
    """`<inferservice>-<role>`."""
    return f"{service}-{role}"


def workload_name(service: str, role: str, index: int) -> str:
    """`<inferservice>-<role>-<j>`, the Deployment or StatefulSet of one instance."""
    return f"{service}-{role}-{index}"


def instance_service_name(service: str, role: str, index: int) -> str:
    """`service-<inferservice>-<role>-<j>`, the Service of one instance."""
    return f"service-{workload_name(service, role, index)}"


def pod_group_name(service: str, role: str, index: int) -> str:
    """`pg-<inferservice>-<role>-<j>`, the PodGroup of one instance."""
    return f"pg-{workload_name(service, role, index)}"


def autoscaler_name(instance_set: str) -> str:
    """`<instanceset>-scaler`, the HorizontalPodAutoscaler of a role."""
    return f"{instance_set}-scaler"


def role_service_name(name: str, service: str, role: str) -> str:
    """`<name>-<inferservice>-<role>`, a Service in front of a whole role."""
    return f"{name}-{service}-{role}"


@dataclass(frozen=True)
class ServicePlace:
    """Where an InferService stands. Both None: it stands alone and its name carries no index.

    `offset` is what its declared node ports move by: only a set counts, a number at the end of a name does not.
    """

    index: int | None
    set_name: str | None
    offset: int = 0


def service_place(name: str, labels: Mapping[str, str]) -> ServicePlace:
    """Read the place from the labels a set puts on its InferServices, else from a decimal number at the end of the name."""
    index = decimal(labels.get(SERVICE_INDEX))
    if index is not None and SET_NAME in labels:
        return ServicePlace(index, labels[SET_NAME], index)
    stem, dash, tail = name.rpartition("-")
    number = decimal(tail)
    return ServicePlace(number, stem) if dash and stem and number is not None else ServicePlace(None, None)


def decimal(text: str | None) -> int | None:
    """A whole number as an index label carries it, None for anything else. `-1` is a number, `01` and `+1` are not."""
    if text is None:
        return None
    digits = text.removeprefix("-")
    if not digits.isascii() or not digits.isdigit() or (len(digits) > 1 and digits.startswith("0")):
        return None
    return int(text)
