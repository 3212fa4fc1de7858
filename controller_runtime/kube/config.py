# SPDX-License-Identifier: Apache-2.0
"""Where the API server is and how to log in: a kubeconfig, or the service account of a pod.

Precedence: the file of a flag, `KUBECONFIG` (several files: the first that defines a name wins), the pod's service account,
`~/.kube/config`. The server is always verified: there is no way to switch that off.
"""

from __future__ import annotations

import base64
import binascii
import os
import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from controller_runtime.errors import ConfigError
from controller_runtime.kube.credentials import (
    EXEC_API_VERSION,
    Credential,
    CredentialFiles,
    CredentialSource,
    ExecCredential,
    ExecPlugin,
    FileCredential,
    StaticCredential,
)

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_UNSUPPORTED = {"auth-provider": "exec", "username": "token, certificate or exec", "as": "a user of its own"}


@dataclass(frozen=True)
class KubeConfig:
    """One API server and one identity. `server` has no trailing slash; `ca_pem` None means the system's authorities."""

    server: str
    ca_pem: str | None
    credentials: CredentialSource
    namespace: str = "default"
    tls_server_name: str | None = None


def load_config(
    kubeconfig: str | None,
    *,
    environ: Mapping[str, str] = os.environ,
    service_account: Path = SERVICE_ACCOUNT,
    home: Path | None = None,
) -> KubeConfig:
    """Find and read the configuration. `kubeconfig` is the value of a command-line flag.

    Raises:
        ConfigError: nothing was found, or what was found is unreadable, incomplete or asks for something we refuse.
    """
    if kubeconfig:
        return _from_files([Path(kubeconfig)])
    if listed := [Path(part) for part in environ.get("KUBECONFIG", "").split(os.pathsep) if part]:
        return _from_files([path for path in listed if path.exists()] or listed[:1])
    if environ.get("KUBERNETES_SERVICE_HOST") and (service_account / "token").exists():
        return _in_cluster(environ, service_account)
    default = (home or Path.home()) / ".kube" / "config"
    if default.exists():
        return _from_files([default])
    raise ConfigError(f"kubernetes: no --kubeconfig, no KUBECONFIG, not in a pod and no {default}. Give one of them.")


def ssl_context(ca_pem: str | None, credential: Credential) -> ssl.SSLContext:
    """A client context that verifies the server and shows the credential's certificate, if it has one.

    Raises:
        ConfigError: the authority, certificate or key is not valid PEM, or key and certificate differ.
    """
    try:
        context = ssl.create_default_context(cadata=ca_pem)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if credential.certificate_pem and credential.key_pem:
            with tempfile.TemporaryDirectory() as directory:
                both = Path(directory) / "client.pem"
                both.touch(0o600)
                both.write_text(f"{credential.certificate_pem.rstrip()}\n{credential.key_pem}")
                context.load_cert_chain(both)
    except (ssl.SSLError, ValueError) as err:
        raise ConfigError(f"kubernetes credentials: certificate authority, client certificate or key is unusable ({err}).") from err
    return context


def _in_cluster(environ: Mapping[str, str], service_account: Path) -> KubeConfig:
    host, port = environ["KUBERNETES_SERVICE_HOST"], environ.get("KUBERNETES_SERVICE_PORT") or "443"
    namespace = service_account / "namespace"
    return KubeConfig(
        server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        ca_pem=_read(service_account / "ca.crt"),
        credentials=FileCredential(CredentialFiles(token=service_account / "token")),
        namespace=namespace.read_text().strip() if namespace.exists() else "default",
    )


