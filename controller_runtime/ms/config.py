# SPDX-License-Identifier: Apache-2.0
"""Settings of one controller process: the file, what the environment overrides, and the files it names.

All problems of file, permissions and named files are reported together. Rates are read from the
environment each time roles are decided, because the manual lets operators change them while running.
Seed: controller manual, table 1 and table 4 (environment variables).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from controller_runtime.api.ms_config import DEFAULT_PATH, MsControllerConfig, TlsItems, TlsLink
from controller_runtime.api.ms_config_check import address_problem, host_problem, parse, rate_problem
from controller_runtime.api.roles import GROUP_LIMIT_MULTI_NODE, MAX_RATE
from controller_runtime.errors import ConfigError
from controller_runtime.foundation.log import LEVELS, get_logger
from controller_runtime.ms.file_check import DATA_MODE, SECRET_MODE, file_problem

CONFIG_PATH_VARIABLE: Final = "MINDIE_MS_CONTROLLER_CONFIG_FILE_PATH"
MAX_NESTING: Final = 10
MAX_ENVIRONMENT_CHARS: Final = 256

log = get_logger(__name__)


@dataclass(frozen=True)
class Settings:
    """What the process runs with.

    `path`: the configuration file. `pod_ip`: the address every listener binds. `namespace` may be empty.
    """

    path: Path
    config: MsControllerConfig
    environment: Mapping[str, str] = field(repr=False)
    pod_ip: str
    rank_table_path: Path
    namespace: str

    @property
    def checks_permission(self) -> bool:
        """Whether mounted files must have safe permissions."""
        return _checks_permission(self.environment)

    @property
    def clusterd_address(self) -> tuple[str, str] | None:
        """Job id and host name or address of ClusterD, None when it is not to be used: that takes both variables."""
        job, host = self.environment.get("MINDX_TASK_ID", ""), self.environment.get("MINDX_SERVER_IP", "")
        return (job, host) if job and host else None

    def resolve(self, path: str) -> Path:
        """A path of the file as the process sees it: relative ones start at the working directory."""
        return Path(path)

    def tls_items(self, link: TlsLink) -> TlsItems | None:
        """Files of one link's identity, None when that link is plain."""
        return self.config.tls_config.items(link)

    def rates(self) -> tuple[int, int]:
        """Prefill and decode rate as of now.

        Raises:
            ConfigError: the pair that file and environment make together is not allowed.
        """
        is_multi_node = self.config.is_multi_node
        p_rate = self._rate("MINDIE_MS_P_RATE", self.config.default_p_rate, is_multi_node)
        d_rate = self._rate("MINDIE_MS_D_RATE", self.config.default_d_rate, is_multi_node)
        if problem := rate_problem(p_rate, d_rate, is_multi_node=is_multi_node):
            raise ConfigError(f"{self.path.name} with MINDIE_MS_P_RATE and MINDIE_MS_D_RATE: {problem}")
        return p_rate, d_rate

    def _rate(self, variable: str, configured: int, is_multi_node: bool) -> int:
        text = self.environment.get(variable, "")
        if not text:
            return configured
        limit = GROUP_LIMIT_MULTI_NODE - 1 if is_multi_node else MAX_RATE
        if text.isascii() and text.isdecimal() and len(text) <= 5 and int(text) <= limit:
            return int(text)
        log.error("rate in the environment ignored", variable=variable, allowed=f"0-{limit}", used=configured)
        return configured


def load(environment: Mapping[str, str], path: str | None = None) -> Settings:
    """Read the configuration file; `path` wins over the environment, that over the manual's default.

    Raises:
        ConfigError: with every problem of the file and of the files it names.
    """
    named = path or environment.get(CONFIG_PATH_VARIABLE, "")
    where = Path(named or DEFAULT_PATH)
    checks = _checks_permission(environment) or not named
    if problem := file_problem(str(where), allowed_mode=DATA_MODE, check_permission=checks):
        raise ConfigError(f"{where}: {problem}")
    config = parse(_read_object(where), where.name)
    if (host := environment.get("MINDX_SERVER_IP", "")) and (problem := host_problem(host)):
        raise ConfigError(f"environment: MINDX_SERVER_IP {problem}")
    settings = Settings(
        path=where,
        config=config,
        environment=environment,
        pod_ip=_pod_ip(config, environment),
        rank_table_path=Path(environment.get("GLOBAL_RANK_TABLE_FILE_PATH") or config.global_rank_table_file_path),
        namespace=environment.get("POD_NAMESPACE", ""),
    )
    if problems := list(_identity_problems(settings)):
        raise ConfigError([f"{where.name}: {problem}" for problem in problems])
    return settings


