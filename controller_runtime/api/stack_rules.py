# SPDX-License-Identifier: Apache-2.0
"""What a stack must satisfy beyond each field, and the reader that reports every problem at once.

Each rule is a pure function `StackConfig -> problems`. Source: deployment manual, configuration rules;
controller manual, tables of keys.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from controller_runtime.api.engine_rules import clusterd_rules, engine_rules, is_unreleased
from controller_runtime.api.pki import OUTWARD, identities
from controller_runtime.api.problems import Problem, from_validation
from controller_runtime.api.roles import GROUP_LIMIT
from controller_runtime.api.stack import StackConfig
from controller_runtime.api.units import GIB, quantity
from controller_runtime.api.workload_rules import WORKLOAD_RULES, each_role
from controller_runtime.errors import ConfigError

ROOT = "ascend-pd:stack"
COORDINATOR_BYTES_PER_REQUEST = 1.2
"""Memory of the Coordinator per byte of the largest request body. Source: deployment manual."""
COORDINATOR_MIN_BYTES = 4 * GIB
MAX_PRUNING_ROUNDS = 5

Rule = Callable[[StackConfig], Iterator[Problem]]


def read_stack(raw: Mapping[str, Any]) -> StackConfig:
    """Parse and check a stack.

    Raises:
        ConfigError: one sentence per problem, fields first, then what spans fields.
    """
    try:
        config = StackConfig.model_validate(raw)
    except ValidationError as error:
        problems = from_validation(error) + _spanning_the_rest(raw, error)
    else:
        check_stack(config)
        return config
    raise ConfigError([problem.sentence(ROOT) for problem in problems])


def check_stack(config: StackConfig) -> None:
    """Apply every rule, for example again when the decision has filled in counts.

    Raises:
        ConfigError: one sentence per problem.
    """
    problems = [problem for rule in RULES for problem in rule(config)]
    if problems:
        raise ConfigError([problem.sentence(ROOT) for problem in problems])


def _spanning_the_rest(raw: Mapping[str, Any], error: ValidationError) -> list[Problem]:
    """Apply the rules to what is left when the refused settings are taken out, so that one report holds everything."""
    rest: dict[str, Any] = copy.deepcopy(dict(raw))
    taken: list[str] = []
    for _ in range(MAX_PRUNING_ROUNDS):
        for place in sorted((item["loc"] for item in error.errors()), key=str, reverse=True):
            taken.append(".".join(str(part) for part in place))
            _take_out(rest, place)
        try:
            config = StackConfig.model_validate(rest)
        except ValidationError as next_error:
            error = next_error
            continue
        found = [problem for rule in RULES for problem in rule(config)]
        return [problem for problem in found if not any(path.startswith(problem.path) for path in taken)]
    return []


def _take_out(raw: dict[str, Any], place: tuple[int | str, ...]) -> None:
    node: Any = raw
    for part in place[:-1]:
        if isinstance(node, list) and isinstance(part, int):
            del node[part]
            return
        node = node.get(part) if isinstance(node, dict) else None
    if isinstance(node, dict):
        node.pop(place[-1], None)


def _namespaces(config: StackConfig) -> Iterator[Problem]:
    seen: dict[str, str] = {}
    for field, namespace in config.namespaces:
        if namespace in ("default", "kube-system", "kube-public"):
            yield Problem(f"namespaces.{field}", namespace, "belongs to the cluster", "Choose a namespace of your own")
        if namespace in seen:
            yield Problem(f"namespaces.{field}", namespace, f"is also namespaces.{seen[namespace]}", "Give each part its own namespace")
        seen.setdefault(namespace, field)


def _etcd(config: StackConfig) -> Iterator[Problem]:
    etcd = config.etcd
    if etcd.members % 2 == 0:
        yield Problem("etcd.members", etcd.members, "an even number of members survives no more losses than one less", "Use 1, 3, 5 or 7")
    need = 2 * etcd.quota_bytes + GIB
    if etcd.volume_bytes < need:
        rule = f"etcd.quota_bytes {etcd.quota_bytes} needs a volume of {need} (log, snapshot, defragmentation)"
        yield Problem("etcd.volume_bytes", etcd.volume_bytes, rule, "Raise volume_bytes or lower quota_bytes")
    if etcd.quota_bytes > 8 * GIB:
        yield Problem(
            "etcd.quota_bytes", etcd.quota_bytes, f"etcd recommends at most {8 * GIB}", "Lower it; the lock needs less than 100 MiB"
        )


def _certificate_lifetimes(config: StackConfig) -> Iterator[Problem]:
    pki = config.pki
    pairs = (
        ("leaf_hours", "authority_hours", "a leaf must not outlive its authority"),
        ("renew_before_hours", "leaf_hours", "a leaf would be renewed from its first hour on"),
        ("crl_renew_before_hours", "crl_hours", "the revocation list would change at every preview"),
        ("crl_hours", "authority_hours", "a revocation list must not outlive its authority"),
    )
    for smaller, larger, rule in pairs:
        if getattr(pki, smaller) >= getattr(pki, larger):
            yield Problem(
                f"pki.{smaller}",
                getattr(pki, smaller),
                f"pki.{larger} is {getattr(pki, larger)}, {rule}",
                f"Lower {smaller} or raise {larger}",
            )


def _revocations(config: StackConfig) -> Iterator[Problem]:
    known = {identity.name for identity in identities(config.pki_names())}
    generations: dict[str, list[int]] = {}
    for item in config.pki.revoked:
        name, _, generation = item.rpartition("#")
        generations.setdefault(name, []).append(int(generation))
    for name, found in generations.items():
        if name not in known:
            yield Problem("pki.revoked", f"{name}#{found[0]}", "names no identity of this stack", f"Use one of {', '.join(sorted(known))}")
        elif sorted(found) != list(range(1, len(found) + 1)):
            yield Problem(
                "pki.revoked", found, f"generations of {name} are revoked in order, each once", f"Start with {name}#1 and leave none out"
            )
        if name in config.pki.existing:
            yield Problem(
                "pki.revoked", f"{name}#{found[0]}", "the certificate of this identity is the site's", "Revoke it in the site's own list"
            )
    for name in config.pki.existing:
        if name not in known:
            yield Problem(f"pki.existing.{name}", None, "names no identity of this stack", f"Use one of {', '.join(OUTWARD)}")
        elif name not in OUTWARD or (name == "ms-controller-cluster" and config.clusterd.mode == "simulated"):
            rule = "meets peers inside the stack, which trust only the stack's own authorities"
            yield Problem(f"pki.existing.{name}", None, rule, "Leave it to the stack")


def _ports(config: StackConfig) -> Iterator[Problem]:
    for where, ports in (
        ("controller", config.controller.ports),
        ("coordinator", config.coordinator.ports),
        ("workload", config.workload.ports),
    ):
        seen: dict[int, str] = {}
        for field, port in ports:
            if port in seen:
                yield Problem(
                    f"{where}.ports.{field}", port, f"is also {where}.ports.{seen[port]}", "Give each listener of a pod its own port"
                )
            seen.setdefault(port, field)


def _images(config: StackConfig) -> Iterator[Problem]:
    images = config.images
    given = {field: getattr(images, field) for field in ("runtime", "simulator", "etcd")}
    if images.source == "local":
        for field in ("registry", *given):
            if getattr(images, field) is not None:
                yield Problem(f"images.{field}", None, "is given, but images.source is local", "Remove it, or set images.source: registry")
        return
    if images.registry is None:
        yield Problem("images.registry", None, "is required when images.source is registry", "Name the prefix of your registry")
    for field, image in given.items():
        if image is None and not (field == "simulator" and config.workload.engine is not None):
            yield Problem(f"images.{field}", None, "is required when images.source is registry", "Give its tag and digest")
        elif image is not None and (is_unreleased(image.tag)):
            yield Problem(f"images.{field}.tag", image.tag, "changes or is not released", "Name a released version")


def _controller(config: StackConfig) -> Iterator[Problem]:
    controller = config.controller
    rates = (controller.default_p_rate, controller.default_d_rate)
    if (rates[0] == 0) != (rates[1] == 0):
        yield Problem("controller.default_p_rate", rates[0], f"default_d_rate is {rates[1]}", "Make both zero (automatic) or both non-zero")
    if sum(rates) > GROUP_LIMIT:
        yield Problem(
            "controller.default_p_rate",
            rates[0],
            f"the rates add up to {sum(rates)}, allowed {GROUP_LIMIT}",
            "Lower them; only their ratio counts",
        )
    if 2 * controller.lease_renew_s > controller.lease_ttl_s:
        rule = f"lease_ttl_s is {controller.lease_ttl_s}, one lost renewal would end leadership"
        yield Problem("controller.lease_renew_s", controller.lease_renew_s, rule, "Use at most half of it")


def _coordinator_memory(config: StackConfig) -> Iterator[Problem]:
    coordinator = config.coordinator
    need = max(coordinator.max_requests * coordinator.body_limit_mib * 1024**2 * COORDINATOR_BYTES_PER_REQUEST, COORDINATOR_MIN_BYTES)
    if quantity(coordinator.resources.memory) < need:
        rule = f"max_requests {coordinator.max_requests} at {coordinator.body_limit_mib} MiB needs {int(need)} bytes"
        yield Problem("coordinator.resources.memory", coordinator.resources.memory, rule, "Raise it or lower max_requests")


def _limits(config: StackConfig) -> Iterator[Problem]:
    specs = {name: getattr(config, name).resources for name in ("etcd", "operator", "clusterd", "controller", "coordinator")}
    specs |= {f"workload.{field}": role.resources for field, role in each_role(config)}
    for path, resources in specs.items():
        if resources.memory_limit is not None and quantity(resources.memory_limit) < quantity(resources.memory):
            yield Problem(
                f"{path}.resources.memory_limit",
                resources.memory_limit,
                f"the request is {resources.memory}",
                "A limit is at least the request",
            )


def _network(config: StackConfig) -> Iterator[Problem]:
    for field in ("dns", "api_server"):
        if not getattr(config.network, field):
            yield Problem(
                f"network.{field}", [], "pods could not reach it and nothing would start", "Name at least one address or set of pods"
            )


RULES: tuple[Rule, ...] = (
    _namespaces,
    _images,
    engine_rules,
    clusterd_rules,
    _network,
    _certificate_lifetimes,
    _revocations,
    _etcd,
    _ports,
    _controller,
    _coordinator_memory,
    *WORKLOAD_RULES,
    _limits,
)
