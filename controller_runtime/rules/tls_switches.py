# SPDX-License-Identifier: Apache-2.0
"""S11: every link is encrypted and both ends are authenticated.

Switches are recognised by their words, so a spelling of a future version counts too. The files of the manual must
have their switches: an absent one is fatal at start, and better found before. etcd is judged by its flags.
Two listeners are plain http on purpose, `PLAIN_HTTP`; both serve nothing but health and metrics.
Seed: controller manual, `*_tls_enable`, etcd section; deployment manual, certificates.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from controller_runtime.rules.certainty import certain_first
from controller_runtime.rules.config_files import ConfigFile, config_files
from controller_runtime.rules.model import Finding, Severity, rule
from controller_runtime.rules.objects import KubeObject, get, is_sequence, mapping, words
from controller_runtime.rules.pods import Container, containers
from controller_runtime.rules.settings import Setting, arguments, environment, file_settings, settings

ETCD_METRICS_PORT: Final = 8080
OPERATOR_HEALTH_PORT: Final = 11254
PLAIN_HTTP: Final = MappingProxyType(
    {
        ETCD_METRICS_PORT: "etcd metrics and health: kubelet probes cannot present a client certificate",
        OPERATOR_HEALTH_PORT: "operator health: the same",
    }
)
"""Listeners that may speak plain http, by port, with the reason. No other port may."""

REQUIRED_SWITCHES: Final = MappingProxyType(
    {
        "ms_controller.json": (
            "request_coordinator",
            "request_server",
            "http_server",
            "cluster",
            "etcd_server",
            "alarm",
            "external_coordinator",
        ),
        "ms_coordinator.json": ("controller_server", "request_server", "mindie_client", "mindie_mangment"),
        "node_manager.json": ("server", "client"),
    }
)
"""Prefixes of `<prefix>_tls_enable` under `tls_config`. `mindie_mangment` is the manual's spelling."""

ETCD_URLS: Final = frozenset(
    {
        "listen-client-urls",
        "listen-peer-urls",
        "listen-metrics-urls",
        "advertise-client-urls",
        "initial-advertise-peer-urls",
        "initial-cluster",
    }
)
ETCD_CLIENT_AUTH: Final = ("client-cert-auth", "peer-client-cert-auth")

_TLS_WORDS: Final = frozenset({"tls", "mtls", "https", "ssl"})
_ENABLE_WORDS: Final = frozenset({"enable", "enabled", "use"})
_DISABLE_WORDS: Final = frozenset({"disable", "disabled"})
_OFF: Final = frozenset({"false", "0", "no", "off", "disable", "disabled", "f", "n"})
_PLAIN_URL: Final = re.compile(r"http://[^\s,]*")
_PORT: Final = re.compile(r":(\d+)/?$")


@rule(
    "S11",
    title="Every TLS switch is on",
    reason="An unencrypted link shows prompts, answers and control messages to the network, and lets anybody send them.",
    control=("NSA TLS", "CIS 2.1", "CIS 2.2", "CIS 2.4", "CIS 2.5"),
    remedy="Turn TLS on; certificates of our own authority are generated, a site brings its own as Secrets",
    severity=Severity.CRITICAL,
    each=lambda obj: (obj,),
)
def tls_everywhere(obj: KubeObject) -> Iterator[Finding]:
    """Switches that are off, required switches that are absent, etcd URLs and flags."""
    yield from certain_first(
        [
            certain_first(_switched_off(setting) for setting in settings(obj)),
            certain_first(_absent_switches(file) for file in config_files(obj)),
            certain_first(_etcd_container(container) for container in containers(obj)),
            certain_first(_etcd_file(file) for file in config_files(obj)),
        ]
    )


def _switched_off(setting: Setting) -> Iterator[Finding]:
    found = frozenset(words(setting.name))
    if not found & _TLS_WORDS:
        return
    if found & _ENABLE_WORDS and _is_off(setting.value):
        yield Finding(setting.place, f"{setting.name} is off, so this link is plain text that anybody may send")
    elif (found & _DISABLE_WORDS or {"insecure", "skip"} <= found) and not _is_off(setting.value) and setting.value not in (None, ""):
        yield Finding(setting.place, f"{setting.name} is on, so this link is not protected")


def _absent_switches(file: ConfigFile) -> Iterator[Finding]:
    if file.name == "http_client_ctl.json" and isinstance(file.tree, Mapping) and "tls_enable" not in file.tree:
        yield Finding(file.place, "has no tls_enable")
    switches = mapping(file.tree, "tls_config")
    required = REQUIRED_SWITCHES.get(file.name, ())
    missing = [f"{prefix}_tls_enable" for prefix in required if f"{prefix}_tls_enable" not in switches]
    if missing:
        yield Finding(f"{file.place}.tls_config", f"has no {', '.join(missing)}")


def _etcd_container(container: Container) -> Iterator[Finding]:
    found = {_etcd_name(setting.name): setting for setting in arguments(container) if setting.name}
    found |= {_etcd_name(setting.name): setting for setting in environment(container)}
    yield from _etcd(found, f"{container.place}.args", is_server=_runs_etcd(container))


def _etcd_file(file: ConfigFile) -> Iterator[Finding]:
    if isinstance(file.tree, Mapping) and ETCD_URLS & file.tree.keys():
        yield from _etcd({setting.name: setting for setting in file_settings(file)}, file.place, is_server=False)


def _etcd(found: Mapping[str, Setting], place: str, *, is_server: bool) -> Iterator[Finding]:
    for name in sorted(ETCD_URLS & found.keys()):
        setting = found[name]
        for url in _PLAIN_URL.findall(str(setting.value)):
            if not (name == "listen-metrics-urls" and _is_metrics_port(url)):
                yield Finding(setting.place, f"{name} has {url}, plain text")
    if is_server or "listen-client-urls" in found:
        for name in ETCD_CLIENT_AUTH:
            if name not in found:
                yield Finding(place, f"does not set {name}, so etcd serves callers without a certificate")
            elif _is_off(found[name].value):
                yield Finding(found[name].place, f"{name} is off, so etcd serves callers without a certificate")


def _runs_etcd(container: Container) -> bool:
    command = get(container.body, "command") or get(container.body, "args")
    return is_sequence(command) and len(command) > 0 and str(command[0]).rsplit("/", 1)[-1] == "etcd"


def _etcd_name(name: str) -> str:
    return "-".join(words(name)[1:]) if name.startswith("ETCD_") else name


def _is_metrics_port(url: str) -> bool:
    port = _PORT.search(url)
    return port is not None and int(port[1]) == ETCD_METRICS_PORT


def _is_off(value: object) -> bool:
    return value is False or (isinstance(value, (int, str)) and str(value).strip().lower() in _OFF)
