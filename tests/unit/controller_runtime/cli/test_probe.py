# SPDX-License-Identifier: Apache-2.0
"""The exec probe against real listeners."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from controller_runtime.cli import probe as probe_module
from controller_runtime.cli.probe import ProbeError, probe
from controller_runtime.foundation.http_server import HttpServer
from controller_runtime.foundation.tls import TlsFiles, TlsIdentity
from tests.support.pki import HOUR, Authority, now, publish_crl, replace_file, write_identity


class Pod:
    """A server identity, a probe identity and a listener with one healthy and one unhealthy path."""

    def __init__(self, directory: Path) -> None:
        self.authority = Authority("pd")
        self.server_leaf = self.authority.issue("ms-controller", sans=["ms-controller.mindie"])
        self.probe_leaf = self.authority.issue("probe", sans=["probe.mindie"])
        self.server_dir = write_identity(directory / "server", self.authority, self.server_leaf)
        self.probe_dir = write_identity(directory / "probe", self.authority, self.probe_leaf)
        application = web.Application()
        application.router.add_get("/v1/health", self._healthy)
        application.router.add_get("/hang", self._hang)
        self.server = HttpServer(application, "127.0.0.1", 0, TlsIdentity(TlsFiles.in_directory(self.server_dir)), shutdown_s=0.1)
        self.released = asyncio.Event()

    async def ask(self, path: str = "/v1/health", *options: str) -> str:
        """Run the probe in a thread; returns the reason, empty when it succeeds."""
        arguments = ["--port", str(self.server.port), f"--path={path}", "--host=127.0.0.1", "--tls-dir", str(self.probe_dir), *options]
        try:
            await asyncio.to_thread(probe, arguments)
        except ProbeError as error:
            return str(error)
        return ""

    async def _healthy(self, _request: web.Request) -> web.Response:
        return web.Response()

    async def _hang(self, _request: web.Request) -> web.Response:
        await self.released.wait()
        return web.Response()


@pytest.fixture
async def pod(tmp_path: Path) -> AsyncIterator[Pod]:
    made = Pod(tmp_path)
    await made.server.start()
    yield made
    made.released.set()
    await made.server.stop()


async def test_status_200_over_mutual_tls_is_success(pod: Pod) -> None:
    assert await pod.ask() == ""


async def test_any_other_status_fails_with_its_number(pod: Pod) -> None:
    assert await pod.ask("/v1/none") == f"127.0.0.1:{pod.server.port}/v1/none: status 404"


async def test_an_answer_that_does_not_come_in_time_fails(pod: Pod) -> None:
    assert (await pod.ask("/hang", "--timeout-s", "0.2")).endswith("no answer in 0.2 s")


async def test_nobody_listening_fails(pod: Pod) -> None:
    await pod.server.stop()

    assert (await pod.ask()).endswith("Connection refused")


async def test_a_revoked_server_fails(pod: Pod) -> None:
    publish_crl(pod.probe_dir, pod.authority, [pod.server_leaf])

    assert (await pod.ask()).endswith("TLS failed: certificate revoked")


async def test_an_expired_list_fails(pod: Pod) -> None:
    publish_crl(pod.probe_dir, pod.authority, next_update=now() - HOUR)

    assert (await pod.ask()).endswith("TLS failed: CRL has expired")


async def test_a_server_of_another_ca_fails(pod: Pod) -> None:
    stranger = Authority("other")
    replace_file(pod.probe_dir / "ca.crt", stranger.cert_pem)
    replace_file(pod.probe_dir / "crl.pem", stranger.crl())

    assert "TLS failed" in await pod.ask()


async def test_a_probe_the_server_refuses_fails(pod: Pod) -> None:
    stranger = Authority("pd")
    leaf = stranger.issue("probe")
    replace_file(pod.probe_dir / "tls.crt", leaf.cert_pem)
    replace_file(pod.probe_dir / "tls.key", leaf.key_pem())

    assert "closed without an answer" in (reason := await pod.ask()) or "TLS failed" in reason or "reset" in reason


async def test_a_missing_file_is_named(pod: Pod) -> None:
    (pod.probe_dir / "crl.pem").unlink()

    assert await pod.ask() == f"{pod.probe_dir}/crl.pem: No such file or directory"


async def test_plain_http_is_there_for_ports_without_tls(pod: Pod) -> None:
    application = web.Application()
    application.router.add_get("/healthz", pod._healthy)
    async with HttpServer(application, "127.0.0.1", 0, None) as server:
        await asyncio.to_thread(probe, ["--plain", f"--port={server.port}", "--path=/healthz", "--host=127.0.0.1"])


async def test_the_address_comes_from_pod_ip(pod: Pod, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POD_IP", "127.0.0.1")

    await asyncio.to_thread(probe, [f"--port={pod.server.port}", "--path=/v1/health", f"--tls-dir={pod.probe_dir}"])


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--port", "1"],
        ["--path", "/x"],
        ["--port", "x", "--path", "/x"],
        ["--port", "1", "--path", "x"],
        ["--port", "1", "--path", "/x y"],
        ["--port", "1", "--path", "/x\r\nX: y"],
        ["--port", "1", "--path", "/x", "--what", "1"],
        ["--port", "1", "--path"],
    ],
)
def test_wrong_arguments_fail_with_the_usage(arguments: list[str]) -> None:
    with pytest.raises(ProbeError, match="usage: probe"):
        probe(["--host", "127.0.0.1", *arguments])


def test_without_address_it_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("POD_IP", raising=False)

    with pytest.raises(ProbeError, match="set POD_IP or pass --host"):
        probe(["--port", "1", "--path", "/x"])


async def test_the_process_exits_with_0_or_1_and_one_line(pod: Pod) -> None:
    async def run(path: str) -> tuple[int, str]:
        command = [sys.executable, "-m", "controller_runtime.cli.probe", f"--port={pod.server.port}", f"--path={path}"]
        environment = {**os.environ, "POD_IP": "127.0.0.1"}
        done = await asyncio.to_thread(
            subprocess.run, [*command, f"--tls-dir={pod.probe_dir}"], env=environment, capture_output=True, text=True, check=False
        )
        return done.returncode, done.stderr

    assert await run("/v1/health") == (0, "")
    assert await run("/none") == (1, f"probe: 127.0.0.1:{pod.server.port}/none: status 404\n")


def test_it_imports_nothing_but_the_standard_library() -> None:
    code = (
        "import sys; import controller_runtime.cli.probe; "
        "print(*sorted(name for name in sys.modules if name.partition('.')[0] not in {*sys.stdlib_module_names, '__main__'}))"
    )
    root = Path(probe_module.__file__).parents[2]
    shown = subprocess.run([sys.executable, "-S", "-c", code], cwd=root, capture_output=True, text=True, check=True).stdout

    assert shown.split() == ["controller_runtime", "controller_runtime.cli", "controller_runtime.cli.probe"]
