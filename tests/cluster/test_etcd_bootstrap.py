# SPDX-License-Identifier: Apache-2.0
"""Users, roles and prefixes by certificate CN on a real member, set up by the real command."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller_runtime.etcd.access import Grant, ensure_access
from controller_runtime.etcd.client import EtcdClient
from controller_runtime.etcd.errors import EtcdDeniedError
from controller_runtime.etcd.values import created_at, put_op
from tests.support.control_plane import free_ports
from tests.support.etcd_server import EtcdCluster

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).parents[2]
CONTROLLER = "controller-mindie=/mindie/cluster/,/mindie/controller/"
COORDINATOR = "coordinator-mindie=/mindie/coordinator/"


@pytest.fixture
def etcd(tmp_path: Path) -> Iterator[EtcdCluster]:
    with EtcdCluster(tmp_path) as cluster:
        yield cluster


async def run_command(
    etcd: EtcdCluster, *arguments: str, user: str = "root", endpoint: str | None = None
) -> tuple[int, list[dict[str, object]]]:
    """Run `etcd-bootstrap` as a process; returns exit code and log lines."""
    command = [sys.executable, "-c", "from controller_runtime.cli.etcd_bootstrap import main; main()"]
    options = [f"--endpoint={endpoint or etcd.endpoints[0]}", f"--tls-dir={etcd.identity_directory(user)}", *arguments]
    process = await asyncio.create_subprocess_exec(*command, *options, stdout=asyncio.subprocess.PIPE, cwd=ROOT)
    async with asyncio.timeout(60):
        out, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, [json.loads(line) for line in out.splitlines()]


def changes(lines: list[dict[str, object]]) -> list[object]:
    return [line["change"] for line in lines if line["event"] == "etcd access changed"]


async def test_it_sets_up_everything_once_and_changes_nothing_the_second_time(etcd: EtcdCluster) -> None:
    code, lines = await run_command(etcd, f"--grant={CONTROLLER}", f"--grant={COORDINATOR}")
    assert code == 0
    assert changes(lines)[0] == "user root added"
    assert changes(lines)[-1] == "authentication enabled"

    code, lines = await run_command(etcd, f"--grant={CONTROLLER}", f"--grant={COORDINATOR}")
    assert (code, changes(lines)) == (0, [])


async def test_calls_under_way_while_roles_change_are_made_again(etcd: EtcdCluster) -> None:
    """etcd refuses what was proposed under older users and roles; it would refuse a repetition only for a reason of its own."""
    await run_command(etcd, f"--grant={CONTROLLER}")
    root, controller = etcd.identity("root"), etcd.identity("controller-mindie")
    async with EtcdClient(etcd.endpoints, root) as admin, EtcdClient(etcd.endpoints, controller) as client, asyncio.TaskGroup() as group:
        changing = group.create_task(_change_roles(admin, 100))
        written = 0
        while not changing.done():
            key = f"/mindie/controller/{written}"
            done = await asyncio.gather(*(client.txn([created_at(f"{key}/{n}", 0)], [put_op(f"{key}/{n}", b"x")]) for n in range(8)))
            assert all(reply.succeeded for reply in done)
            written += 1
    assert written > 0


async def _change_roles(admin: EtcdClient, count: int) -> None:
    for number in range(count):
        await admin.auth.role_add(f"role-{number}")


async def test_each_user_reaches_its_prefixes_and_no_other(etcd: EtcdCluster) -> None:
    await run_command(etcd, f"--grant={CONTROLLER}", f"--grant={COORDINATOR}")

    async with EtcdClient(etcd.endpoints, etcd.identity("controller-mindie")) as client:
        await client.put("/mindie/cluster/leader-lock", b"10.0.0.1", await client.lease_grant(10))
        await client.put("/mindie/controller/node-data", b"{}")
        assert (await client.status(0)).leader
        for key in ("/mindie/coordinator/x", "/mindie/clusterx", "/other/cluster/x"):
            with pytest.raises(EtcdDeniedError, match="Check the certificate's CN"):
                await client.put(key, b"x")
            with pytest.raises(EtcdDeniedError):
                await client.get(key)
        with pytest.raises(EtcdDeniedError):
            await client.get_prefix("/mindie/")
        with pytest.raises(EtcdDeniedError):
            await anext(client.watch("/mindie/coordinator/"))
        with pytest.raises(EtcdDeniedError):
            await client.auth.users()

    async with EtcdClient(etcd.endpoints, etcd.identity("nobody")) as stranger:
        with pytest.raises(EtcdDeniedError):
            await stranger.get("/mindie/cluster/leader-lock")


async def test_a_changed_declaration_is_followed_exactly(etcd: EtcdCluster) -> None:
    await run_command(etcd, f"--grant={CONTROLLER}")
    async with EtcdClient(etcd.endpoints, etcd.identity("root")) as root:
        await root.auth.role_add("extra")
        await root.auth.user_grant_role("controller-mindie", "extra")

        changed = await ensure_access(root.auth, [Grant("controller-mindie", ("/mindie/cluster/", "/mindie/new/"))])

        assert changed == [
            "role controller-mindie may use /mindie/new/",
            "role controller-mindie lost /mindie/controller/",
            "user controller-mindie lost role extra",
        ]
        assert await root.auth.user_roles("controller-mindie") == {"controller-mindie"}
    async with EtcdClient(etcd.endpoints, etcd.identity("controller-mindie")) as client:
        await client.put("/mindie/new/x", b"1")
        with pytest.raises(EtcdDeniedError):
            await client.put("/mindie/controller/x", b"1")


async def test_it_goes_on_where_an_interrupted_run_stopped(etcd: EtcdCluster) -> None:
    async with EtcdClient(etcd.endpoints, etcd.identity("root")) as root:
        await root.auth.user_add("root")
        await root.auth.role_add("controller-mindie")

    code, lines = await run_command(etcd, f"--grant={CONTROLLER}")

    assert code == 0
    assert "user root added" not in changes(lines)
    assert "user controller-mindie added" in changes(lines)
    assert changes(lines)[-1] == "authentication enabled"


async def test_grants_can_come_from_a_file(etcd: EtcdCluster, tmp_path: Path) -> None:
    path = tmp_path / "grants.json"
    path.write_text('{"grants": {"backup-mindie": ["/mindie/backup/"]}}')

    code, _ = await run_command(etcd, f"--grants-file={path}", f"--grant={CONTROLLER}")

    assert code == 0
    async with EtcdClient(etcd.endpoints, etcd.identity("backup-mindie")) as client:
        await client.put("/mindie/backup/x", b"1")


async def test_a_certificate_that_is_not_roots_is_wrong_input(etcd: EtcdCluster) -> None:
    await run_command(etcd, f"--grant={CONTROLLER}")

    code, lines = await run_command(etcd, f"--grant={CONTROLLER}", user="controller-mindie")

    assert code == 78
    assert "The certificate's CN must be root" in str(lines[-1]["err"])


@pytest.mark.parametrize(
    "arguments", [[], ["--grant=root=/a/"], [f"--grant={CONTROLLER}", f"--grant={CONTROLLER}"], ["--grants-file=/none"]]
)
async def test_wrong_input_is_78(etcd: EtcdCluster, arguments: list[str]) -> None:
    assert (await run_command(etcd, *arguments))[0] == 78


async def test_without_etcd_it_gives_up_in_time_with_75_and_says_what_it_waited_for(etcd: EtcdCluster) -> None:
    [port] = free_ports(1)
    begin = asyncio.get_running_loop().time()

    code, lines = await run_command(etcd, f"--grant={CONTROLLER}", "--deadline-s=2", endpoint=f"https://127.0.0.1:{port}")

    assert code == 75
    assert asyncio.get_running_loop().time() - begin < 20
    assert lines[0]["event"] == "waiting for etcd"
    assert "Connect call failed" in str(lines[-1]["err"])
