# SPDX-License-Identifier: Apache-2.0
"""`ms_controller.json`: every key, its range and, where the manual allows leaving it out, its default.

Integers are JSON integers: `5.0`, `"5"` and `true` are refused. Unknown keys are ignored. Rules that
involve more than one key, and the report of all problems at once, are in `ms_config_check`.
Seed: controller manual, table 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Final, Literal

from pydantic import ConfigDict, Field, ValidationError, ValidatorFunctionWrapHandler, field_validator

from controller_runtime.api.base import WireModel

DEFAULT_PATH: Final = "./conf/ms_controller.json"

Text = Annotated[str, Field(min_length=1, max_length=4096)]
Port = Annotated[int, Field(ge=1024, le=65535)]
Positive = Annotated[int, Field(ge=1, le=65535)]
Rate = Annotated[int, Field(ge=0, le=767)]
"""The single-node range 0-15 is a rule over several keys."""


class ConfigModel(WireModel):
    """Part of the file: strict types, unknown keys ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True, strict=True)


class DeployMode(StrEnum):
    """How Servers are deployed. `SINGLE_NODE` has no roles; the others separate prefill from decode."""

    PD_SEPARATE = "pd_separate"
    PD_DISAGGREGATION = "pd_disaggregation"
    PD_SINGLE_CONTAINER = "pd_disaggregation_single_container"
    SINGLE_NODE = "single_node"


class ProcessManager(ConfigModel):
    """Backup of roles. `file_path` is set whenever `to_file` is."""

    to_file: bool
    file_path: Text | None = None


class ClusterStatusOutput(ConfigModel):
    """Export of the cluster status. `file_path` is set whenever `to_file` is."""

    to_file: bool
    file_path: Text | None = None


class BackupConfig(ConfigModel):
    """Leader and standby Controller over etcd. The two lease settings are ours; the manual fixes neither."""

    function_sw: bool = False
    database_server_dns: Text = "etcd.default.svc.cluster.local"
    database_server_port: Port = 2379
    lease_ttl_seconds: Annotated[int, Field(ge=2, le=600)] = 20
    lease_renew_seconds: Annotated[int, Field(ge=1, le=300)] | None = None
    """None: half the lease's life, between 1 and 10."""


class Ccae(ConfigModel):
    """Where CCAE listens."""

    ip: Text
    port: Port
    kafka_port: Port = 26329


class NodeConfig(ConfigModel):
    """Parallelism of one side. `node_machine_num`: Servers per instance."""

    enable_dist_dp_server: bool
    node_machine_num: Annotated[int, Field(ge=1, le=768)]
    tp_size: Annotated[int, Field(ge=1, le=16)]
    dp_size: Annotated[int, Field(ge=1, le=512)]
    sp_size: Annotated[int, Field(ge=1, le=16)]
    cp_size: Annotated[int, Field(ge=1, le=512)] = 1


class MultiNodeConfig(ConfigModel):
    """Instances that span hosts."""

    multi_node_infer_enable: bool
    p_node_config: NodeConfig
    d_node_config: NodeConfig


class PeriodicDecision(ConfigModel):
    """Switching of roles at run time. Periods in seconds."""

    auto_pd_role_switching_enable: bool
    role_decision_time_period: Annotated[int, Field(ge=3600, le=1_296_000)]
    tasks_end_wait_seconds: Positive


class HttpServerConfig(ConfigModel):
    """Where `/v1/startup` and `/v1/health` are served."""

    ip: Text
    port: Port


class TlsItems(ConfigModel):
    """Files of one identity. `tls_passwd` names the password's file; an empty `tls_crl` means no revocation check."""

    ca_cert: Text
    tls_cert: Text
    tls_key: Text
    tls_passwd: Text
    tls_crl: Annotated[str, Field(max_length=4096)]


class TlsLink(StrEnum):
    """The links of a Controller, by the prefix of their keys."""

    REQUEST_COORDINATOR = "request_coordinator"
    REQUEST_SERVER = "request_server"
    HTTP_SERVER = "http_server"
    CLUSTER = "cluster"
    ETCD_SERVER = "etcd_server"
    CCAE = "ccae"
    ALARM = "alarm"
    EXTERNAL_COORDINATOR = "external_coordinator"


MANDATORY_LINKS: Final = tuple(link for link in TlsLink if link is not TlsLink.CCAE)


