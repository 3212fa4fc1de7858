# SPDX-License-Identifier: Apache-2.0
"""What a real engine and a real ClusterD need of the rest of a stack. Source: deployment manual, configuration rules."""

from __future__ import annotations

from collections.abc import Iterator

from controller_runtime.api.problems import Problem
from controller_runtime.api.stack import StackConfig
from controller_runtime.api.units import quantity

DOWNWARD_ENVIRONMENT = ("POD_IP", "POD_NAME", "POD_NAMESPACE", "HOST_IP")
"""Variables that every container has already."""


def engine_rules(config: StackConfig) -> Iterator[Problem]:
    """Check `workload.engine` against image, variables, memory and ClusterD."""
    engine = config.workload.engine
    if engine is None:
        return
    if is_unreleased(image_tag(engine.image)) and "@" not in engine.image:
        yield Problem(
            "workload.engine.image", engine.image, "may name another image tomorrow", "Name a released tag, better with its digest"
        )
    for variable in engine.environment:
        if variable in DOWNWARD_ENVIRONMENT:
            yield Problem(f"workload.engine.environment.{variable}", None, "every container has it from Kubernetes", "Remove it")
    if config.workload.time_scale != 1.0:
        yield Problem("workload.time_scale", config.workload.time_scale, "scales the simulated engine only", "Remove it")
    if config.clusterd.mode == "simulated":
        yield Problem("clusterd.mode", "simulated", "knows nothing of the devices of a real engine", "Use external")
    for field in ("prefill", "decode"):
        memory = getattr(config.workload, field).resources.memory
        if quantity(memory) <= quantity(engine.shared_memory):
            rule = f"workload.engine.shared_memory {engine.shared_memory} is part of it"
            yield Problem(f"workload.{field}.resources.memory", memory, rule, "Raise it or lower shared_memory")


def clusterd_rules(config: StackConfig) -> Iterator[Problem]:
    """Check that an external ClusterD can be found, and that a simulated one is not described twice."""
    external = config.clusterd.mode == "external"
    for field in ("host", "peer"):
        given = getattr(config.clusterd, field) is not None
        if external and not given:
            yield Problem(f"clusterd.{field}", None, "is required when clusterd.mode is external", "Say where ClusterD listens")
        if given and not external:
            yield Problem(
                f"clusterd.{field}", None, "is given, but clusterd.mode is simulated", "Remove it, or set clusterd.mode: external"
            )


def image_tag(reference: str) -> str:
    """Tag of a reference; `latest` when it has none, as container runtimes read it."""
    name = reference.partition("@")[0].rpartition("/")[2]
    return name.partition(":")[2] or "latest"


def is_unreleased(tag: str) -> bool:
    """Whether a tag names something that changes, or a release candidate."""
    return tag == "latest" or "-rc" in tag
