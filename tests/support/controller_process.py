# SPDX-License-Identifier: Apache-2.0
"""An `ms-controller` process beside simulated Servers and Coordinators.

    async with SimulatorPark(tmp_path) as park:
        controller = ControllerProcess(park, sync_s=1)
        controller.write_rank_table(coordinators=[coordinator], prefills=[p], decodes=[d])
        await controller.start()

The rank table sits in a directory that is swapped the way a Kubernetes volume is.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from controller_runtime.api.ms_config import TlsLink
from controller_runtime.api.ms_config_sample import manual_sample
from controller_runtime.api.rank_table import HARDWARE_DECODE, HARDWARE_PREFILL
from controller_runtime.errors import TransportError
from controller_runtime.foundation.http_client import HttpResponse
from tests.support.eventually import eventually
from tests.support.simulators import Member, SimulatorPark

ROOT = Path(__file__).parents[2]


class ControllerProcess:
    """One controller. `ip` is its own loopback address; `etcd_tls` holds its identity towards etcd."""

    def __init__(self, park: SimulatorPark, *, ip: str = "127.0.0.1", etcd_tls: Path | None = None, **overrides: Any) -> None:
        self.park = park
        self.ip = ip
        self._etcd_tls = etcd_tls
        self.directory = park.directory / f"controller-{ip}"
        self.directory.mkdir()
        self.table_volume = park.directory / "rank-table"
        self.table_volume.mkdir(exist_ok=True)
        self.process_status_path = self.directory / "status" / "process.json"
        self.cluster_status_path = self.directory / "status" / "cluster.json"
        self.http_port, self.status_port = _free_ports(ip, 2)
        self.log = self.directory / "log"
        self.process: asyncio.subprocess.Process | None = None
        self.environment: dict[str, str] = {}
        self.write_config(overrides)

    def write_config(self, overrides: Mapping[str, Any]) -> None:
        """Write ms_controller.json: the manual's sample on this park's ports and identities."""
        ports = self.park.ports
        config: dict[str, Any] = manual_sample() | {
            "process_manager": {"to_file": True, "file_path": str(self.process_status_path)},
            "cluster_status": {"to_file": True, "file_path": str(self.cluster_status_path)},
            "global_rank_table_file_path": str(self.table_volume / "global_ranktable.json"),
            "rank_table_detecting_seconds": 1,
            "server_online_wait_seconds": 1,
            "check_role_wait_seconds": 1,
            "mindie_server_control_port": ports["management"],
            "mindie_server_port": ports["data"],
            "mindie_server_metric_port": ports["metrics"],
            "mindie_ms_coordinator_port": ports["coordinator"],
            "is_heterogeneous": True,
            "http_server": {"ip": self.ip, "port": self.http_port},
            "tls_config": self._tls_config(),
        }
        path = self.directory / "ms_controller.json"
        path.write_text(json.dumps({**config, **overrides}))
        path.chmod(0o640)

    def write_rank_table(
        self,
        *,
        coordinators: Iterable[Member] = (),
        prefills: Iterable[Member] = (),
        decodes: Iterable[Member] = (),
        status: str = "completed",
    ) -> None:
        """Publish a table by swapping `..data`, as the kubelet does for a ConfigMap volume."""
        servers = [_row(member, HARDWARE_PREFILL) for member in prefills] + [_row(member, HARDWARE_DECODE) for member in decodes]
        self.write_groups([_group("2", servers)], coordinators=coordinators, status=status)

    def write_instances(self, *, coordinators: Iterable[Member], prefills: Iterable[Member], decodes: Iterable[Member]) -> None:
        """Publish a multi-node table: one group per instance, its role in `deploy_server`."""
        labelled = [(member, "2") for member in prefills] + [(member, "1") for member in decodes]
        groups = [
            {**_group(str(number), [_row(member, HARDWARE_DECODE)]), "deploy_server": label}
            for number, (member, label) in enumerate(labelled, 2)
        ]
        self.write_groups(groups, coordinators=coordinators)

    def write_groups(self, groups: list[dict[str, Any]], *, coordinators: Iterable[Member], status: str = "completed") -> None:
        """Publish a table with these Server groups."""
        table = {
            "version": "1.0",
            "status": status,
            "server_group_list": [
                *groups,
                _group("1", [{"server_id": self.ip, "server_ip": self.ip}]),
                _group("0", [{"server_id": member.ip, "server_ip": member.ip} for member in coordinators]),
            ],
        }
        number = sum(1 for _ in self.table_volume.glob("..2*")) + 1
        version = self.table_volume / f"..2026_{number}"
        version.mkdir()
        (version / "global_ranktable.json").write_text(json.dumps(table))
        (version / "global_ranktable.json").chmod(0o640)
        (self.table_volume / "..data_tmp").symlink_to(version.name)
        (self.table_volume / "..data_tmp").replace(self.table_volume / "..data")
        visible = self.table_volume / "global_ranktable.json"
        if not visible.is_symlink():
            visible.symlink_to("..data/global_ranktable.json")

    async def start(self, *arguments: str) -> None:
        """Start the process and wait until it answers `/v1/startup`."""
        await self.spawn(*arguments)

        async def answers() -> bool:
            assert self.process is not None
            assert self.process.returncode is None, f"controller ended: {self.log.read_text()[-3000:]}"
            try:
                return (await self.get("/v1/startup")).status == 200
            except TransportError:
                return False

        await eventually(answers, "the controller answers /v1/startup", 60.0)

    async def spawn(self, *arguments: str) -> asyncio.subprocess.Process:
        """Start the process."""
        setpriv = shutil.which("setpriv") or "/usr/bin/setpriv"
        run = "from controller_runtime.cli.ms_controller import main; main()"
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("MINDIE", "POD_", "MODEL_ID"))}
        environment |= {"MINDIE_MS_CONTROLLER_CONFIG_FILE_PATH": str(self.directory / "ms_controller.json")} | self.environment
        with self.log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                setpriv,
                "--pdeathsig",
                "KILL",
                sys.executable,
                "-c",
                run,
                f"--status-port={self.status_port}",
                *arguments,
                stdout=log,
                stderr=log,
                cwd=ROOT,
                env=environment,
            )
        return self.process

    async def stop(self) -> int:
        """End the process as Kubernetes does; return its exit code."""
        assert self.process is not None
        if self.process.returncode is None:
            self.process.terminate()
        return await self.process.wait()

    async def kill(self) -> None:
        """End the process at once."""
        if self.process is not None and self.process.returncode is None:
            self.process.kill()
            await self.process.wait()

    async def get(self, path: str, *, port: int | None = None) -> HttpResponse:
        """Ask a listener of the controller as a probe does."""
        url = f"https://{self.ip}:{port or self.http_port}{path}"
        return await self.park.client("probe").request("GET", url, expect_sans=("ms-controller-http-server.*",))

    async def readiness(self) -> dict[str, Any]:
        """The readiness reply, its HTTP status included as `code`."""
        reply = await self.get("/v1/readiness", port=self.status_port)
        return {**json.loads(reply.body), "code": reply.status}

    async def is_leading(self) -> bool:
        """True when the cluster serves."""
        return (await self.readiness())["state"] == "leader"

    def lines(self, event: str) -> list[dict[str, Any]]:
        """Log lines with this text."""
        return [json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{") and f'"event":"{event}' in line]

    def _tls_config(self) -> dict[str, Any]:
        config: dict[str, Any] = {}
        for link in TlsLink:
            directory = self.park.tls_dir(f"ms-controller-{link.replace('_', '-')}")
            if link is TlsLink.ETCD_SERVER and self._etcd_tls is not None:
                directory = self._etcd_tls
            config[f"{link}_tls_enable"] = True
            config[f"{link}_tls_items"] = {
                "ca_cert": str(directory / "ca.crt"),
                "tls_cert": str(directory / "tls.crt"),
                "tls_key": str(directory / "tls.key"),
                "tls_passwd": str(directory / "password"),
                "tls_crl": str(directory / "crl.pem"),
            }
            for file in directory.iterdir():
                file.chmod(0o440)
        return config


def _group(group_id: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {"group_id": group_id, "server_count": str(len(rows)), "server_list": rows}


def _row(member: Member, hardware: str) -> dict[str, Any]:
    device = {"device_id": "0", "device_ip": "172.16.0.1", "device_logical_id": "0", "rank_id": "0"}
    return {"server_id": member.ip, "server_ip": member.ip, "hardware_type": hardware, "device": [device]}


def _free_ports(ip: str, count: int) -> list[int]:
    sockets = [socket.create_server((ip, 0)) for _ in range(count)]
    ports = [int(each.getsockname()[1]) for each in sockets]
    for each in sockets:
        each.close()
    return ports
