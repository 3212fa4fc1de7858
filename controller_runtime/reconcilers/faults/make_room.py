# SPDX-License-Identifier: Apache-2.0
"""With strategy Priority a rebuilt instance needs devices at once: what less important roles have not got ready yet gives way.

A sibling whose instances are all ready keeps them. Workloads of every kind give way, whatever kind the faulty one has.
As the reference operator does it, which looks for the faulty role's kind only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from controller_runtime.kube.kind import Object


@dataclass(frozen=True)
class Sibling:
    """Another role of the same InferService. `waiting`: its workloads that are not ready."""

    priority: int | None
    replicas: int
    ready_replicas: int
    waiting: tuple[Object, ...]


def give_way(priority: int | None, siblings: Sequence[Sibling]) -> list[Object]:
    """Workloads to delete for a rebuild in a role of `priority`; a greater number is less important."""
    if priority is None:
        return []
    return [
        workload
        for sibling in siblings
        if sibling.priority is not None and sibling.priority > priority and sibling.ready_replicas < sibling.replicas
        for workload in sibling.waiting
    ]
