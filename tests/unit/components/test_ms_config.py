# SPDX-License-Identifier: Apache-2.0
"""The controller's configuration file, read as the controller reads it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from controller_runtime.api.ms_config import MsControllerConfig, TlsLink
from controller_runtime.api.ms_config_check import parse
from tests.support.declared_stack import ENGINE, declared, pod_templates, trial_stack
from tests.support.pulumi_mocks import Inventory

DEPLOYMENT = "kubernetes:apps/v1:Deployment"


def files(stack: Inventory) -> dict[str, Any]:
    data = stack.one("kubernetes:core/v1:ConfigMap", "mindie-ms-controller-config").inputs["data"]
    return {name: json.loads(text) for name, text in data.items()}


def settings(stack: Inventory) -> MsControllerConfig:
    return parse(files(stack)["ms_controller.json"], "ms_controller.json")


def mounted_secrets(stack: Inventory, deployment: str) -> dict[str, str]:
    """Mount path -> name of the Secret."""
    (template,) = pod_templates(stack.one(DEPLOYMENT, deployment))
    sources = {volume["name"]: volume["secret"]["secretName"] for volume in template["spec"]["volumes"] if "secret" in volume}
    mounts = template["spec"]["containers"][0]["volumeMounts"]
    return {mount["mountPath"]: sources[mount["name"]] for mount in mounts if mount["name"] in sources}


def test_every_certificate_in_the_file_is_one_of_a_mounted_secret(any_stack: Inventory) -> None:
    mounts = mounted_secrets(any_stack, "mindie-ms-controller")
    secrets = {each.metadata["name"]: each for each in any_stack.of("kubernetes:core/v1:Secret")}
    tls = files(any_stack)["ms_controller.json"]["tls_config"]
    switches = {name for name in tls if name.endswith("_tls_enable")}
    blocks = {name.removesuffix("_items"): items for name, items in tls.items() if name.endswith("_tls_items")}

    assert {name.removesuffix("_enable") for name in switches} == blocks.keys() == {f"{link}_tls" for link in TlsLink}
    assert all(tls[switch] is True for switch in switches)
    for items in blocks.values():
        for item in ("ca_cert", "tls_cert", "tls_key", "tls_crl"):
            directory, _, file = items[item].rpartition("/")
            assert file in secrets[mounts[directory]].inputs["data"], items[item]


def test_no_two_links_share_a_certificate(any_stack: Inventory) -> None:
    tls = files(any_stack)["ms_controller.json"]["tls_config"]
    keys = [items["tls_key"] for name, items in tls.items() if name.endswith("_tls_items")]

    assert len(keys) == len(TlsLink) == len(set(keys))


def test_the_probe_of_each_pod_has_its_certificate(any_stack: Inventory) -> None:
    for deployment in ("mindie-ms-controller", "mindie-ms-coordinator"):
        assert mounted_secrets(any_stack, deployment)["/mnt/tls/probe"] == "probe-tls"


def test_the_profiles_named_in_the_file_stand_beside_it(any_stack: Inventory) -> None:
    found = files(any_stack)
    config = found["ms_controller.json"]

    for key in ("digs_model_config_path", "digs_machine_config_path"):
        directory, _, file = config[key].rpartition("/")
        assert directory == "/mnt/configmap"
        assert file in found


def test_ports_of_peers_are_those_the_peers_listen_on() -> None:
    changes = {
        "controller.ports": {"http": 2026, "alarm": 2027, "status": 2029},
        "coordinator.ports": {"predict": 3025, "management": 3026, "external": 3028, "status": 3029},
        "workload.ports": {"data": 4025, "management": 4026, "metrics": 4027, "node_manager": 4028, "transfer": 4030, "admin": 4031},
    }
    stack = declared(trial_stack(changes))
    config = settings(stack)

    assert (config.http_server.port, config.controller_alarm_port) == (2026, 2027)
    assert (config.mindie_ms_coordinator_port, config.mindie_ms_coordinator_external_port) == (3026, 3028)
    assert (config.mindie_server_port, config.mindie_server_control_port, config.mindie_server_metric_port) == (4025, 4026, 4027)
    assert config.node_manager_port == 4028
    for deployment, expected in (("mindie-ms-controller", {2026, 2027, 2029}), ("mindie-ms-coordinator", {3025, 3026, 3028, 3029})):
        (template,) = pod_templates(stack.one(DEPLOYMENT, deployment))
        assert {port["containerPort"] for port in template["spec"]["containers"][0]["ports"]} == expected
    servers = [*pod_templates(stack.one("kubernetes:mindcluster.huawei.com/v1:InferServiceSet"))]
    for template in servers:
        listening = {port["containerPort"] for container in template["spec"]["containers"] for port in container["ports"]}
        assert {4025, 4026, 4027, 4028, 4030} <= listening


def test_roles_come_from_the_hardware_when_it_differs_else_from_a_label() -> None:
    different = settings(declared(trial_stack()))
    same = settings(declared(trial_stack({"workload.heterogeneous": False})))

    assert (different.is_heterogeneous, different.is_multi_node) == (True, False)
    assert (same.is_heterogeneous, same.is_multi_node) == (False, True)
    assert not different.digs_periodic_role_decision.auto_pd_role_switching_enable


def test_leadership_is_on_with_the_configured_lease() -> None:
    backup = settings(declared(trial_stack({"controller.lease_ttl_s": 9, "controller.lease_renew_s": 3}))).controller_backup_cfg

    assert backup.function_sw
    assert (backup.lease_ttl_seconds, backup.lease_renew_seconds) == (9, 3)


def test_the_path_of_a_passphrase_is_the_one_the_site_gives() -> None:
    brought = {"ms-controller-ccae": {"secret": "to-ccae", "passphrase_file": "/mnt/tls/ms-controller-ccae/password"}}
    stack = declared(trial_stack({"pki.existing": brought}))

    assert files(stack)["ms_controller.json"]["tls_config"]["ccae_tls_items"]["tls_passwd"] == "/mnt/tls/ms-controller-ccae/password"
    assert mounted_secrets(stack, "mindie-ms-controller")["/mnt/tls/ms-controller-ccae"] == "to-ccae"


@pytest.mark.parametrize("external", [False, True])
def test_the_rank_table_is_read_from_a_config_map_or_written_from_the_stream(external: bool) -> None:
    stack = declared(trial_stack(ENGINE if external else {}))
    (template,) = pod_templates(stack.one(DEPLOYMENT, "mindie-ms-controller"))
    environment = {each["name"]: each.get("value") for each in template["spec"]["containers"][0]["env"]}
    (volume,) = [each for each in template["spec"]["volumes"] if each["name"] in ("rank-table", "global-ranktable")]

    assert environment["GLOBAL_RANK_TABLE_FILE_PATH"] == files(stack)["ms_controller.json"]["global_rank_table_file_path"]
    if external:
        assert (environment["MINDX_TASK_ID"], environment["MINDX_SERVER_IP"]) == ("pd", "clusterd.mindx-dl.svc")
        assert "emptyDir" in volume
        assert environment["GLOBAL_RANK_TABLE_FILE_PATH"] == "/user/serverid/devindex/config/global_ranktable.json"
    else:
        assert "MINDX_TASK_ID" not in environment
        assert volume["configMap"]["optional"] is True
        assert environment["GLOBAL_RANK_TABLE_FILE_PATH"] == "/user/serverid/devindex/config/..data/global_ranktable.json"
