# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from lab.pause_image import build_pause
from tests.support.real_lab import RealLab, fetch, pod, until, web_server

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900), pytest.mark.xdist_group("lab")]
NPU = "huawei.com/Ascend910"


def test_up_makes_every_node_ready_with_the_labels_of_its_class(lab: RealLab) -> None:
    labels = {node["metadata"]["name"]: node["metadata"]["labels"] for node in lab.get("nodes")["items"]}

    assert [labels[f"node{index}"]["ascend-pd/pool"] for index in range(1, 6)] == ["infra"] * 3 + ["prefill", "decode"]
    assert labels["node4"]["hardware-type"] == "800I-A2-32G"
    assert labels["node5"]["hardware-type"] == "800I-A2-64G"
    assert labels["node5"]["accelerator"] == "huawei-Ascend910"
    assert labels["node5"]["accelerator-type"] == "module-910b-8"
    assert all(machine["alive"] and machine["ready"] for machine in lab.status()["machines"])


def test_only_prefill_and_decode_nodes_offer_npus(lab: RealLab) -> None:
    def offered() -> dict[str, str]:
        return {node["metadata"]["name"]: node["status"]["allocatable"].get(NPU, "0") for node in lab.get("nodes")["items"]}

    expected = {"node1": "0", "node2": "0", "node3": "0", "node4": "8", "node5": "8"}
    until("devices are registered", lambda: offered() == expected)


def test_a_pod_learns_its_npus_and_a_broken_one_is_not_offered(lab: RealLab, namespace: str, image: str) -> None:
    script = "import os; print(os.environ['ASCEND_VISIBLE_DEVICES'], flush=True); import time; time.sleep(3600)"
    lab.apply(
        pod(namespace, "npu", image, ["python3", "-c", script], resources={"limits": {NPU: 4}}, nodeSelector={"ascend-pd/pool": "decode"})
    )
    lab.wait_pod(namespace, "npu")

    devices = lab.kubectl("-n", namespace, "logs", "npu").strip().split(",")

    assert len(set(devices)) == 4
    assert set(devices) <= {str(number) for number in range(8)}

    lab.run("exec", "node5", "--", "sh", "-c", "echo npu-3 npu-4 > /run/npu-bad")
    until("two devices fewer", lambda: lab.get("node", "node5")["status"]["allocatable"][NPU] == "6")
    lab.run("exec", "node5", "--", "rm", "/run/npu-bad")
    until("all devices again", lambda: lab.get("node", "node5")["status"]["allocatable"][NPU] == "8")


def test_a_pod_finds_a_service_on_another_node_by_its_name(lab: RealLab, namespace: str, image: str) -> None:
    lab.apply(*web_server(namespace, "web", image, "node2"), pod(namespace, "client", image, nodeName="node3"))
    lab.wait_pod(namespace, "web")
    lab.wait_pod(namespace, "client")

    until("web answers by name", lambda: lab.python(namespace, "client", fetch(f"web.{namespace}.svc.cluster.local")).out.strip() == "web")


def test_logs_and_exec_work_on_every_node(lab: RealLab, namespace: str, image: str) -> None:
    names = [f"node{index}" for index in range(1, 6)]
    for node in names:
        lab.apply(
            pod(namespace, node, image, ["python3", "-u", "-c", f"print('hello {node}'); import time; time.sleep(3600)"], nodeName=node)
        )
    for node in names:
        lab.wait_pod(namespace, node)

    assert [lab.kubectl("-n", namespace, "logs", node).strip() for node in names] == [f"hello {node}" for node in names]
    assert {lab.python(namespace, node, "import os; print(os.getuid())").out.strip() for node in names} == {"10001"}


