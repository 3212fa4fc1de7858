# SPDX-License-Identifier: Apache-2.0
"""`kubectl apply -f deploy/infer-operator.yaml` on an empty cluster, then the RFC's three examples."""

from __future__ import annotations

import http.client
import json
from collections import Counter
from collections.abc import Iterator

import pytest
import yaml

from tests.support.real_lab import CHECKOUT, KubeObject, RealLab, images, pod, until

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900), pytest.mark.xdist_group("lab")]

DEPLOY = CHECKOUT / "deploy"
SAMPLES = DEPLOY / "samples"
NAMESPACE = "mindx-dl"
OF_EXAMPLES = "app!=infer-operator"
KINDS = "inferservicesets,inferservices,instancesets,deployments,statefulsets,services"


@pytest.fixture(scope="module")
def operator(lab: RealLab) -> Iterator[RealLab]:
    """The operator as the manifest brings it into a cluster that has neither its definitions nor its namespace."""
    lab.run("load", *(images()[name]["archive"] for name in ("runtime", "simulator")))
    assert lab.kubectl("get", "customresourcedefinitions", "-o", "name") == ""
    assert lab.kubectl("get", "namespace", NAMESPACE, "--ignore-not-found") == ""
    lab.kubectl("apply", "-f", str(DEPLOY / "infer-operator.yaml"))
    try:
        lab.kubectl("-n", NAMESPACE, "wait", "--for=condition=Available", "deployment/infer-operator-manager", "--timeout=180s")
        yield lab
    finally:
        lab.kubectl("delete", "-f", str(SAMPLES), "--ignore-not-found", "--timeout=120s")
        lab.kubectl("delete", "-f", str(DEPLOY / "infer-operator.yaml"), "--ignore-not-found", "--timeout=180s")


@pytest.fixture(params=["simple-infer", "multi-role-infer", "infer-cluster"])
def sample(operator: RealLab, request: pytest.FixtureRequest) -> Iterator[str]:
    """One example, applied and removed again."""
    name: str = request.param
    operator.kubectl("apply", "-f", str(SAMPLES / f"{name}.yaml"))
    yield name
    operator.kubectl("delete", "-f", str(SAMPLES / f"{name}.yaml"), "--ignore-not-found", "--timeout=120s")


def test_an_example_becomes_ready_with_all_its_pods_and_leaves_nothing_when_deleted(operator: RealLab, sample: str) -> None:
    document = yaml.safe_load((SAMPLES / f"{sample}.yaml").read_text())
    kind, spec = document["kind"].lower(), document["spec"]
    roles = spec["template"]["roles"] if kind == "inferserviceset" else spec["roles"]
    services = spec["replicas"] if kind == "inferserviceset" else 1

    operator.kubectl("-n", NAMESPACE, "wait", "--for=condition=Ready", f"{kind}/{sample}", "--timeout=180s")

    pods = [
        each for each in operator.get("-n", NAMESPACE, "pods", "-l", OF_EXAMPLES)["items"] if "deletionTimestamp" not in each["metadata"]
    ]
    assert len(pods) == services * sum(role["replicas"] for role in roles)
    assert all(_is_ready(each) for each in pods)
    workloads = Counter(each["kind"] for each in operator.get("-n", NAMESPACE, "deployments,statefulsets", "-l", OF_EXAMPLES)["items"])
    wanted: Counter[str] = Counter()
    for role in roles:
        wanted[role["workload"]["kind"]] += services * role["replicas"]
    assert workloads == wanted

    operator.kubectl("-n", NAMESPACE, "delete", f"{kind}/{sample}", "--timeout=120s")
    until("everything of the example is gone", lambda: _left(operator) == "", 120)


def _is_ready(found: KubeObject) -> bool:
    return any(each["type"] == "Ready" and each["status"] == "True" for each in found["status"]["conditions"])


def _left(lab: RealLab) -> str:
    return lab.kubectl("-n", NAMESPACE, "get", KINDS, "-l", OF_EXAMPLES, "-o", "name")


def test_an_example_answers_at_its_port_on_every_node(operator: RealLab) -> None:
    operator.kubectl("apply", "-f", str(SAMPLES / "simple-infer.yaml"))
    try:
        operator.kubectl("-n", NAMESPACE, "wait", "--for=condition=Ready", "inferservice/simple-infer", "--timeout=180s")
        addresses = [machine["ip"] for machine in operator.status()["machines"] if machine["pool"] != "control-plane"]

        assert len(addresses) >= 2
        for address in addresses:
            _wait_for_answer(address, 30080)
    finally:
        operator.kubectl("delete", "-f", str(SAMPLES / "simple-infer.yaml"), "--timeout=120s")


def _wait_for_answer(address: str, port: int) -> None:
    until(f"{address}:{port} answers", lambda: _status(address, port) == 200, 60)


def _status(address: str, port: int) -> int:
    link = http.client.HTTPConnection(address, port, timeout=5)
    try:
        link.request("GET", "/")
        return link.getresponse().status
    except OSError:
        return 0
    finally:
        link.close()


def test_the_operators_pod_takes_no_connections_from_pods(operator: RealLab, namespace: str, image: str) -> None:
    (manager,) = operator.get("-n", NAMESPACE, "pods", "-l", "app=infer-operator")["items"]
    address = manager["status"]["podIP"]
    operator.apply(pod(namespace, "stranger", image))
    operator.wait_pod(namespace, "stranger")

    done = operator.python(namespace, "stranger", f"import socket; socket.create_connection(({json.dumps(address)}, 11254), timeout=3)")

    assert done.code != 0
    assert "timed out" in done.err or "refused" in done.err