def log_level(environment: Mapping[str, str], config: MsControllerConfig | None = None) -> str:
    """Log level: `MINDIE_LOG_LEVEL`, then `MINDIEMS_LOG_LEVEL`, then the file, then INFO."""
    configured = config.log_info.log_level if config else ""
    for text in (environment.get("MINDIE_LOG_LEVEL", ""), environment.get("MINDIEMS_LOG_LEVEL", ""), configured):
        level = _level_of_component(text)
        if level == "NULL":
            return "CRITICAL"
        if level in LEVELS:
            return level
    return "INFO"


def settings_without_effect(config: MsControllerConfig) -> tuple[str, ...]:
    """Keys that the file sets and that change nothing here yet."""
    logging = sorted(f"log_info.{key}" for key in config.log_info.model_fields_set - {"log_level"})
    recoveries = sorted(f"fault_recovery_func_dict.{name}" for name, is_on in config.fault_recovery_func_dict.items() if is_on)
    others = sorted(config.model_fields_set & {"ccae", "scaling_rule_file_path"})
    return (*others, *recoveries, *logging)


def used_links(settings: Settings) -> tuple[TlsLink, ...]:
    """Links this process opens: those of features that are off stay closed."""
    config = settings.config
    always = (TlsLink.HTTP_SERVER, TlsLink.REQUEST_SERVER, TlsLink.REQUEST_COORDINATOR, TlsLink.EXTERNAL_COORDINATOR)
    optional = (
        (TlsLink.ETCD_SERVER, config.controller_backup_cfg.function_sw),
        (TlsLink.CLUSTER, settings.clusterd_address is not None),
        (TlsLink.ALARM, config.is_multi_node),
        (TlsLink.CCAE, config.ccae is not None),
    )
    return (*always, *(link for link, is_used in optional if is_used))


def _checks_permission(environment: Mapping[str, str]) -> bool:
    return environment.get("MINDIE_CHECK_INPUTFILES_PERMISSION", "") != "0"


def _read_object(path: Path) -> dict[str, object]:
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: is not JSON ({error}). Correct it.") from error
    if not isinstance(raw, dict) or not raw:
        raise ConfigError(f"{path}: is not an object with keys. Start from the manual's sample.")
    if _nesting(raw) > MAX_NESTING:
        raise ConfigError(f"{path}: is nested deeper than {MAX_NESTING} levels. Flatten it.")
    return raw


def _nesting(value: object) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max((_nesting(item) for item in inner), default=0)


def _pod_ip(config: MsControllerConfig, environment: Mapping[str, str]) -> str:
    ip = environment.get("POD_IP", "")
    if not ip:
        return config.http_server.ip
    if problem := address_problem(ip, allow_all_zero=config.allow_all_zero_ip_listening):
        log.error("POD_IP ignored", err=f"POD_IP {problem}", used=config.http_server.ip)
        return config.http_server.ip
    return ip


def _identity_problems(settings: Settings) -> Iterator[str]:
    for link in used_links(settings):
        items = settings.tls_items(link)
        if items is None:
            continue
        for name in ("ca_cert", "tls_cert", "tls_key", "tls_passwd", "tls_crl"):
            path: str = getattr(items, name)
            if not path or (name == "tls_passwd" and not os.path.exists(path)):
                continue
            problem = file_problem(path, allowed_mode=SECRET_MODE, check_permission=settings.checks_permission)
            if problem:
                yield f"tls_config.{link}_tls_items.{name} ({path}) {problem}"


def _level_of_component(text: str) -> str:
    """Level that a list like `error; ms: info` gives the component `ms`; later entries win."""
    if len(text) > MAX_ENVIRONMENT_CHARS:
        return ""
    level = ""
    for entry in text.split(";"):
        component, separator, value = entry.rpartition(":")
        if not separator or component.strip() == "ms":
            level = value.strip().upper()
    return level