def test_a_claim_gets_a_folder_on_its_pods_node_that_outlives_the_pod(lab: RealLab, namespace: str, image: str) -> None:
    claim: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": namespace},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    volume: dict[str, Any] = {
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    lab.apply(claim, pod(namespace, "writer", image, **volume))
    lab.wait_pod(namespace, "writer")
    assert lab.python(namespace, "writer", "open('/data/mark', 'w').write('kept')").code == 0
    node = lab.get("pod", "writer", "-n", namespace)["spec"]["nodeName"]
    lab.kubectl("-n", namespace, "delete", "pod", "writer")

    lab.apply(pod(namespace, "reader", image, **volume))
    lab.wait_pod(namespace, "reader")

    assert lab.get("pod", "reader", "-n", namespace)["spec"]["nodeName"] == node
    assert lab.python(namespace, "reader", "print(open('/data/mark').read())").out.strip() == "kept"

    name = lab.get("pvc", "data", "-n", namespace)["spec"]["volumeName"]
    folder = Path(f"/var/lib/ascend-pd/lab/test/{node}/var/lib/lab-volumes/{name}")
    assert (folder / "mark").exists()
    lab.kubectl("-n", namespace, "delete", "pod/reader", "pvc/data")
    until("the folder goes with its claim", lambda: not folder.exists())


def test_network_policies_are_enforced(lab: RealLab, namespace: str, image: str) -> None:
    lab.apply(*web_server(namespace, "web", image, "node1"))
    lab.apply(pod(namespace, "friend", image, nodeName="node2"), pod(namespace, "stranger", image, nodeName="node1"))
    for name in ("web", "friend", "stranger"):
        lab.wait_pod(namespace, name)
    host = f"web.{namespace}.svc.cluster.local"
    until("open without a policy", lambda: lab.python(namespace, "stranger", fetch(host)).code == 0)

    lab.apply(_policy(namespace, "web-from-friend", "web", {"ingress": [{"from": [{"podSelector": {"matchLabels": {"app": "friend"}}}]}]}))

    until("the stranger is shut out", lambda: lab.python(namespace, "stranger", fetch(host)).code != 0)
    until("the friend gets through", lambda: lab.python(namespace, "friend", fetch(host)).code == 0)

    lab.kubectl("-n", namespace, "delete", "networkpolicy", "web-from-friend")
    until("open again", lambda: lab.python(namespace, "stranger", fetch(host)).code == 0)


def test_egress_policies_see_dns_and_the_api_server_at_the_addresses_that_status_prints(lab: RealLab, namespace: str, image: str) -> None:
    lab.apply(pod(namespace, "client", image, nodeName="node1"))
    lab.wait_pod(namespace, "client")
    resolve = "import socket; print(socket.gethostbyname('kubernetes.default.svc.cluster.local'))"
    connect = "import os, socket; socket.create_connection((os.environ['KUBERNETES_SERVICE_HOST'], 443), timeout=2)"
    lab.apply(_policy(namespace, "closed", "client", {"egress": []}))
    until("names are shut off", lambda: lab.python(namespace, "client", resolve).code != 0)
    until("the API server is shut off", lambda: lab.python(namespace, "client", connect).code != 0)

    status = lab.status()
    rules = [
        {"to": [{"ipBlock": {"cidr": f"{status[target]['ip']}/32"}}], "ports": [{"port": status[target]["port"], "protocol": protocol}]}
        for target, protocol in (("dns", "UDP"), ("api", "TCP"))
    ]
    lab.apply(_policy(namespace, "closed", "client", {"egress": rules}))

    until("names resolve", lambda: lab.python(namespace, "client", resolve).code == 0)
    until("the API server answers", lambda: lab.python(namespace, "client", connect).code == 0)


def test_gang_pods_are_scheduled_without_volcano(lab: RealLab, namespace: str, image: str) -> None:
    lab.apply(pod(namespace, "gang", image, schedulerName="volcano"))
    lab.wait_pod(namespace, "gang")


def test_a_node_without_power_is_noticed_and_comes_back_with_its_pods(lab: RealLab, namespace: str, image: str) -> None:
    lab.apply(*web_server(namespace, "web", image, "node3"), pod(namespace, "client", image, nodeName="node1"))
    lab.wait_pod(namespace, "web")
    lab.wait_pod(namespace, "client")
    host = f"web.{namespace}.svc.cluster.local"
    until("web answers", lambda: lab.python(namespace, "client", fetch(host)).code == 0)

    lab.run("kill-node", "node3")

    assert lab.try_run("exec", "node3", "--", "true").code == 1
    until("NotReady", lambda: not lab.is_ready("node3"))
    assert lab.python(namespace, "client", fetch(host)).code != 0

    lab.run("start-node", "node3")

    until("Ready", lambda: lab.is_ready("node3"))
    lab.kubectl("-n", namespace, "delete", "pod", "web", "--force", "--grace-period=0", "--ignore-not-found")
    lab.apply(*web_server(namespace, "web", image, "node3"))
    lab.wait_pod(namespace, "web")
    until("web answers again", lambda: lab.python(namespace, "client", fetch(host)).code == 0)


