# SPDX-License-Identifier: Apache-2.0
"""How somebody outside the cluster sends a request: where to, with which files.

Invariants: key and certificates are read through `kubectl`, written for their owner alone (folder 0700, files
0600), and never printed; the certificate of the Coordinator is checked for the name inside the cluster,
whatever address is dialled. Seed: deployment manual, requests through the Coordinator's Service.
"""

from __future__ import annotations

import base64
import shlex
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from controller_runtime.api.base import Model
from controller_runtime.api.coordinator_api import CHAT_PATH
from controller_runtime.api.edges import COORDINATOR_APP
from controller_runtime.api.stack import COORDINATOR_SERVICE
from controller_runtime.cli.cluster_view import ClusterView
from controller_runtime.cli.processes import run_json
from controller_runtime.errors import ConfigError
from controller_runtime.foundation.atomic_file import write_atomic

CLIENT_FILES = ("ca.crt", "tls.crt", "tls.key", "crl.pem")
EXAMPLE_BODY = '{"messages": [{"role": "user", "content": "Say hello."}], "max_tokens": 16}'


class Entry(Model):
    """Where requests go. `server_name` and `port`: what the certificate names; `address` and `node_port`: what is dialled."""

    server_name: str
    port: int
    address: str
    node_port: int

    @property
    def url(self) -> str:
        """URL to dial when the name is checked apart from it."""
        return f"https://{self.address}:{self.node_port}"


def find_entry(endpoint: str, namespace: str, view: ClusterView) -> Entry:
    """Find a node that forwards to the Coordinator; one that runs it, if any, since that works with every traffic policy.

    Raises:
        ConfigError: the Service has no node port, or no node is Ready.
    """
    service = run_json(["kubectl", "get", "service", COORDINATOR_SERVICE, "-n", namespace, "-o", "json"])
    node_ports = [port["nodePort"] for port in service["spec"]["ports"] if "nodePort" in port]
    if not node_ports:
        raise ConfigError(
            f"service {namespace}/{COORDINATOR_SERVICE}: no node port, so it is reachable inside the cluster only. "
            "Set coordinator.node_port, or give --endpoint of your own entry."
        )
    hosts = {pod.node for pod in view.pods if pod.app == COORDINATOR_APP and pod.ready}
    ready = sorted((node for node in view.nodes if node.ready and node.address), key=lambda node: (node.name not in hosts, node.name))
    if not ready:
        raise ConfigError("no node is Ready. Run `ascend-pd status`, or give --endpoint.")
    dialled = urlsplit(endpoint)
    return Entry(server_name=dialled.hostname or "", port=dialled.port or 443, address=ready[0].address, node_port=node_ports[0])


def read_client_files(namespace: str, secret: str) -> dict[str, bytes]:
    """Read certificate, key, authority and revocation list of a client from a Secret.

    Raises:
        ConfigError: the Secret lacks one of them.
    """
    data = run_json(["kubectl", "get", "secret", secret, "-n", namespace, "-o", "json"]).get("data") or {}
    if missing := [name for name in CLIENT_FILES if name not in data]:
        raise ConfigError(f"secret {namespace}/{secret}: lacks {', '.join(missing)}. Name a Secret of a client identity with --secret.")
    return {name: base64.b64decode(data[name]) for name in CLIENT_FILES}


def write_client_files(directory: Path, files: dict[str, bytes]) -> None:
    """Write them where only we can read; makes the folder."""
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    directory.chmod(0o700)
    for name, content in files.items():
        write_atomic(directory / name, content, 0o600)


def curl_command(entry: Entry, directory: Path) -> Sequence[str]:
    """The request of `ascend-pd smoke` as curl sends it, with files from `directory`."""
    origin = f"{entry.server_name}:{entry.port}"
    return (
        *("curl", "-sS", "--tlsv1.3"),
        *("--cacert", str(directory / "ca.crt"), "--crlfile", str(directory / "crl.pem")),
        *("--cert", str(directory / "tls.crt"), "--key", str(directory / "tls.key")),
        *("--connect-to", f"{origin}:{entry.address}:{entry.node_port}"),
        *("-H", "Content-Type: application/json", "-d", EXAMPLE_BODY),
        f"https://{origin}{CHAT_PATH}",
    )


def how_to_ask(entry: Entry, command: Sequence[str], directory: Path) -> str:
    """Two lines to paste into a shell: fetch the files with `command`, send a request."""
    return f"{shlex.join([*command, str(directory)])}\n{shlex.join(curl_command(entry, directory))}"