def _from_files(paths: list[Path]) -> KubeConfig:
    context_name, named = "", dict[tuple[str, str], tuple[Mapping[str, Any], Path]]()
    for path in paths:
        document = _yaml(path)
        context_name = context_name or str(document.get("current-context") or "")
        for section, key in (("contexts", "context"), ("clusters", "cluster"), ("users", "user")):
            for entry in document.get(section) or ():
                named.setdefault((section, str(entry.get("name"))), (entry.get(key) or {}, path))
    where = ", ".join(str(path) for path in paths)

    def look_up(section: str, name: str) -> tuple[Mapping[str, Any], Path]:
        try:
            return named[section, name]
        except KeyError:
            raise ConfigError(f"{where}: {section} has no entry {name!r}. Add it or choose another current-context.") from None

    context, _ = look_up("contexts", context_name)
    cluster, cluster_file = look_up("clusters", str(context.get("cluster")))
    user, user_file = look_up("users", str(context.get("user")))
    server = str(cluster.get("server") or "")
    problems = []
    if not server.startswith("https://"):
        problems.append(f"{cluster_file}: server is {server!r}. Use an https:// URL.")
    if cluster.get("insecure-skip-tls-verify"):
        problems.append(f"{cluster_file}: insecure-skip-tls-verify is set. Remove it and give certificate-authority-data.")
    if cluster.get("proxy-url"):
        problems.append(f"{cluster_file}: proxy-url is not supported. Reach the server directly.")
    problems += [f"{user_file}: {key} is not supported. Use {instead}." for key, instead in _UNSUPPORTED.items() if user.get(key)]
    if problems:
        raise ConfigError(problems)
    ca_pem = _pem(cluster, "certificate-authority", cluster_file)
    return KubeConfig(
        server=server.rstrip("/"),
        ca_pem=ca_pem,
        credentials=_credentials(user, user_file, {"server": server, "certificate-authority-data": _b64(ca_pem)}),
        namespace=str(context.get("namespace") or "default"),
        tls_server_name=cluster.get("tls-server-name"),
    )


def _credentials(user: Mapping[str, Any], file: Path, cluster: Mapping[str, object]) -> CredentialSource:
    if plugin := user.get("exec"):
        if plugin.get("apiVersion") != EXEC_API_VERSION:
            raise ConfigError(f"{file}: exec.apiVersion is {plugin.get('apiVersion')!r}. Use {EXEC_API_VERSION}.")
        command = str(plugin.get("command") or "")
        return ExecCredential(
            ExecPlugin(
                command=str(_beside(file, command)) if os.sep in command else command,
                arguments=[str(argument) for argument in plugin.get("args") or ()],
                environment={str(pair["name"]): str(pair["value"]) for pair in plugin.get("env") or ()},
                install_hint=str(plugin.get("installHint") or ""),
                cluster=cluster if plugin.get("provideClusterInfo") else None,
            )
        )
    data = Credential(
        token=user.get("token"),
        certificate_pem=_decoded(user, "client-certificate-data", file),
        key_pem=_decoded(user, "client-key-data", file),
    )
    files = CredentialFiles(
        token=_file(user, "tokenFile", file),
        certificate=None if data.certificate_pem else _file(user, "client-certificate", file),
        key=None if data.key_pem else _file(user, "client-key", file),
    )
    return StaticCredential(data) if files == CredentialFiles() else FileCredential(files, data)


def _pem(section: Mapping[str, Any], key: str, file: Path) -> str | None:
    path = _file(section, key, file)
    return _decoded(section, f"{key}-data", file) or (_read(path) if path else None)


def _decoded(section: Mapping[str, Any], key: str, file: Path) -> str | None:
    if not section.get(key):
        return None
    try:
        return base64.b64decode(str(section[key]), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError) as err:
        raise ConfigError(f"{file}: {key} is not base64 of PEM text. Write it again.") from err


def _b64(text: str | None) -> str | None:
    return base64.b64encode(text.encode()).decode() if text else None


def _file(section: Mapping[str, Any], key: str, file: Path) -> Path | None:
    return _beside(file, str(section[key])) if section.get(key) else None


def _beside(file: Path, path: str) -> Path:
    return file.parent / path


def _yaml(path: Path) -> Mapping[str, Any]:
    try:
        document = yaml.safe_load(_read(path))
    except yaml.YAMLError as err:
        raise ConfigError(f"{path}: not valid YAML. Write the kubeconfig again.") from err
    if not isinstance(document, dict):
        raise ConfigError(f"{path}: not a kubeconfig. Give a file with clusters, users and contexts.")
    return document


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError as err:
        raise ConfigError(f"{path}: cannot be read ({err.strerror}). Correct the path or its permissions.") from err