def test_a_cut_node_keeps_running_and_is_ready_after_join(lab: RealLab) -> None:
    def kubelet() -> str:
        return lab.run("exec", "node2", "--", "pgrep", "-x", "kubelet").strip()

    before = kubelet()
    lab.run("cut", "node2")
    until("NotReady", lambda: not lab.is_ready("node2"))
    assert not next(machine for machine in lab.status()["machines"] if machine["name"] == "node2")["plugged"]

    lab.run("join", "node2")

    until("Ready", lambda: lab.is_ready("node2"))
    assert kubelet() == before


def test_a_held_daemon_stays_down_until_it_is_let_go(lab: RealLab) -> None:
    lab.run("stop-daemon", "node2", "kubelet")
    until("NotReady", lambda: not lab.is_ready("node2"))
    assert lab.try_run("exec", "node2", "--", "pgrep", "-x", "kubelet").code == 1

    lab.run("start-daemon", "node2", "kubelet")

    until("Ready", lambda: lab.is_ready("node2"))


def test_an_image_loaded_while_a_node_is_down_is_there_when_it_starts(lab: RealLab, namespace: str, tmp_path: Path) -> None:
    archive = _small_image(tmp_path, "localhost/lab-test-small:1")
    lab.run("kill-node", "node1")
    lab.run("load", str(archive))

    lab.run("start-node", "node1")

    names = lab.run("exec", "node1", "--", "ctr", "-n", "k8s.io", "images", "ls", "-q").split()
    pinned = next(name for name in names if name.startswith("localhost/lab-test-small@sha256:"))
    assert pinned in lab.run("exec", "node4", "--", "ctr", "-n", "k8s.io", "images", "ls", "-q").split()
    until("Ready", lambda: lab.is_ready("node1"))
    small = pod(namespace, "small", pinned, nodeName="node1")
    del small["spec"]["containers"][0]["command"]
    lab.apply(small)
    lab.wait_pod(namespace, "small")


def test_up_does_nothing_to_a_lab_that_is_up_and_heals_a_broken_one(lab: RealLab, archives: Path) -> None:
    processes = _processes(lab)
    assert "up already" in lab.run("up", "--images", str(archives))
    assert _processes(lab) == processes

    lab.run("kill-node", "node2")
    lab.run("cut", "node3")
    for pid_file in ("cp", "node4"):
        _kill_machine(pid_file)
    healed = lab.run("up", "--images", str(archives))

    assert "started cp, node2, node4" in healed
    assert "cable of node3 plugged in" in healed
    assert all(machine["alive"] and machine["ready"] and machine["plugged"] for machine in lab.status()["machines"])


def test_up_refuses_another_shape_than_the_lab_has(lab: RealLab) -> None:
    refused = lab.try_run("up", "--prefill", "2")

    assert refused.code == 1
    assert "Run `down` first" in refused.err


def test_the_idle_lab_needs_less_than_a_gibibyte(lab: RealLab) -> None:
    machines = json.loads(lab.run("status", "--memory", "--json"))

    assert 100 < sum(machine["anonymous_mib"] for machine in machines) < 1024


def _policy(namespace: str, name: str, app: str, rules: dict[str, Any]) -> dict[str, Any]:
    kinds = ["Ingress" if "ingress" in rules else "Egress"]
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"podSelector": {"matchLabels": {"app": app}}, "policyTypes": kinds, **rules},
    }


def _small_image(work: Path, reference: str) -> Path:
    archive = build_pause(work, reference)
    return archive.rename(work / "small.tar")


def _processes(lab: RealLab) -> dict[str, str]:
    return {node: lab.run("exec", node, "--", "pgrep", "-x", "kubelet|containerd|kube-proxy|kube-router") for node in ("node1", "node4")}


def _kill_machine(name: str) -> None:
    os.kill(int(Path(f"/var/lib/ascend-pd/lab/test/{name}.pid").read_text()), signal.SIGKILL)
