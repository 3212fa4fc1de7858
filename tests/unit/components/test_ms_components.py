# SPDX-License-Identifier: Apache-2.0
"""Controller, Coordinator and the simulated ClusterD: replicas, probes, rights, what a change of settings does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from controller_runtime.api.ms_config import TlsLink
from controller_runtime.api.ms_config_sample import manual_sample
from controller_runtime.ms.config import load
from tests.support.declared_stack import declared, pod_templates, trial_stack
from tests.support.pulumi_mocks import Inventory

DEPLOYMENT = "kubernetes:apps/v1:Deployment"
BUDGET = "kubernetes:policy/v1:PodDisruptionBudget"
CONTROLLER, COORDINATOR, CLUSTERD = "mindie-ms-controller", "mindie-ms-coordinator", "clusterd"


def template(stack: Inventory, deployment: str) -> dict[str, Any]:
    (found,) = pod_templates(stack.one(DEPLOYMENT, deployment))
    return found


@pytest.mark.parametrize("part, app, leaving", [("controller", CONTROLLER, 1), ("coordinator", COORDINATOR, 2)])
def test_two_replicas_run_on_two_hosts_and_leave_one_at_a_time_unless_one_of_them_is_never_ready(part: str, app: str, leaving: int) -> None:
    one, two = declared(trial_stack()), declared(trial_stack({f"{part}.replicas": 2}))

    assert one.one(DEPLOYMENT, app).inputs["spec"]["replicas"] == 1
    spec = two.one(DEPLOYMENT, app).inputs["spec"]
    assert (spec["replicas"], spec["strategy"]["rollingUpdate"]) == (2, {"maxUnavailable": leaving, "maxSurge": 0})
    (term,) = template(two, app)["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term == {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": "kubernetes.io/hostname"}
    assert {each.metadata["name"] for each in one.of(BUDGET)} == {"etcd"}
    assert {each.metadata["name"] for each in two.of(BUDGET)} == {"etcd", app}


def test_a_change_of_settings_rolls_the_controller_and_no_other() -> None:
    before, after = declared(trial_stack()), declared(trial_stack({"decision.decode_slo_ms": 40}))

    changed = {
        each.metadata["name"]
        for each in before.of(DEPLOYMENT)
        if each.inputs["spec"] != after.one(DEPLOYMENT, each.metadata["name"]).inputs["spec"]
    }

    assert changed == {CONTROLLER}


def test_probes_ask_what_the_manual_says_with_bounded_patience(dev: Inventory) -> None:
    asked = {}
    for app in (CONTROLLER, COORDINATOR):
        container = template(dev, app)["spec"]["containers"][0]
        asked[app] = {kind: container[f"{kind}Probe"]["exec"]["command"][1:] for kind in ("startup", "readiness", "liveness")}
        assert all(container[f"{kind}Probe"]["timeoutSeconds"] <= 5 for kind in asked[app])

    assert asked[CONTROLLER] == {
        "startup": ["--port", "1026", "--path", "/v1/startup"],
        "readiness": ["--port", "1026", "--path", "/v1/health"],
        "liveness": ["--port", "1026", "--path", "/v1/health"],
    }
    assert asked[COORDINATOR] == {
        "startup": ["--port", "1029", "--path", "/v1/startup"],
        "readiness": ["--port", "1029", "--path", "/v1/readiness"],
        "liveness": ["--port", "1029", "--path", "/v1/health"],
    }


def test_a_loaded_coordinator_gets_two_minutes_before_it_is_restarted(dev: Inventory) -> None:
    probe = template(dev, COORDINATOR)["spec"]["containers"][0]["livenessProbe"]

    assert probe["periodSeconds"] * probe["failureThreshold"] == 120


def test_only_operator_and_clusterd_hold_a_token(dev: Inventory) -> None:
    holders = {
        each.metadata["name"] for each in dev.of(DEPLOYMENT) if template(dev, each.metadata["name"])["spec"]["automountServiceAccountToken"]
    }

    assert holders == {"infer-operator-manager", CLUSTERD}


def test_clusterd_writes_one_config_map_and_reads_pods_of_one_namespace(dev: Inventory) -> None:
    rbac = "kubernetes:rbac.authorization.k8s.io/v1"
    everywhere = dev.one(f"{rbac}:ClusterRole", "ascend-pd-clusterd").inputs["rules"]
    local = dev.one(f"{rbac}:Role", CLUSTERD)

    assert everywhere == [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch"]}]
    assert local.metadata["namespace"] == "mindie"
    assert [rule.get("resourceNames") for rule in local.inputs["rules"] if "update" in rule["verbs"]] == [["global-ranktable"]]


def test_requests_enter_by_a_node_port_only_when_one_is_given() -> None:
    service = "kubernetes:core/v1:Service"
    name = "mindie-ms-coordinator-infer"
    inside = declared(trial_stack()).one(service, name).inputs["spec"]
    outside = declared(trial_stack({"coordinator.node_port": 31015})).one(service, name).inputs["spec"]

    assert (inside["type"], inside["ports"]) == ("ClusterIP", [{"name": "infer", "port": 1025}])
    assert (outside["type"], outside["ports"]) == ("NodePort", [{"name": "infer", "port": 1025, "nodePort": 31015}])
    assert outside["externalTrafficPolicy"] == "Cluster"


@pytest.mark.parametrize("replicas", [1, 2])
def test_the_simulated_coordinator_knows_whether_it_has_a_partner(replicas: int) -> None:
    stack = declared(trial_stack({"coordinator.replicas": replicas}))
    names = [each["name"] for each in template(stack, COORDINATOR)["spec"]["containers"][0]["env"]]

    assert ("SIM_BACKUP" in names) == (replicas == 2)


def test_what_waits_for_servers_is_awaited_by_the_proof_and_the_rest_within_a_bound(dev: Inventory) -> None:
    skipped = {"pulumi.com/skipAwait": "true"}
    assert dev.one(DEPLOYMENT, COORDINATOR).metadata["annotations"].items() >= skipped.items()
    assert dev.one(DEPLOYMENT, CLUSTERD).metadata["annotations"]["pulumi.com/timeoutSeconds"] == "300"
    for service in ("mindie-ms-coordinator-infer", "clusterd"):
        assert dev.one("kubernetes:core/v1:Service", service).metadata["annotations"] == skipped


def test_the_coordinator_starts_when_etcd_and_clusterd_are_there_so_that_their_failure_is_not_hidden_behind_its_await(
    dev: Inventory,
) -> None:
    needs = {urn.rpartition("::")[2] for urn in dev.one(DEPLOYMENT, COORDINATOR).dependencies}

    assert {name.rpartition("-")[0] for name in needs} >= {"pd-etcd-auth", "pd-clusterd"}


def test_the_controller_finds_an_external_clusterd_by_the_name_it_is_given(tmp_path: Path) -> None:
    changes = {"clusterd.mode": "external", "clusterd.host": "clusterd.mindx-dl.svc.cluster.local", "clusterd.job_id": "job-1"}
    peer = {"clusterd.peer": {"cidr": "10.0.0.0/24", "port": 8899}}
    container = template(declared(trial_stack({**changes, **peer})), CONTROLLER)["spec"]["containers"][0]
    environment = {entry["name"]: entry["value"] for entry in container["env"] if "value" in entry}
    config = manual_sample()
    config["tls_config"].update({f"{link}_tls_enable": False for link in TlsLink})
    path = tmp_path / "ms_controller.json"
    path.write_text(json.dumps(config))
    path.chmod(0o640)

    assert load(environment, str(path)).clusterd_address == ("job-1", "clusterd.mindx-dl.svc.cluster.local")
