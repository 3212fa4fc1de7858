# SPDX-License-Identifier: Apache-2.0
"""The manual's sample `ms_controller.json`, the base every rendered configuration starts from.

Seed: controller manual, configuration sample.
"""

from __future__ import annotations

from typing import Any

from controller_runtime.api.ms_config import TlsLink


def manual_sample() -> dict[str, Any]:
    """A fresh copy of the sample; change keys, then check it with `ms_config_check.parse`."""
    return {
        "allow_all_zero_ip_listening": False,
        "deploy_mode": "pd_separate",
        "initial_dist_server_port": 10000,
        "cluster_port": 8899,
        "process_manager": {"to_file": True, "file_path": "./logs/controller_process_status.json"},
        "cluster_status": {"to_file": True, "file_path": "./logs/cluster_status_output.json"},
        "controller_backup_cfg": {
            "function_sw": False,
            "database_server_dns": "etcd.default.svc.cluster.local",
            "database_server_port": 2379,
        },
        "fault_recovery_func_dict": {"lingqu_link": False},
        "global_rank_table_file_path": "./conf/global_rank_table_file.json",
        "cluster_synchronization_seconds": 1,
        "rank_table_detecting_seconds": 5,
        "disappeared_server_waiting_seconds": 7200,
        "default_p_rate": 0,
        "default_d_rate": 0,
        "is_heterogeneous": False,
        "server_online_attempt_times": 36,
        "server_online_wait_seconds": 5,
        "init_role_attempt_times": 2,
        "check_role_attempt_times": 300,
        "check_role_wait_seconds": 5,
        "mindie_server_control_port": 1026,
        "mindie_server_port": 1025,
        "mindie_server_metric_port": 1027,
        "controller_alarm_port": 1027,
        "mindie_ms_coordinator_port": 1026,
        "node_manager_port": 1028,
        "mindie_ms_coordinator_external_port": 1028,
        "http_timeout_seconds": 5,
        "http_retries": 3,
        "role_decision_methods": "digs",
        "digs_request_summary_input_length": 3000,
        "digs_request_summary_output_length": 200,
        "digs_model_config_path": "./conf/model_config/llama2-70B.json",
        "digs_machine_config_path": "./conf/machine_config/800IA2.json",
        "digs_prefill_slo": 1000,
        "digs_decode_slo": 50,
        "multi_node_infer_config": {
            "multi_node_infer_enable": False,
            "p_node_config": _node_config(),
            "d_node_config": _node_config(),
        },
        "model_type": "llama2-70B",
        "transfer_type": "D2DTransfer",
        "digs_pp": 1,
        "digs_periodic_role_decision": {
            "auto_pd_role_switching_enable": True,
            "role_decision_time_period": 86400,
            "tasks_end_wait_seconds": 300,
        },
        "http_server": {"ip": "127.0.0.1", "port": 1026},
        "tls_config": _tls_config(),
        "log_info": {
            "log_level": "INFO",
            "to_file": True,
            "to_stdout": True,
            "run_log_path": "./logs/ms_controller_run_log.txt",
            "operation_log_path": "./logs/ms_controller_operation_log.txt",
            "max_log_str_size": 4096,
            "max_log_file_size": 20,
            "max_log_file_num": 10,
        },
    }


def _node_config() -> dict[str, Any]:
    return {"enable_dist_dp_server": False, "node_machine_num": 2, "tp_size": 4, "dp_size": 4, "sp_size": 1}


def _tls_config() -> dict[str, Any]:
    config: dict[str, Any] = {}
    for link in TlsLink:
        directory = "alarm_server" if link is TlsLink.ALARM else link.value
        root = f"./security/{directory}/security"
        config[f"{link}_tls_enable"] = True
        config[f"{link}_tls_items"] = {
            "ca_cert": f"{root}/certs/ca.pem",
            "tls_cert": f"{root}/certs/cert.pem",
            "tls_key": f"{root}/keys/cert.key.pem",
            "tls_passwd": f"{root}/pass/key_pwd.txt",
            "tls_crl": "",
        }
    return config
