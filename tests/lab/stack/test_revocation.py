# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import itertools
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest

from tests.support.client_pods import TLS_ROOT, client_pod, program, run_in, told_by
from tests.support.deployed_stack import NAMESPACES, DeployedStack
from tests.support.real_lab import KubeObject, until

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900), pytest.mark.xdist_group("lab")]

WORKLOAD, ETCD = NAMESPACES["workload"], NAMESPACES["etcd"]
SECRET, STOLEN = "etcd-controller-tls", "stolen-tls"
MEMBERS = [f"https://etcd-{number}.etcd.{ETCD}.svc.cluster.local:2379" for number in range(3)]
PREFIX = f"/{WORKLOAD}/controller/test-writes/"
LEADER_KEY = f"/{WORKLOAD}/cluster/leader-lock"


@pytest.fixture
def thief(stack: DeployedStack) -> Iterator[str]:
    """A pod that stole the controller's certificate and watches every member with it."""
    data = stack.lab.get("secret", SECRET, "-n", WORKLOAD)["data"]
    copy = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": STOLEN, "namespace": WORKLOAD}, "data": data}
    watch = program("etcd_thief", f"{TLS_ROOT}/{STOLEN}", PREFIX, *MEMBERS)
    stack.lab.apply(copy)
    yield from _running(stack, "thief", [STOLEN], watch)
    stack.lab.kubectl("-n", WORKLOAD, "delete", "secret", STOLEN)


@pytest.fixture
def writer(stack: DeployedStack) -> Iterator[str]:
    """A pod that writes all the time with the certificate that its Secret holds."""
    write = program("etcd_writer", f"{TLS_ROOT}/{SECRET}", PREFIX, *MEMBERS)
    yield from _running(stack, "writer", [SECRET], write)


def test_a_revoked_certificate_is_cut_off_everywhere_while_no_write_is_lost_and_only_members_restart(
    stack: DeployedStack, thief: str, writer: str, etcd_client: str
) -> None:
    until("the thief watches every member", lambda: _members_where(stack, thief, "watching") == {0, 1, 2}, timeout_s=30)
    until("the thief sees writes on every member", lambda: _members_where(stack, thief, "saw") == {0, 1, 2}, timeout_s=30)
    before, certificate = stack.states(), _certificate(stack)

    done = stack.up(pki__revoked=["etcd-controller#1"])

    assert done.code == 0, done.text
    until("the thief is refused everywhere", lambda: _is_shut_out(told_by(stack.lab, WORKLOAD, thief)), timeout_s=60)
    refusals = run_in(stack.lab, WORKLOAD, thief, "etcd_ask", f"{TLS_ROOT}/{STOLEN}", "try", PREFIX, *MEMBERS)
    assert all("etcd Range" in refusals[member] for member in MEMBERS), refusals
    assert _members_where(stack, thief, "ended") == {0, 1, 2}

    assert _certificate(stack) != certificate
    answers = run_in(stack.lab, WORKLOAD, etcd_client, "etcd_ask", f"{TLS_ROOT}/{SECRET}", "try", PREFIX, *MEMBERS)
    assert answers == dict.fromkeys(MEMBERS, "")
    assert _end_of_an_earlier_life(stack, writer) == ""
    so_far = len(told_by(stack.lab, WORKLOAD, writer))
    until("the writer goes on", lambda: len(told_by(stack.lab, WORKLOAD, writer)) > so_far + 10, timeout_s=60)
    acknowledged = {f"{PREFIX}{line['number']:06}": str(line["number"]) for line in told_by(stack.lab, WORKLOAD, writer)}
    held = run_in(stack.lab, WORKLOAD, etcd_client, "etcd_ask", f"{TLS_ROOT}/{SECRET}", "get", PREFIX, *MEMBERS)
    assert {key: held.get(key) for key in acknowledged} == acknowledged
    seen_at_the_end = max(line["detail"] for line in told_by(stack.lab, WORKLOAD, thief) if line["what"] == "saw")
    assert seen_at_the_end < max(acknowledged)

    after = stack.states()
    assert {name for name in before if after.get(name) != before[name]} == {"etcd-0", "etcd-1", "etcd-2"}
    _assert_one_by_one([item for item in stack.pod_objects() if item["metadata"]["labels"]["app"] == "etcd"])
    assert stack.smoke(wait_s=30).passed


def _running(stack: DeployedStack, name: str, secrets: list[str], command: list[str]) -> Iterator[str]:
    made = client_pod(WORKLOAD, name, stack.image("runtime"), app="mindie-ms-controller", node="node5", secrets=secrets, command=command)
    stack.lab.apply(made)
    stack.lab.wait_pod(WORKLOAD, name)
    yield name
    stack.lab.kubectl("-n", WORKLOAD, "delete", "pod", name, "--grace-period=0", "--force")


def _end_of_an_earlier_life(stack: DeployedStack, pod: str) -> str:
    """What a program that ended and was started again printed last, nothing when it never ended."""
    (container,) = stack.lab.get("pod", pod, "-n", WORKLOAD)["status"]["containerStatuses"]
    if container["restartCount"] == 0:
        return ""
    return f"{container['lastState']} {stack.lab.kubectl('-n', WORKLOAD, 'logs', '--previous', '--tail=30', pod)}"


def _members_where(stack: DeployedStack, pod: str, what: str) -> set[int]:
    return {line["member"] for line in told_by(stack.lab, WORKLOAD, pod) if line["what"] == what}


def _is_shut_out(lines: list[dict[str, Any]]) -> bool:
    last = {line["member"]: line["what"] for line in lines}
    return last == {0: "refused", 1: "refused", 2: "refused"}


def _certificate(stack: DeployedStack) -> str:
    return str(stack.lab.get("secret", SECRET, "-n", WORKLOAD)["data"]["tls.crt"])


def _assert_one_by_one(members: list[KubeObject]) -> None:
    """Each member was made after the one before was Ready."""
    made = sorted(members, key=lambda item: item["metadata"]["creationTimestamp"])
    for earlier, later in itertools.pairwise(made):
        assert _ready_at(earlier) <= datetime.fromisoformat(later["metadata"]["creationTimestamp"])


def _ready_at(item: KubeObject) -> datetime:
    (ready,) = (one for one in item["status"]["conditions"] if one["type"] == "Ready")
    assert ready["status"] == "True"
    return datetime.fromisoformat(ready["lastTransitionTime"])
