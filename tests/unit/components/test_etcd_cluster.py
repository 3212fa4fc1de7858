# SPDX-License-Identifier: Apache-2.0
"""The etcd cluster: names in its URLs, flags, order, and what makes members restart."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.declared_stack import declared, pod_templates, trial_stack
from tests.support.pulumi_mocks import Inventory

STATEFUL_SET = "kubernetes:apps/v1:StatefulSet"


@pytest.fixture(scope="module")
def elsewhere() -> Inventory:
    """etcd in namespace `infra` of a cluster with domain `corp.local`."""
    return declared(trial_stack({"namespaces.etcd": "infra", "cluster.domain": "corp.local"}))


def member(stack: Inventory) -> dict[str, Any]:
    (template,) = pod_templates(stack.one(STATEFUL_SET))
    container: dict[str, Any] = template["spec"]["containers"][0]
    return container


def flags(stack: Inventory) -> dict[str, str]:
    pairs = (argument.removeprefix("--").partition("=") for argument in member(stack)["args"])
    return {name: value for name, _, value in pairs}


def test_members_know_each_other_by_their_full_names(elsewhere: Inventory) -> None:
    found = flags(elsewhere)

    assert found["initial-cluster"].split(",") == [f"etcd-{n}=https://etcd-{n}.etcd.infra.svc.corp.local:2380" for n in range(3)]
    assert found["initial-advertise-peer-urls"] == "https://$(POD_NAME).etcd.$(POD_NAMESPACE).svc.corp.local:2380"
    assert found["advertise-client-urls"] == "https://$(POD_NAME).etcd.$(POD_NAMESPACE).svc.corp.local:2379"


def test_the_controller_dials_the_service_by_its_full_name(elsewhere: Inventory) -> None:
    settings = elsewhere.one("kubernetes:core/v1:ConfigMap", "mindie-ms-controller-config").inputs["data"]["ms_controller.json"]

    assert '"database_server_dns": "etcd.infra.svc.corp.local"' in settings


def test_no_listener_is_on_all_addresses_and_only_metrics_are_plain(elsewhere: Inventory) -> None:
    listeners = {name: value for name, value in flags(elsewhere).items() if name.startswith("listen-")}

    assert listeners == {
        "listen-client-urls": "https://$(POD_IP):2379,https://127.0.0.1:2379",
        "listen-peer-urls": "https://$(POD_IP):2380",
        "listen-metrics-urls": "http://$(POD_IP):8080",
    }


def test_both_planes_demand_certificates_that_are_not_revoked(elsewhere: Inventory) -> None:
    found = flags(elsewhere)

    assert {"client-cert-auth", "peer-client-cert-auth"} <= found.keys()
    assert found["client-crl-file"] == "/mnt/tls/etcd-server/crl.der"
    assert found["peer-crl-file"] == "/mnt/tls/etcd-peer/crl.der"
    assert found["client-cert-allowed-hostname"] == "etcd.client.local"
    assert found["tls-min-version"] == "TLS1.3"
    assert found["trusted-ca-file"] != found["peer-trusted-ca-file"]


def test_history_is_compacted_by_time_and_the_volume_is_the_configured_one() -> None:
    stack = declared(trial_stack({"etcd.compaction_minutes": 15, "etcd.storage_class": "fast", "etcd.volume_bytes": 6442450944}))

    found = flags(stack)
    assert (found["auto-compaction-mode"], found["auto-compaction-retention"]) == ("periodic", "15m")
    (claim,) = stack.one(STATEFUL_SET).inputs["spec"]["volumeClaimTemplates"]
    assert claim["spec"] == {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "6442450944"}},
        "storageClassName": "fast",
    }


def test_members_start_together_stay_apart_and_leave_one_at_a_time(dev: Inventory) -> None:
    spec = dev.one(STATEFUL_SET).inputs["spec"]

    assert (spec["replicas"], spec["podManagementPolicy"]) == (3, "Parallel")
    (term,) = spec["template"]["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term["topologyKey"] == "kubernetes.io/hostname"
    assert dev.one("kubernetes:policy/v1:PodDisruptionBudget", "etcd").inputs["spec"]["maxUnavailable"] == 1


def test_members_find_each_other_before_they_are_ready(dev: Inventory) -> None:
    spec = dev.one("kubernetes:core/v1:Service", "etcd").inputs["spec"]

    assert (spec["clusterIP"], spec["publishNotReadyAddresses"]) == ("None", True)
    assert {port["name"]: port["port"] for port in spec["ports"]} == {"etcd-client": 2379, "etcd-peer": 2380, "etcd-metrics": 8080}


def test_the_numbers_of_both_lists_stand_on_the_members_pods(dev: Inventory) -> None:
    (template,) = pod_templates(dev.one(STATEFUL_SET))

    assert template["metadata"]["annotations"] == {"ascend-pd.io/crl-numbers": "etcd=1 etcd-peer=1"}


def test_the_job_grants_each_user_its_own_prefixes_and_gives_no_password(dev: Inventory) -> None:
    (job,) = [each for each in dev.of("kubernetes:batch/v1:Job") if each.metadata["name"].startswith("etcd-auth")]
    (template,) = pod_templates(job)
    arguments = template["spec"]["containers"][0]["args"]

    assert [argument for argument in arguments if argument.startswith("--grant")] == [
        "--grant=controller-mindie=/mindie/cluster/,/mindie/controller/",
        "--grant=coordinator-mindie=/mindie/coordinator/",
    ]
    assert not [argument for argument in arguments if "pass" in argument]


def test_another_grant_is_another_job() -> None:
    jobs = {
        each.metadata["name"]
        for namespace in ("mindie", "inference")
        for each in declared(trial_stack({"namespaces.workload": namespace})).of("kubernetes:batch/v1:Job")
        if each.metadata["name"].startswith("etcd-auth")
    }

    assert len(jobs) == 2
