# SPDX-License-Identifier: Apache-2.0
"""What `kubectl` would print comes from a program of that name, so that arguments and output are real ones."""

from __future__ import annotations

import base64
import json
import shlex
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from controller_runtime.cli.client_access import (
    CLIENT_FILES,
    Entry,
    curl_command,
    find_entry,
    how_to_ask,
    read_client_files,
    write_client_files,
)
from controller_runtime.cli.cluster_view import ClusterView, NodeView, PodView
from controller_runtime.errors import ConfigError

ENDPOINT = "https://entry.mindie.svc.cluster.local:1025"
ENTRY = Entry(server_name="entry.mindie.svc.cluster.local", port=1025, address="10.0.0.7", node_port=31015)
NODE_PORT = {"spec": {"ports": [{"port": 1025, "nodePort": 31015}]}}
Kubectl = Callable[[dict[str, Any]], Path]


@pytest.fixture
def kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kubectl:
    """Make `kubectl` print an object. The path it returns holds the arguments of the last call."""

    def prints(answer: dict[str, Any]) -> Path:
        program, arguments = tmp_path / "bin" / "kubectl", tmp_path / "arguments"
        program.parent.mkdir()
        program.write_text(f"#!/bin/sh\nprintf '%s ' \"$@\" > {arguments}\ncat <<'END'\n{json.dumps(answer)}\nEND\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", str(program.parent), prepend=":")
        return arguments

    return prints


def node(number: int, *, ready: bool = True, address: str | None = None) -> NodeView:
    return NodeView(name=f"node{number}", address=f"10.0.0.{number}" if address is None else address, ready=ready, npus=0)


def coordinator(on: str, *, ready: bool = True) -> PodView:
    return PodView(namespace="mindie", name="c", app="mindie-ms-coordinator", node=on, ready=ready, finished=False, restarts=0, role=None)


def test_a_request_goes_to_the_node_that_runs_the_coordinator(kubectl: Kubectl) -> None:
    arguments = kubectl(NODE_PORT)

    entry = find_entry(ENDPOINT, "mindie", ClusterView(nodes=(node(1), node(2)), pods=(coordinator("node2"),)))

    assert entry == Entry(server_name="entry.mindie.svc.cluster.local", port=1025, address="10.0.0.2", node_port=31015)
    assert entry.url == "https://10.0.0.2:31015"
    assert arguments.read_text() == "get service mindie-ms-coordinator-infer -n mindie -o json "


def test_without_a_ready_coordinator_any_ready_node_with_an_address_will_do(kubectl: Kubectl) -> None:
    kubectl(NODE_PORT)
    nodes = (node(1, ready=False), node(2, address=""), node(3))

    entry = find_entry(ENDPOINT, "mindie", ClusterView(nodes=nodes, pods=(coordinator("node1", ready=False),)))

    assert entry.address == "10.0.0.3"


def test_a_service_without_node_port_is_reachable_inside_only_and_says_so(kubectl: Kubectl) -> None:
    kubectl({"spec": {"ports": [{"port": 1025}]}})

    with pytest.raises(ConfigError, match=r"no node port, so it is reachable inside the cluster only. Set coordinator.node_port"):
        find_entry(ENDPOINT, "mindie", ClusterView(nodes=(node(1),), pods=()))


def test_a_cluster_without_ready_nodes_has_no_entry(kubectl: Kubectl) -> None:
    kubectl(NODE_PORT)

    with pytest.raises(ConfigError, match="no node is Ready"):
        find_entry(ENDPOINT, "mindie", ClusterView(nodes=(node(1, ready=False),), pods=()))


def test_files_of_a_client_are_written_for_their_owner_alone(kubectl: Kubectl, tmp_path: Path) -> None:
    arguments = kubectl({"data": {name: base64.b64encode(name.encode()).decode() for name in (*CLIENT_FILES, "other")}})
    directory = tmp_path / "deep" / "client"

    write_client_files(directory, read_client_files("mindie", "smoke-tls"))

    assert arguments.read_text() == "get secret smoke-tls -n mindie -o json "
    assert {path.name: path.read_text() for path in directory.iterdir()} == {name: name for name in CLIENT_FILES}
    assert {stat.S_IMODE(path.stat().st_mode) for path in directory.iterdir()} == {0o600}
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700


def test_a_folder_that_others_could_read_is_closed(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)

    write_client_files(tmp_path, {})

    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o700


def test_a_secret_that_is_no_client_identity_is_refused_and_its_content_not_shown(kubectl: Kubectl) -> None:
    kubectl({"data": {"ca.crt": "", "tls.key": "aHVudGVyMg=="}})

    with pytest.raises(ConfigError) as refused:
        read_client_files("mindie", "other")

    assert "secret mindie/other: lacks tls.crt, crl.pem" in str(refused.value)
    assert "aHVudGVyMg" not in str(refused.value)


def test_curl_dials_the_node_checks_the_name_and_the_revocation_list() -> None:
    command = list(curl_command(ENTRY, Path("client")))

    def value(option: str) -> str:
        return command[command.index(option) + 1]

    assert value("--connect-to") == "entry.mindie.svc.cluster.local:1025:10.0.0.7:31015"
    assert command[-1] == "https://entry.mindie.svc.cluster.local:1025/v1/chat/completions"
    assert (value("--crlfile"), value("--key")) == ("client/crl.pem", "client/tls.key")
    assert json.loads(value("-d"))["messages"][0]["role"] == "user"
    assert "-k" not in command


def test_the_printed_lines_survive_a_shell() -> None:
    fetch, send = how_to_ask(ENTRY, ["ascend-pd", "client-files"], Path("a folder")).splitlines()

    assert shlex.split(fetch) == ["ascend-pd", "client-files", "a folder"]
    assert shlex.split(send) == list(curl_command(ENTRY, Path("a folder")))
