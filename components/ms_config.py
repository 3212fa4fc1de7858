# SPDX-License-Identifier: Apache-2.0
"""Configuration files of controller and coordinator, rendered from the stack model. Source: controller manual, table 1."""

from __future__ import annotations

from typing import Any

from controller_runtime.api.ms_config import TlsLink
from controller_runtime.api.ms_config_sample import manual_sample
from controller_runtime.api.pki import Identity
from controller_runtime.api.ports import ETCD_CLIENT
from controller_runtime.api.stack import ETCD_SERVICE, StackConfig
from controller_runtime.ms.role_decision.profiles import MACHINES, MODELS

STATUS_ROOT = "/var/lib/ascend-pd"
CONFIG_ROOT = "/mnt/configmap"
RANK_TABLE_ROOT = "/user/serverid/devindex/config"
RANK_TABLE_NAME = "global_ranktable.json"
RANK_TABLE_CONFIG_MAP = "global-ranktable"

IDENTITY_OF_LINK = {
    link: "etcd-controller" if link is TlsLink.ETCD_SERVER else f"ms-controller-{link.replace('_', '-')}" for link in TlsLink
}


def controller_files(config: StackConfig, identities: dict[str, Identity]) -> dict[str, Any]:
    """Files of the controller's ConfigMap: its settings and the two profiles they name."""
    decision = config.decision
    return {
        "ms_controller.json": ms_controller(config, identities),
        "model.json": MODELS[decision.model].model_dump(mode="json", by_alias=True),
        "machine.json": MACHINES[decision.machine].model_dump(mode="json", by_alias=True),
    }


def ms_controller(config: StackConfig, identities: dict[str, Identity]) -> dict[str, Any]:
    """Render ms_controller.json."""
    controller, ports, server = config.controller, config.controller.ports, config.workload.ports
    decision, workload = config.decision, config.workload
    log_root = f"{STATUS_ROOT}/logs"
    return manual_sample() | {
        "process_manager": {"to_file": True, "file_path": f"{STATUS_ROOT}/controller_process_status.json"},
        "cluster_status": {"to_file": True, "file_path": f"{STATUS_ROOT}/cluster_status_output.json"},
        "controller_backup_cfg": {
            "function_sw": True,
            "database_server_dns": f"{ETCD_SERVICE}.{config.namespaces.etcd}.svc.{config.cluster.domain}",
            "database_server_port": ETCD_CLIENT,
            "lease_ttl_seconds": controller.lease_ttl_s,
            "lease_renew_seconds": controller.lease_renew_s,
        },
        "global_rank_table_file_path": rank_table_file(config),
        "cluster_synchronization_seconds": controller.cluster_synchronization_seconds,
        "default_p_rate": controller.default_p_rate,
        "default_d_rate": controller.default_d_rate,
        "is_heterogeneous": workload.heterogeneous,
        "mindie_server_control_port": server.management,
        "mindie_server_port": server.data,
        "mindie_server_metric_port": server.metrics,
        "controller_alarm_port": ports.alarm,
        "mindie_ms_coordinator_port": config.coordinator.ports.management,
        "node_manager_port": server.node_manager,
        "mindie_ms_coordinator_external_port": config.coordinator.ports.external,
        "digs_request_summary_input_length": decision.input_length_tokens,
        "digs_request_summary_output_length": decision.output_length_tokens,
        "digs_model_config_path": f"{CONFIG_ROOT}/model.json",
        "digs_machine_config_path": f"{CONFIG_ROOT}/machine.json",
        "digs_prefill_slo": decision.prefill_slo_ms,
        "digs_decode_slo": decision.decode_slo_ms,
        "digs_pp": decision.pipeline_parallel,
        "multi_node_infer_config": _multi_node(config),
        "model_type": decision.model,
        "digs_periodic_role_decision": manual_sample()["digs_periodic_role_decision"] | {"auto_pd_role_switching_enable": False},
        "http_server": {"ip": "127.0.0.1", "port": ports.http},
        "tls_config": _tls_config(config, identities),
        "log_info": {
            "log_level": "INFO",
            "to_file": False,
            "to_stdout": True,
            "run_log_path": f"{log_root}/ms_controller_run_log.txt",
            "operation_log_path": f"{log_root}/ms_controller_operation_log.txt",
            "max_log_str_size": 4096,
            "max_log_file_size": 20,
            "max_log_file_num": 10,
        },
    }


def rank_table_file(config: StackConfig) -> str:
    """Where the controller finds the rank table.

    A site's ClusterD streams it to the controller, which writes the file. The simulated one writes a ConfigMap, where
    `..data` makes the last component a regular file, which the file checks demand. Source: deployment manual.
    """
    return f"{RANK_TABLE_ROOT}/{'' if config.clusterd.mode == 'external' else '..data/'}{RANK_TABLE_NAME}"


def _multi_node(config: StackConfig) -> dict[str, Any]:
    """Multi-node mode carries roles by `deploy_server` when the hardware does not."""

    def side(pods: int, npus: int) -> dict[str, Any]:
        return {"enable_dist_dp_server": False, "node_machine_num": pods, "tp_size": npus, "dp_size": 1, "sp_size": 1}

    workload = config.workload
    return {
        "multi_node_infer_enable": not workload.heterogeneous,
        "p_node_config": side(workload.prefill.pods_per_instance, workload.prefill.npus_per_pod),
        "d_node_config": side(workload.decode.pods_per_instance, workload.decode.npus_per_pod),
    }


def _tls_config(config: StackConfig, identities: dict[str, Identity]) -> dict[str, Any]:
    rendered: dict[str, Any] = {}
    for link, name in IDENTITY_OF_LINK.items():
        directory = identities[name].directory
        existing = config.pki.existing.get(name)
        rendered[f"{link}_tls_enable"] = True
        rendered[f"{link}_tls_items"] = {
            "ca_cert": f"{directory}/ca.crt",
            "tls_cert": f"{directory}/tls.crt",
            "tls_key": f"{directory}/tls.key",
            "tls_passwd": (existing.passphrase_file if existing else None) or f"{directory}/password",
            "tls_crl": f"{directory}/crl.pem",
        }
    return rendered