class TlsConfig(ConfigModel):
    """One switch and one set of files per link. Files of a link that is off are not read."""

    request_coordinator_tls_enable: bool
    request_coordinator_tls_items: TlsItems | None = None
    request_server_tls_enable: bool
    request_server_tls_items: TlsItems | None = None
    http_server_tls_enable: bool
    http_server_tls_items: TlsItems | None = None
    cluster_tls_enable: bool
    cluster_tls_items: TlsItems | None = None
    etcd_server_tls_enable: bool
    etcd_server_tls_items: TlsItems | None = None
    ccae_tls_enable: bool = True
    ccae_tls_items: TlsItems | None = None
    alarm_tls_enable: bool
    alarm_tls_items: TlsItems | None = None
    external_coordinator_tls_enable: bool
    external_coordinator_tls_items: TlsItems | None = None

    def items(self, link: TlsLink) -> TlsItems | None:
        """Files of this link, None when its switch is off."""
        found: TlsItems | None = getattr(self, f"{link}_tls_items") if getattr(self, f"{link}_tls_enable") else None
        return found


class LogInfo(ConfigModel):
    """Logging. A bad value falls back to its default; sizes: characters, MB, files."""

    log_level: str = "INFO"
    to_file: bool = True
    to_stdout: bool = False
    run_log_path: Text | None = None
    operation_log_path: Text | None = None
    max_log_str_size: Annotated[int, Field(ge=128, le=65535)] = 4096
    max_log_file_size: Annotated[int, Field(ge=1, le=500)] = 20
    max_log_file_num: Annotated[int, Field(ge=1, le=64)] = 10

    @field_validator("*", mode="wrap")
    @classmethod
    def _default_when_invalid(cls, value: Any, handler: ValidatorFunctionWrapHandler, info: Any) -> Any:
        try:
            return handler(value)
        except ValidationError:
            return cls.model_fields[info.field_name].get_default()


class MsControllerConfig(ConfigModel):
    """The file. Build one with `ms_config_check.parse`, which also checks the rules over several keys.

    Paths are as written, relative to the working directory. Times are seconds, lengths tokens,
    service-level objectives milliseconds.
    """

    allow_all_zero_ip_listening: bool
    deploy_mode: Annotated[DeployMode, Field(strict=False)]
    initial_dist_server_port: Port = 10000
    cluster_port: Port = 8899
    process_manager: ProcessManager
    cluster_status: ClusterStatusOutput
    ccae: Ccae | None = None
    enable_dynamic_adjust_timeout_config: Annotated[bool, Field(alias="EnableDynamicAdjustTimeoutConfig")] = False
    controller_backup_cfg: BackupConfig = BackupConfig()
    fault_recovery_func_dict: Mapping[str, bool] = Field(default_factory=dict)
    global_rank_table_file_path: Text
    scaling_rule_file_path: Text = "./conf/elastic_scaling.json"
    cluster_synchronization_seconds: Positive
    rank_table_detecting_seconds: Positive
    disappeared_server_waiting_seconds: Positive
    default_p_rate: Rate
    default_d_rate: Rate
    is_heterogeneous: bool
    has_flex: Literal[False] = False
    server_online_attempt_times: Positive
    server_online_wait_seconds: Positive
    init_role_attempt_times: Positive
    check_role_attempt_times: Positive
    check_role_wait_seconds: Positive
    mindie_server_control_port: Port
    mindie_server_port: Port
    mindie_server_metric_port: Port
    controller_alarm_port: Port
    mindie_ms_coordinator_port: Port
    node_manager_port: Port
    mindie_ms_coordinator_external_port: Port
    http_timeout_seconds: Positive
    http_retries: Annotated[int, Field(ge=0, le=65535)]
    role_decision_methods: Literal["digs"]
    digs_request_summary_input_length: Positive
    digs_request_summary_output_length: Positive
    digs_model_config_path: Text
    digs_machine_config_path: Text
    digs_prefill_slo: Positive
    digs_decode_slo: Positive
    digs_pp: Positive
    multi_node_infer_config: MultiNodeConfig | None = None
    model_type: Text
    transfer_type: Literal["D2DTransfer"]
    digs_periodic_role_decision: PeriodicDecision
    http_server: HttpServerConfig
    tls_config: TlsConfig
    log_info: LogInfo = LogInfo()

    @property
    def is_multi_node(self) -> bool:
        """True when instances may span hosts."""
        return self.multi_node_infer_config is not None and self.multi_node_infer_config.multi_node_infer_enable

    @property
    def has_roles(self) -> bool:
        """False only for `single_node`, where every Server does both."""
        return self.deploy_mode is not DeployMode.SINGLE_NODE

    @property
    def is_single_container(self) -> bool:
        """True when all instances share one container."""
        return self.deploy_mode is DeployMode.PD_SINGLE_CONTAINER
