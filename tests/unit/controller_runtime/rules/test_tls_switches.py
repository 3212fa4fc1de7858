# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from controller_runtime.api import ports
from controller_runtime.api.ms_config import MANDATORY_LINKS
from controller_runtime.rules.tls_switches import PLAIN_HTTP, REQUIRED_SWITCHES, tls_everywhere


def config(name: str, text: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {name: text}}


def test_the_required_switches_are_the_controllers_mandatory_links() -> None:
    assert sorted(REQUIRED_SWITCHES["ms_controller.json"]) == sorted(str(link) for link in MANDATORY_LINKS)


def test_only_etcd_metrics_and_operator_health_may_be_plain_http() -> None:
    assert set(PLAIN_HTTP) == {ports.ETCD_METRICS, ports.OPERATOR_HEALTH}


@pytest.mark.parametrize(
    "key", ["tls_enable", "x_tls_enable", "tlsEnabled", "interCommTLSEnabled", "httpsEnabled", "enable_tls", "MINDIE_USE_HTTPS", "use-ssl"]
)
@pytest.mark.parametrize("value,found", [("false", 1), ('"false"', 1), ("0", 1), ('"off"', 1), ("true", 0), ('"true"', 0), ("1", 0)])
def test_a_switch_is_known_in_every_spelling(key: str, value: str, found: int) -> None:
    assert len(list(tls_everywhere.check(config("x.json", f'{{"a": [{{"{key}": {value}}}]}}')))) == found


@pytest.mark.parametrize("key", ["tls_enable_date", "https_port", "enabled", "tls_version", "retlser"])
def test_other_settings_are_no_switches(key: str) -> None:
    found = list(tls_everywhere.check(config("x.json", f'{{"{key}": "none"}}')))

    assert found == []


def test_turning_protection_off_by_another_name_is_found() -> None:
    assert (
        len(list(tls_everywhere.check(config("x.json", '{"insecureSkipTLSVerify": true, "disable_tls": "true", "disableHttps": false}'))))
        == 2
    )
