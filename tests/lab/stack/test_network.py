# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import pytest

from tests.support.client_pods import client_pod, run_in
from tests.support.deployed_stack import NAMESPACES, DeployedStack
from tests.support.real_lab import until

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900), pytest.mark.xdist_group("lab")]

WORKLOAD = NAMESPACES["workload"]
OUTSIDE = "strangers"
CONTROLLER, COORDINATOR, SERVER = "mindie-ms-controller", "mindie-ms-coordinator", "mindie-server"
LISTENERS = {
    "etcd": (2379, 2380, 8080),
    CONTROLLER: (1026, 1029),
    COORDINATOR: (1025, 1026, 1028, 1029),
    SERVER: (1025, 1026, 1027, 1028, 1030),
    "clusterd": (8899,),
    "infer-operator": (8443, 11254),
}
ALLOWED = {
    CONTROLLER: {
        ("etcd", 2379),
        (SERVER, 1026),
        (SERVER, 1027),
        (SERVER, 1028),
        (COORDINATOR, 1026),
        (COORDINATOR, 1028),
        ("clusterd", 8899),
    },
    COORDINATOR: {("etcd", 2379), (SERVER, 1025), (SERVER, 1026)},
    SERVER: {(SERVER, 1030)},
    "pd-proof": {(COORDINATOR, 1025)},
}
"""What may connect to what; everything that is not here may not. Seed: deployment manual, port table; operator RFC, 11.3."""


class Place(NamedTuple):
    """A pod and the part it plays."""

    app: str
    namespace: str
    name: str
    ip: str = ""


@pytest.fixture
def visitors(stack: DeployedStack) -> Iterator[list[Place]]:
    """Two pods that belong to no part of the stack, and one that passes for a proof."""
    lab, image = stack.lab, stack.image("runtime")
    lab.kubectl("create", "namespace", OUTSIDE)
    until("default service account", lambda: lab.try_run("kubectl", "-n", OUTSIDE, "get", "serviceaccount", "default").code == 0)
    made = [Place("stranger", OUTSIDE, "stranger"), Place("stranger", WORKLOAD, "stranger"), Place("pd-proof", WORKLOAD, "prover")]
    lab.apply(*(client_pod(place.namespace, place.name, image, app=place.app, node="node5") for place in made))
    for place in made:
        lab.wait_pod(place.namespace, place.name)
    yield made
    lab.kubectl("-n", WORKLOAD, "delete", "pod", "stranger", "prover", "--grace-period=0", "--force")
    lab.kubectl("delete", "namespace", OUTSIDE)


def test_connections_open_along_the_edges_of_the_port_table_and_nowhere_else(stack: DeployedStack, visitors: list[Place]) -> None:
    places = _places(stack)
    targets = {f"{place.ip}:{port}": (place, port) for place in places for port in LISTENERS[place.app]}
    names = stack.lab.status()["dns"]
    resolver = f"{names['ip']}:{names['port']}"
    sources = [place for place in places if place.app != "etcd"] + visitors

    with ThreadPoolExecutor(len(sources)) as pool:
        answers = dict(zip(sources, pool.map(lambda source: _opened(stack, source, [*targets, resolver]), sources), strict=True))

    for source, opened in answers.items():
        own = {target for target, (place, _) in targets.items() if place == source}
        allowed = {target for target, (place, port) in targets.items() if (place.app, port) in ALLOWED.get(source.app, set())}
        assert own <= opened, f"{source.name} reaches its own listeners, so they listen"
        assert resolver in opened, f"{source.name} has a network"
        assert _told(targets, opened - own - {resolver}) == _told(targets, allowed - own), source.name


def _opened(stack: DeployedStack, source: Place, targets: list[str]) -> set[str]:
    answers = run_in(stack.lab, source.namespace, source.name, "reach", *targets)
    return {target for target, is_open in answers.items() if is_open}


def _told(targets: Mapping[str, tuple[Place, int]], chosen: set[str]) -> set[tuple[str, int]]:
    return {(targets[target][0].name, targets[target][1]) for target in chosen}


def _places(stack: DeployedStack) -> list[Place]:
    return [
        Place(item["metadata"]["labels"]["app"], item["metadata"]["namespace"], item["metadata"]["name"], item["status"]["podIP"])
        for item in stack.pod_objects()
        if item["status"]["phase"] == "Running"
    ]
