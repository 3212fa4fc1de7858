# SPDX-License-Identifier: Apache-2.0
"""Finding and reading the configuration."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from controller_runtime.errors import ConfigError
from controller_runtime.kube.config import KubeConfig, load_config, ssl_context
from controller_runtime.kube.credentials import Credential, ExecCredential


def kubeconfig(path: Path, server: str = "https://api.example:6443", user: Mapping[str, object] | None = None, **cluster: object) -> Path:
    document = {
        "current-context": "main",
        "contexts": [{"name": "main", "context": {"cluster": "c", "user": "u", "namespace": "mindie"}}],
        "clusters": [{"name": "c", "cluster": {"server": server, **cluster}}],
        "users": [{"name": "u", "user": {"token": "t"} if user is None else dict(user)}],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(document))
    return path


class Machine:
    """A home, an environment and a service account folder."""

    def __init__(self, root: Path) -> None:
        self.home = root / "home"
        self.environ: dict[str, str] = {}
        self.service_account = root / "serviceaccount"

    def in_pod(self, host: str = "10.96.0.1") -> None:
        self.environ |= {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": "443"}
        self.service_account.mkdir()
        for name, text in (("token", "pod-token\n"), ("namespace", "mindx-dl"), ("ca.crt", "CA")):
            (self.service_account / name).write_text(text)

    def load(self, flag: str | None = None) -> KubeConfig:
        return load_config(flag, environ=self.environ, service_account=self.service_account, home=self.home)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_flag_wins_over_environment_pod_and_home_in_that_order(machine: Machine, tmp_path: Path) -> None:
    kubeconfig(machine.home / ".kube" / "config", "https://home")
    assert machine.load().server == "https://home"
    machine.in_pod()
    assert machine.load().server == "https://10.96.0.1:443"
    machine.environ["KUBECONFIG"] = str(kubeconfig(tmp_path / "env", "https://env"))
    assert machine.load().server == "https://env"
    assert machine.load(str(kubeconfig(tmp_path / "flag", "https://flag"))).server == "https://flag"


def test_nothing_found_names_the_places(machine: Machine) -> None:
    with pytest.raises(ConfigError, match=r"KUBECONFIG.*\.kube/config"):
        machine.load()


def test_a_missing_flag_file_is_not_replaced_by_another_source(machine: Machine, tmp_path: Path) -> None:
    kubeconfig(machine.home / ".kube" / "config")
    with pytest.raises(ConfigError, match="absent"):
        machine.load(str(tmp_path / "absent"))


async def test_a_pod_uses_its_service_account(machine: Machine) -> None:
    machine.in_pod(host="fd00::1")
    config = machine.load()

    assert (config.server, config.ca_pem, config.namespace) == ("https://[fd00::1]:443", "CA", "mindx-dl")
    assert (await config.credentials.current()).token == "pod-token"


def test_of_several_files_the_first_that_defines_a_name_wins(machine: Machine, tmp_path: Path) -> None:
    first, second = kubeconfig(tmp_path / "first", "https://first"), kubeconfig(tmp_path / "second", "https://second")
    only_users = tmp_path / "users"
    only_users.write_text(yaml.safe_dump({"users": [{"name": "u", "user": {"token": "other"}}]}))
    machine.environ["KUBECONFIG"] = f"{tmp_path / 'absent'}:{only_users}:{first}:{second}"

    assert machine.load().server == "https://first"


async def test_relative_files_are_looked_for_beside_the_kubeconfig(machine: Machine, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    file = kubeconfig(
        folder / "config", user={"client-certificate": "me.crt", "client-key": "me.key"}, **{"certificate-authority": "ca.crt"}
    )
    for name in ("ca.crt", "me.crt", "me.key"):
        (folder / name).write_text(name)
    config = machine.load(str(file))

    assert config.ca_pem == "ca.crt"
    assert await config.credentials.current() == Credential(None, "me.crt", "me.key")


async def test_data_wins_over_a_file(machine: Machine, tmp_path: Path) -> None:
    encoded = base64.b64encode(b"from data").decode()
    user = {"client-certificate": "absent", "client-certificate-data": encoded, "client-key-data": encoded, "token": "t"}
    file = kubeconfig(tmp_path / "config", user=user, **{"certificate-authority": "absent", "certificate-authority-data": encoded})
    config = machine.load(str(file))

    assert config.ca_pem == "from data"
    assert await config.credentials.current() == Credential("t", "from data", "from data")


def test_an_exec_plugin_is_taken_over_other_credentials(machine: Machine, tmp_path: Path) -> None:
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": "get-token"}
    config = machine.load(str(kubeconfig(tmp_path / "config", user={"token": "t", "exec": plugin})))

    assert isinstance(config.credentials, ExecCredential)


@pytest.mark.parametrize(
    "changes, problem",
    [
        ({"server": "http://api.example"}, "https://"),
        ({"insecure-skip-tls-verify": True}, "insecure-skip-tls-verify"),
        ({"proxy-url": "http://proxy"}, "proxy-url"),
        ({"certificate-authority-data": "%%%"}, "certificate-authority-data is not base64"),
        ({"certificate-authority": "absent.crt"}, "absent.crt"),
        ({"user": {"username": "me", "password": "secret"}}, "username is not supported"),
        ({"user": {"auth-provider": {"name": "gcp"}}}, "auth-provider is not supported"),
        ({"user": {"exec": {"apiVersion": "client.authentication.k8s.io/v1beta1", "command": "x"}}}, r"exec.apiVersion is .*v1beta1"),
    ],
)
def test_what_we_refuse_is_named_with_its_file(machine: Machine, tmp_path: Path, changes: dict[str, object], problem: str) -> None:
    file = kubeconfig(tmp_path / "config", **changes)  # type: ignore[arg-type]  # parameters of several types
    with pytest.raises(ConfigError, match=problem) as caught:
        machine.load(str(file))
    assert str(tmp_path) in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "text, problem",
    [
        ("{", "not valid YAML"),
        ("- a list", "not a kubeconfig"),
        ("current-context: nowhere", "contexts has no entry 'nowhere'"),
    ],
)
def test_a_broken_file_is_a_configuration_error(machine: Machine, tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "config").write_text(text)
    with pytest.raises(ConfigError, match=problem):
        machine.load(str(tmp_path / "config"))


def test_unusable_pem_is_a_configuration_error_without_its_text() -> None:
    with pytest.raises(ConfigError) as caught:
        ssl_context(None, Credential(None, "not a certificate", "very secret key"))
    assert "very secret" not in str(caught.value)
