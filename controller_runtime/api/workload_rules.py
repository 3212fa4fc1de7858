# SPDX-License-Identifier: Apache-2.0
"""What a workload must satisfy: roles, hardware, room on the nodes and in the quota, lengths of derived names.

Counts that are left to the decision are checked once it has filled them in. Source: deployment manual, configuration rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal

from controller_runtime.api.names import infer_service_name, workload_name
from controller_runtime.api.problems import Problem
from controller_runtime.api.rank_table import HARDWARE_PREFILL
from controller_runtime.api.stack import PoolSpec, Resources, RoleSpec, StackConfig
from controller_runtime.api.units import NAME_MAX, quantity

MAX_SERVERS = 96
PROOF_PODS = 1


def each_role(config: StackConfig) -> tuple[tuple[str, RoleSpec], tuple[str, RoleSpec]]:
    """Both roles by their field."""
    return ("prefill", config.workload.prefill), ("decode", config.workload.decode)


def _roles(config: StackConfig) -> Iterator[Problem]:
    workload = config.workload
    counts = [role.instances for role in (workload.prefill, workload.decode)]
    if (counts[0] is None) != (counts[1] is None):
        field = "prefill" if counts[0] is None else "decode"
        yield Problem(
            f"workload.{field}.instances", None, "is left to the decision while the other role is not", "Give both counts or neither"
        )
    if counts == [None, None] and workload.total_instances is None:
        yield Problem(
            "workload.total_instances", None, "is required when the decision fixes the counts", "Give it, or instances of both roles"
        )
    if None not in counts and workload.total_instances is not None:
        yield Problem(
            "workload.total_instances", workload.total_instances, "instances of both roles are given too", "Give one or the other"
        )
    for field, role in each_role(config):
        path = f"workload.{field}"
        if role.instances == 0:
            yield Problem(f"{path}.instances", 0, "a request needs a prefill and a decode Server", "Use at least 1")
        if role.world_size is not None and role.world_size != role.npus_per_pod:
            yield Problem(
                f"{path}.world_size",
                role.world_size,
                f"npus_per_pod is {role.npus_per_pod} and a Server uses all NPUs of its pod",
                "Make them equal",
            )
    servers = sum((role.instances or 0) * role.pods_per_instance for _, role in each_role(config)) * workload.services
    if servers > MAX_SERVERS:
        yield Problem("workload", None, f"has {servers} Server pods, a controller handles {MAX_SERVERS}", "Lower instances or services")


def _hardware(config: StackConfig) -> Iterator[Problem]:
    workload, pools = config.workload, config.pools
    missing = [(field, role.pool) for field, role in each_role(config) if role.pool not in pools]
    for field, pool in missing:
        yield Problem(
            f"workload.{field}.pool",
            pool,
            "names no pool",
            f"Use one of {', '.join(sorted(pools)) or '(none given)'} or add it under pools",
        )
    if missing:
        return
    prefill, decode = pools[workload.prefill.pool], pools[workload.decode.pool]
    if workload.heterogeneous:
        if prefill.hardware_type == decode.hardware_type:
            yield Problem(
                "workload.heterogeneous", True, f"both roles run on {prefill.hardware_type}", "Use a pool of other hardware for one role"
            )
        elif prefill.hardware_type != HARDWARE_PREFILL:
            yield Problem(
                "workload.prefill.pool",
                workload.prefill.pool,
                "heterogeneous prefill runs on 800I A2(32G), decode on 64G",
                "Swap the pools",
            )
        if prefill.node_selector == decode.node_selector:
            yield Problem(
                "workload.decode.pool",
                workload.decode.pool,
                "both pools select the same nodes",
                "Select each by its own hardware-type label",
            )
    elif workload.prefill.npus_per_pod != workload.decode.npus_per_pod:
        yield Problem(
            "workload.decode.npus_per_pod",
            workload.decode.npus_per_pod,
            f"prefill has {workload.prefill.npus_per_pod}",
            "Make them equal or set heterogeneous",
        )


def _capacity(config: StackConfig) -> Iterator[Problem]:
    used: dict[str, int] = {}
    for field, role in each_role(config):
        pool = config.pools.get(role.pool)
        if pool is None:
            continue
        if role.npus_per_pod > pool.npus_per_node:
            yield Problem(
                f"workload.{field}.npus_per_pod",
                role.npus_per_pod,
                f"a node of {role.pool} has {pool.npus_per_node} NPUs",
                "Lower it or use another pool",
            )
            continue
        pods = (role.instances or 0) * role.pods_per_instance * config.workload.services
        used[role.pool] = used.get(role.pool, 0) + _nodes_for(pods, role, pool)
        if used[role.pool] > pool.nodes:
            rule = f"needs {used[role.pool]} nodes of pool {role.pool}, it has {pool.nodes}"
            yield Problem(f"workload.{field}.instances", role.instances, rule, "Lower instances or add nodes")


def _pool_nodes(config: StackConfig) -> Iterator[Problem]:
    owners: dict[str, str] = {}
    for name, pool in config.pools.items():
        if pool.node_names and len(pool.node_names) != pool.nodes:
            yield Problem(f"pools.{name}.nodes", pool.nodes, f"node_names lists {len(pool.node_names)}", "Make them agree")
        for node in pool.node_names:
            if node in owners:
                yield Problem(f"pools.{name}.node_names", node, f"is also in pool {owners[node]}", "Put each node into one pool")
            owners.setdefault(node, name)


def _nodes_for(pods: int, role: RoleSpec, pool: PoolSpec) -> int:
    per_node = pool.npus_per_node // role.npus_per_pod
    return -(-pods // per_node)


def _quota(config: StackConfig) -> Iterator[Problem]:
    pods = _workload_pods(config)
    need = sum(count for count, _ in pods) + PROOF_PODS
    if need > config.quota.pods:
        yield Problem("quota.pods", config.quota.pods, f"the workload namespace runs {need} pods", "Raise it")
    for field in ("cpu", "memory"):
        asked = sum((count * quantity(getattr(resources, field)) for count, resources in pods), Decimal(0))
        path = f"requests_{field}"
        if asked > quantity(getattr(config.quota, path)):
            rule = f"the pods of the workload namespace request {asked.normalize():f}"
            yield Problem(f"quota.{path}", getattr(config.quota, path), rule, "Raise it")


def _workload_pods(config: StackConfig) -> list[tuple[int, Resources]]:
    """How many pods of which requests the workload namespace runs, the short-lived proof apart."""
    servers = [((role.instances or 0) * role.pods_per_instance * config.workload.services, role.resources) for _, role in each_role(config)]
    parts = (config.controller, config.coordinator)
    return [*servers, *((part.replicas, part.resources) for part in parts)]


def _names(config: StackConfig) -> Iterator[Problem]:
    workload = config.workload
    service = infer_service_name(workload.name, workload.services - 1)
    for field, role in each_role(config):
        longest = workload_name(service, field, max((role.instances or 1) - 1, 0))
        if len(longest) > NAME_MAX:
            rule = f"the last StatefulSet becomes {longest}, {len(longest)} characters of {NAME_MAX}"
            yield Problem("workload.name", workload.name, rule, f"Shorten it by {len(longest) - NAME_MAX}")
            return


WORKLOAD_RULES: tuple[Callable[[StackConfig], Iterator[Problem]], ...] = (_roles, _hardware, _capacity, _pool_nodes, _quota, _names)
