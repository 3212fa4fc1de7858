# SPDX-License-Identifier: Apache-2.0
"""Configuration vectors 1-38: base = the manual's sample with every TLS switch off, one thing changed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from controller_runtime.api.ms_config import TlsLink
from controller_runtime.api.ms_config_sample import manual_sample
from controller_runtime.errors import ConfigError
from controller_runtime.ms.config import Settings, load, settings_without_effect

Change = Callable[[dict[str, Any]], object]
REMOVED = object()
ITEMS = {"ca_cert": "a", "tls_cert": "b", "tls_key": "c", "tls_passwd": "d", "tls_crl": ""}


def base() -> dict[str, Any]:
    config = manual_sample()
    for link in TlsLink:
        config["tls_config"][f"{link}_tls_enable"] = False
    return config


def with_value(path: str, value: object) -> dict[str, Any]:
    """The base with one key changed, or removed."""
    config = base()
    *parents, last = path.split(".")
    place = config
    for parent in parents:
        place = place.setdefault(parent, {})
    if value is REMOVED:
        del place[last]
    else:
        place[last] = value
    return config


def write(directory: Path, config: dict[str, Any], mode: int = 0o640) -> Path:
    path = directory / "ms_controller.json"
    path.write_text(json.dumps(config))
    path.chmod(mode)
    return path


def load_changed(directory: Path, config: dict[str, Any], **environment: str) -> Settings:
    return load(environment, str(write(directory, config)))


def problems(directory: Path, config: dict[str, Any], **environment: str) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        load_changed(directory, config, **environment)
    return caught.value.problems


@pytest.mark.parametrize(
    ("number", "path", "value"),
    [
        (6, "http_server.ip", ".7212.123.163"),
        (6, "http_server.ip", "123456"),
        (6, "http_server.ip", "333.333.333.333"),
        (6, "http_server.ip", ""),
        (6, "http_server.ip", "1" * 6150),
        (6, "http_server.ip", 123456),
        (6, "http_server.ip", REMOVED),
        (7, "http_server.ip", "0.0.0.0"),
        (7, "http_server.ip", "0:0:0:0:0:0:0:0"),
        (7, "http_server.ip", "::ffff:0.0.0.0"),
        (10, "allow_all_zero_ip_listening", REMOVED),
        (12, "http_server.port", 1023),
        (12, "http_server.port", 65536),
        (12, "http_server.port", -123456),
        (12, "http_server.port", "123456"),
        (12, "http_server.port", ""),
        (12, "http_server.port", REMOVED),
        (12, "http_server.port", 1026.0),
        (14, "deploy_mode", "other"),
        (15, "role_decision_methods", "other"),
        (16, "transfer_type", "2DTransfer"),
        (23, "digs_periodic_role_decision.role_decision_time_period", 3599),
        (23, "digs_periodic_role_decision.role_decision_time_period", 1296001),
        (24, "http_retries", -1),
        (25, "http_timeout_seconds", 0),
        (31, "has_flex", True),
        (31, "has_flex", "x"),
        (34, "process_manager.file_path", REMOVED),
        (36, "controller_backup_cfg", {"function_sw": True, "database_server_port": 80}),
    ],
)
def test_a_bad_value_is_refused_by_its_path(tmp_path: Path, number: int, path: str, value: object) -> None:
    """Each vector gives exactly one problem, which names file and key."""
    [problem] = problems(tmp_path, with_value(path, value))

    assert problem.startswith(f"ms_controller.json: {path}"), number


@pytest.mark.parametrize(
    ("number", "path", "value"),
    [
        (5, "http_server.ip", "12.34.56.78"),
        (11, "http_server.port", 65535),
        (11, "http_server.port", 1024),
        (13, "deploy_mode", "pd_disaggregation"),
        (13, "deploy_mode", "pd_disaggregation_single_container"),
        (13, "deploy_mode", "single_node"),
        (23, "digs_periodic_role_decision.role_decision_time_period", 3600),
        (23, "digs_periodic_role_decision.role_decision_time_period", 1296000),
        (24, "http_retries", 0),
        (26, "multi_node_infer_config", REMOVED),
        (31, "has_flex", False),
        (38, "scaling_rule_file_path", "./conf/elastic_scaling.json"),
    ],
)
def test_a_good_value_is_accepted(tmp_path: Path, number: int, path: str, value: object) -> None:
    config = load_changed(tmp_path, with_value(path, value)).config

    if value is not REMOVED:
        assert _read(config.model_dump(mode="json"), path) == value, number


@pytest.mark.parametrize(
    ("number", "rates", "is_accepted"),
    [
        (17, (0, 0), True),
        (17, (1, 1), True),
        (17, (15, 1), True),
        (17, (1, 15), True),
        (18, (1, 0), False),
        (18, (0, 1), False),
        (19, (16, 1), False),
        (19, (2, 15), False),
        (19, (15, 2), False),
        (19, (1, 16), False),
    ],
)
def test_rates_are_both_zero_or_both_set_and_at_most_sixteen(
    tmp_path: Path, number: int, rates: tuple[int, int], is_accepted: bool
) -> None:
    config = base() | {"default_p_rate": rates[0], "default_d_rate": rates[1]}

    if is_accepted:
        assert load_changed(tmp_path, config).rates() == rates, number
    else:
        [problem] = problems(tmp_path, config)
        assert f"default_p_rate {rates[0]}" in problem or f"default_p_rate is {rates[0]}" in problem


@pytest.mark.parametrize(("number", "mode"), [(1, 0o640), (3, 0o600)])
def test_a_file_that_only_we_and_our_group_read_is_accepted(tmp_path: Path, number: int, mode: int) -> None:
    assert load({}, str(write(tmp_path, base(), mode))).config.http_server.port == 1026


def test_vector_2_a_file_the_group_may_write_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="mode 0660, which gives the group more than 0640"):
        load({}, str(write(tmp_path, base(), 0o660)))


def test_vector_4_the_permission_check_can_be_switched_off_for_a_mounted_file(tmp_path: Path) -> None:
    path = write(tmp_path, base(), 0o777)

    load({"MINDIE_MS_CONTROLLER_CONFIG_FILE_PATH": str(path), "MINDIE_CHECK_INPUTFILES_PERMISSION": "0"})

    with pytest.raises(ConfigError, match="mode 0777"):
        load({"MINDIE_MS_CONTROLLER_CONFIG_FILE_PATH": str(path), "MINDIE_CHECK_INPUTFILES_PERMISSION": "no"})


def test_vector_8_all_zero_is_accepted_when_it_is_asked_for(tmp_path: Path) -> None:
    config = base() | {"http_server": {"ip": "0.0.0.0", "port": 1026}, "allow_all_zero_ip_listening": True}

    assert load_changed(tmp_path, config).pod_ip == "0.0.0.0"


def test_vector_9_an_all_zero_pod_address_is_ignored(tmp_path: Path) -> None:
    assert load_changed(tmp_path, base(), POD_IP="0.0.0.0").pod_ip == "127.0.0.1"
    assert load_changed(tmp_path, base(), POD_IP="10.1.2.3").pod_ip == "10.1.2.3"


def test_vectors_20_to_22_rates_of_the_environment_win_when_they_are_valid(tmp_path: Path) -> None:
    assert load_changed(tmp_path, base(), MINDIE_MS_P_RATE="3", MINDIE_MS_D_RATE="1").rates() == (3, 1)

    one_to_two = base() | {"default_p_rate": 1, "default_d_rate": 2}
    assert load_changed(tmp_path, one_to_two, MINDIE_MS_P_RATE="abc").rates() == (1, 2)
    assert load_changed(tmp_path, one_to_two, MINDIE_MS_P_RATE="99999").rates() == (1, 2)
    assert load_changed(tmp_path, one_to_two, MINDIE_MS_P_RATE="3abc").rates() == (1, 2)

    half_set = load_changed(tmp_path, base(), MINDIE_MS_P_RATE="3")
    with pytest.raises(ConfigError, match="Set both to zero"):
        half_set.rates()


def test_vectors_27_to_30_multi_node_settings_are_checked(tmp_path: Path) -> None:
    def multi_node(**side: object) -> dict[str, Any]:
        config = base()
        config["multi_node_infer_config"]["multi_node_infer_enable"] = True
        config["multi_node_infer_config"]["p_node_config"] |= side
        return config

    loaded = load_changed(tmp_path, multi_node()).config
    assert loaded.is_multi_node
    assert loaded.multi_node_infer_config is not None
    side = loaded.multi_node_infer_config.d_node_config
    assert (side.node_machine_num, side.tp_size, side.dp_size, side.cp_size) == (2, 4, 4, 1)
    [problem] = problems(tmp_path, multi_node(node_machine_num=True))
    assert "multi_node_infer_config.p_node_config.node_machine_num is true, allowed integer 1-768" in problem
    [problem] = problems(tmp_path, multi_node(cp_size=2))
    assert "dp_size 4 and cp_size 2" in problem


def test_vector_32_a_link_that_is_on_needs_all_its_files(tmp_path: Path) -> None:
    config = base()
    config["tls_config"]["request_server_tls_enable"] = True
    config["tls_config"]["request_server_tls_items"] = {key: value for key, value in ITEMS.items() if key != "tls_crl"}

    [problem] = problems(tmp_path, config)

    assert "tls_config.request_server_tls_items.tls_crl is missing" in problem


@pytest.mark.parametrize("link", [link for link in TlsLink if link is not TlsLink.CCAE])
def test_an_absent_switch_or_block_of_a_mandatory_link_is_refused(tmp_path: Path, link: TlsLink) -> None:
    without_switch = base()
    del without_switch["tls_config"][f"{link}_tls_enable"]
    without_files = base()
    without_files["tls_config"][f"{link}_tls_enable"] = True
    del without_files["tls_config"][f"{link}_tls_items"]
    malformed = base()
    malformed["tls_config"][f"{link}_tls_enable"] = "yes"

    assert f"{link}_tls_enable is missing" in problems(tmp_path, without_switch)[0]
    assert f"{link}_tls_items is missing" in problems(tmp_path, without_files)[0]
    assert f'{link}_tls_enable is "yes", allowed true or false' in problems(tmp_path, malformed)[0]


def test_vector_33_missing_identity_files_are_refused(tmp_path: Path) -> None:
    config = base()
    config["tls_config"]["http_server_tls_enable"] = True
    config["tls_config"]["http_server_tls_items"] = ITEMS | {"tls_cert": str(tmp_path / "absent.pem")}

    found = problems(tmp_path, config)

    assert any("http_server_tls_items.tls_cert" in problem and "cannot be read" in problem for problem in found)


def test_vector_34_no_path_is_needed_for_a_file_that_is_not_written(tmp_path: Path) -> None:
    assert load_changed(tmp_path, base() | {"process_manager": {"to_file": False}}).config.process_manager.file_path is None


def test_vector_35_a_recovery_switch_that_is_no_boolean_is_off(tmp_path: Path) -> None:
    loaded = load_changed(tmp_path, base() | {"fault_recovery_func_dict": {"lingqu_link": "yes", "oom": True}}).config

    assert loaded.fault_recovery_func_dict == {"lingqu_link": False, "oom": True}


def test_vector_37_ccae_settings_that_do_not_hold_together_switch_it_off(tmp_path: Path) -> None:
    assert load_changed(tmp_path, base() | {"ccae": {"ip": "", "port": 0}}).config.ccae is None

    with_ccae = base() | {"ccae": {"ip": "10.0.0.1", "port": 8443}}
    with_ccae["tls_config"]["ccae_tls_enable"] = False
    assert load_changed(tmp_path, with_ccae).config.ccae is not None


def test_all_problems_come_in_one_report(tmp_path: Path) -> None:
    config = base() | {"default_p_rate": 1, "deploy_mode": "x", "http_server": {"ip": "0.0.0.0", "port": 80}}
    del config["transfer_type"]

    found = problems(tmp_path, config)

    assert len(found) == 5
    assert found[0] == (
        'ms_controller.json: deploy_mode is "x", allowed "pd_separate" or "pd_disaggregation" or '
        '"pd_disaggregation_single_container" or "single_node". Set an allowed value.'
    )
    assert "ms_controller.json: http_server.port is 80, allowed integer 1024-65535. Set an allowed value." in found


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is not JSON"),
        ("{}", "is not an object with keys"),
        ("[1]", "is not an object"),
        ('{"a":' * 11 + "1" + "}" * 11, "nested deeper"),
    ],
)
def test_a_file_that_is_no_object_is_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "ms_controller.json"
    path.write_text(text)
    path.chmod(0o640)

    with pytest.raises(ConfigError, match=said):
        load({}, str(path))


def test_a_symbolic_link_is_refused_except_inside_a_kubernetes_volume(tmp_path: Path) -> None:
    (tmp_path / "..2026").mkdir()
    write(tmp_path / "..2026", base())
    (tmp_path / "..data").symlink_to("..2026")
    (tmp_path / "ms_controller.json").symlink_to("..data/ms_controller.json")
    (tmp_path / "other.json").symlink_to("..2026/ms_controller.json")

    load({}, str(tmp_path / "ms_controller.json"))

    with pytest.raises(ConfigError, match="is a symbolic link"):
        load({}, str(tmp_path / "other.json"))


def _read(value: Any, path: str) -> Any:
    for key in path.split("."):
        value = value[key]
    return value


@pytest.mark.parametrize(
    "host", ["clusterd.mindx-dl.svc.cluster.local", "clusterd-grpc-svc.mindx-dl.svc.", "clusterd", "10.0.0.7", "fd00::7"]
)
def test_clusterd_is_reached_by_name_or_address(tmp_path: Path, host: str) -> None:
    settings = load_changed(tmp_path, base(), MINDX_TASK_ID="job-1", MINDX_SERVER_IP=host)

    assert settings.clusterd_address == ("job-1", host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "clusterd:8899", "https://clusterd", "10.0.0", "10.0.0.300", "a b", "-a", "x" * 254])
def test_a_clusterd_that_nobody_can_reach_is_an_error(tmp_path: Path, host: str) -> None:
    [problem] = problems(tmp_path, base(), MINDX_TASK_ID="job-1", MINDX_SERVER_IP=host)

    assert problem.startswith("environment: MINDX_SERVER_IP is ")
    assert problem.endswith("Set the peer's DNS name or address.")


def test_without_a_job_or_a_host_clusterd_is_not_used(tmp_path: Path) -> None:
    assert load_changed(tmp_path, base(), MINDX_TASK_ID="job-1").clusterd_address is None
    assert load_changed(tmp_path, base(), MINDX_SERVER_IP="clusterd").clusterd_address is None


def test_keys_that_change_nothing_are_named(tmp_path: Path) -> None:
    config = base()
    config.pop("ccae", None)
    config["log_info"] = {"log_level": "INFO", "to_file": True, "run_log_path": "./run.log"}
    config["fault_recovery_func_dict"] = {"lingqu_link": True, "oom": False}

    named = settings_without_effect(load_changed(tmp_path, config).config)

    assert named == ("fault_recovery_func_dict.lingqu_link", "log_info.run_log_path", "log_info.to_file")
