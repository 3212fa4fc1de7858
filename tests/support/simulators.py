# SPDX-License-Identifier: Apache-2.0
"""Simulated Servers, Coordinators and node managers as real processes on loopback addresses, with real certificates.

    async with SimulatorPark(tmp_path) as park:
        prefill, decode, coordinator = await together(park.server(), park.server(), park.coordinator())
        await park.link([prefill], [decode])
        await park.refresh(coordinator)
        answer = await park.ask(coordinator, "hello")

Every process gets its own address 127.0.x.y and they all share one set of free ports, as pods do.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import socket
import sys
from collections.abc import AsyncGenerator, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from controller_runtime.api.roles import Label, Role, RoleState
from controller_runtime.api.server_api import PeerLink, ServerStatus, role_path
from controller_runtime.foundation.http_client import HttpClient, HttpResponse
from controller_runtime.foundation.tls import TlsFiles, TlsIdentity
from tests.support.eventually import eventually
from tests.support.pki import Authority, Leaf, write_identity

NAMESPACE = "mindie"
PORT_NAMES = ("data", "management", "metrics", "kv", "admin", "node_manager", "predict", "coordinator", "external", "status")
START_WITHIN_S = 60.0
ROOT = Path(__file__).parents[2]


@dataclass
class Member:
    """One process: its address, its id in the cluster and what it was started with."""

    name: str
    ip: str
    entry: str
    arguments: list[str]
    process: asyncio.subprocess.Process | None = None
    log: Path = field(default_factory=Path)

    @property
    def id(self) -> int:
        """IPv4 bytes read as a little-endian number, as the Controller derives ids."""
        return int.from_bytes(socket.inet_aton(self.ip), "little")


class SimulatorPark:
    """Starts processes, speaks to them as the Controller, a probe or a user would, and ends them all."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.authority = Authority("pd")
        self.ports = dict(zip(PORT_NAMES, _free_ports(len(PORT_NAMES)), strict=True))
        self.members: list[Member] = []
        self.roles: dict[int, tuple[Role, list[Member]]] = {}
        self._clients: dict[str, HttpClient] = {}
        self._leaves: dict[str, Leaf] = {}
        self._next_address = _addresses()

    async def __aenter__(self) -> SimulatorPark:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        for client in self._clients.values():
            await client.close()
        for member in self.members:
            await self.kill(member)

    def tls_dir(self, identity: str) -> Path:
        """Directory of an identity's files, made on first use."""
        directory = self.directory / "tls" / identity
        if not directory.exists():
            write_identity(directory, self.authority, self.leaf(identity))
        return directory

    def leaf(self, identity: str) -> Leaf:
        """The certificate of an identity, issued on first use."""
        if identity not in self._leaves:
            self._leaves[identity] = self.authority.issue(identity, sans=[f"{identity}.{NAMESPACE}"])
        return self._leaves[identity]

    def client(self, identity: str) -> HttpClient:
        """A client that shows this identity."""
        if identity not in self._clients:
            self._clients[identity] = HttpClient(TlsIdentity(TlsFiles.in_directory(self.tls_dir(identity))), timeout_s=30.0)
        return self._clients[identity]

    async def server(self, *arguments: str, time_scale: float = 0.001) -> Member:
        """Start a Server that has no role yet; quick links, quick roles."""
        number = len(self.members)
        ip = next(self._next_address)
        fixed = [
            f"--pod-ip={ip}",
            f"--pod-name=server-{number}",
            f"--tls-dir={self.tls_dir('mindie-server')}",
            *(f"--{name}-port={self.ports[name]}" for name in ("data", "management", "metrics", "kv", "admin")),
            f"--time-scale={time_scale}",
            "--role-load-s=0.05",
            "--link-period-s=0.1",
            "--link-timeout-s=1.0",
        ]
        return await self._start(Member(f"server-{number}", ip, "simulator.server", [*fixed, *arguments]), "management")

    async def coordinator(self, *arguments: str) -> Member:
        """Start a Coordinator that knows no Servers yet."""
        ip = next(self._next_address)
        fixed = [
            f"--pod-ip={ip}",
            f"--tls-dir={self.tls_dir('ms-coordinator')}",
            f"--predict-port={self.ports['predict']}",
            f"--management-port={self.ports['coordinator']}",
            f"--external-port={self.ports['external']}",
            f"--status-port={self.ports['status']}",
            "--schedule-timeout-s=0.3",
            "--first-token-timeout-s=5",
            "--token-timeout-s=5",
        ]
        return await self._start(Member(f"coordinator-{len(self.members)}", ip, "simulator.coordinator", [*fixed, *arguments]), "predict")

    async def node_manager(self, server: Member, *arguments: str) -> Member:
        """Start the node manager of a Server, on the same address."""
        fixed = [
            f"--pod-ip={server.ip}",
            f"--tls-dir={self.tls_dir('node-manager')}",
            f"--port={self.ports['node_manager']}",
            f"--server-management-port={self.ports['management']}",
            "--heartbeat-s=0.1",
            "--reinit-s=0.1",
        ]
        return await self._start(
            Member(f"node-manager-{server.name}", server.ip, "simulator.node_manager", [*fixed, *arguments]), "node_manager"
        )

    async def kill(self, member: Member) -> None:
        """End a process at once, as a lost node does."""
        if member.process is not None and member.process.returncode is None:
            member.process.kill()
            await member.process.wait()

    async def restart(self, member: Member) -> None:
        """Start a dead process again with the same arguments; it has forgotten everything."""
        await self._spawn(member)
        await self._listening(member, "management")

    async def call(
        self, member: Member, port: str, method: str, path: str, json: object | None = None, *, identity: str, sans: Iterable[str] = ("*",)
    ) -> HttpResponse:
        """Send one request to a named port, showing `identity`."""
        url = f"https://{member.ip}:{self.ports[port]}{path}"
        return await self.client(identity).request(method, url, json=json, expect_sans=tuple(sans))

    async def post_role(self, member: Member, role: Role, peers: Iterable[Member]) -> HttpResponse:
        """Give a Server its role, as the Controller does."""
        peers = list(peers)
        self.roles[member.id] = (role, peers)
        body = {"local": _end(member), "peers": [_end(peer) for peer in peers]}
        return await self.call(member, "management", "POST", role_path(role), body, identity="ms-controller-request-server")

    async def status(self, member: Member) -> ServerStatus:
        """What a Server says about itself."""
        reply = await self.call(member, "management", "GET", "/v1/status", identity="ms-controller-request-server")
        assert reply.status == 200, reply.body
        return ServerStatus.model_validate_json(reply.body)

    async def links(self, member: Member) -> tuple[PeerLink, ...]:
        """The links a Server reports."""
        return (await self.status(member)).link_status.peers

    async def link(self, prefills: list[Member], decodes: list[Member]) -> None:
        """Post roles and wait until every Server is ready and every link is seen from both ends."""
        for member in decodes:
            await self.post_role(member, Role.DECODE, prefills)
        for member in prefills:
            await self.post_role(member, Role.PREFILL, decodes)
        for member, peers in [*((one, decodes) for one in prefills), *((one, prefills) for one in decodes)]:
            await self.linked(member, peers)

    async def linked(self, member: Member, peers: Iterable[Member]) -> None:
        """Wait until a Server is ready and linked with these peers."""
        wanted = frozenset(peer.id for peer in peers)

        async def is_linked() -> bool:
            status = await self.status(member)
            return status.service.role_status is RoleState.READY and status.link_status.active >= wanted

        await eventually(is_linked, f"{member.name} is ready and linked with {wanted}", 20.0)

    async def refresh(self, coordinator: Member, *, without: Iterable[Member] = ()) -> None:
        """Tell a Coordinator about all Servers that have a role, as the Controller does each second."""
        gone = {member.id for member in without}
        instances = []
        for member in self.members:
            role, peers = self.roles.get(member.id, (None, []))
            if role is not None and member.entry == "simulator.server" and member.id not in gone:
                instances.append(self.instance(member, role, [peer for peer in peers if peer.id not in gone]))
        body = {"ids": [one["id"] for one in instances], "instances": instances}
        reply = await self.call(
            coordinator, "coordinator", "POST", "/v1/instances/refresh", body, identity="ms-controller-request-coordinator"
        )
        assert reply.status == 200, reply.body

    def instance(self, member: Member, role: Role, peers: Iterable[Member]) -> dict[str, Any]:
        """One entry of a refresh body."""
        static = {
            "label": Label.of(role),
            "role": role,
            "max_seq_len": 2560,
            "max_output_len": 512,
            "block_size": 128,
            "total_slots_num": 200,
            "total_block_num": 1024,
        }
        dynamic = {"peers": [peer.id for peer in peers], "avail_slots_num": 200, "avail_block_num": 1024}
        ports = {"port": str(self.ports["data"]), "metric_port": str(self.ports["metrics"])}
        return {"id": member.id, "ip": member.ip, "model_name": "m", **ports, "static_info": static, "dynamic_info": dynamic}

    async def ask(self, coordinator: Member, prompt: str, max_tokens: int = 8) -> HttpResponse:
        """Send a completions request as a user."""
        body = {"prompt": prompt, "max_tokens": max_tokens}
        return await self.call(coordinator, "predict", "POST", "/v1/completions", body, identity="smoke")

    def ask_stream(self, coordinator: Member, path: str, body: Mapping[str, object]) -> AsyncGenerator[bytes, None]:
        """Send a streamed request as a user and yield the lines."""
        url = f"https://{coordinator.ip}:{self.ports['predict']}{path}"
        return cast(AsyncGenerator[bytes, None], self.client("smoke").stream("POST", url, json={**body, "stream": True}))

    async def set_faults(self, server: Member, *faults: Mapping[str, object]) -> None:
        """Put faults on a Server; none heals it."""
        reply = await self.call(server, "admin", "PUT", "/admin/faults", {"faults": list(faults)}, identity="mindie-server")
        assert reply.status == 200, reply.body

    async def _start(self, member: Member, port: str) -> Member:
        member.log = self.directory / f"{member.name}.log"
        self.members.append(member)
        await self._spawn(member)
        await self._listening(member, port)
        return member

    async def _spawn(self, member: Member) -> None:
        die_with_parent = [shutil.which("setpriv") or "/usr/bin/setpriv", "--pdeathsig", "KILL"]
        run = f"from {member.entry} import main; main()"
        with member.log.open("ab") as log:
            member.process = await asyncio.create_subprocess_exec(
                *die_with_parent, sys.executable, "-c", run, *member.arguments, stdout=log, stderr=log, cwd=ROOT, env=_clean_environment()
            )

    async def _listening(self, member: Member, port: str) -> None:
        async def is_listening() -> bool:
            assert member.process is not None
            assert member.process.returncode is None, f"{member.name} ended: {member.log.read_text()[-2000:]}"
            try:
                _, writer = await asyncio.open_connection(member.ip, self.ports[port])
            except OSError:
                return False
            writer.close()
            return True

        await eventually(is_listening, f"{member.name} listens", START_WITHIN_S)


async def together(*starts: Coroutine[Any, Any, Member]) -> list[Member]:
    """Start processes at the same time, results in order."""
    return await asyncio.gather(*starts)


def _end(member: Member) -> dict[str, object]:
    device = {"device_id": "0", "device_ip": "172.16.0.1", "device_logical_id": "0"}
    return {"id": member.id, "server_ip": member.ip, "host_ip": member.ip, "device": [device]}


def _clean_environment() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if not key.startswith(("SIM_", "POD_", "TLS_"))}


def _addresses() -> Any:
    """Loopback addresses in a random network, so that parallel tests do not meet."""
    network = f"127.{random.randint(1, 250)}.{random.randint(0, 250)}"
    return (f"{network}.{last}" for last in range(2, 250))


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(each.getsockname()[1]) for each in sockets]
    for each in sockets:
        each.close()
    return ports
