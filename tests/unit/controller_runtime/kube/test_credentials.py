# SPDX-License-Identifier: Apache-2.0
"""Credentials that change while the process runs."""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from controller_runtime.errors import ConfigError
from controller_runtime.kube.credentials import (
    REREAD_S,
    Credential,
    CredentialFiles,
    ExecCredential,
    ExecPlugin,
    FileCredential,
)


class ManualClock:
    def __init__(self) -> None:
        self.passed_s = 0.0

    def monotonic(self) -> float:
        return self.passed_s

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.passed_s)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


async def test_a_token_file_is_read_again_every_minute(tmp_path: Path, clock: ManualClock) -> None:
    file = tmp_path / "token"
    file.write_text("one\n")
    source = FileCredential(CredentialFiles(token=file), clock=clock)
    assert (await source.current()).token == "one"
    file.write_text("two\n")
    clock.passed_s += REREAD_S - 1
    assert (await source.current()).token == "one"
    clock.passed_s += 1
    assert (await source.current()).token == "two"


async def test_a_refused_token_is_read_again_at_once(tmp_path: Path, clock: ManualClock) -> None:
    file = tmp_path / "token"
    file.write_text("one")
    source = FileCredential(CredentialFiles(token=file), clock=clock)
    refused = await source.current()
    file.write_text("two")
    source.refused(refused)
    assert (await source.current()).token == "two"

    file.write_text("three")
    source.refused(refused)
    assert (await source.current()).token == "two", "a late refusal of an older token changes nothing"


async def test_a_file_that_vanishes_keeps_the_last_good_token(tmp_path: Path, clock: ManualClock) -> None:
    file = tmp_path / "token"
    file.write_text("one")
    source = FileCredential(CredentialFiles(token=file), clock=clock)
    await source.current()
    file.unlink()
    clock.passed_s += REREAD_S
    assert (await source.current()).token == "one"


async def test_a_file_that_never_was_is_a_configuration_error(tmp_path: Path) -> None:
    source = FileCredential(CredentialFiles(token=tmp_path / "absent"))
    with pytest.raises(ConfigError, match="absent"):
        await source.current()


def test_secrets_are_not_in_the_repr() -> None:
    shown = repr(Credential("secret-token", "secret-certificate", "secret-key"))
    assert "secret" not in shown


def plugin(folder: Path, status: str, **options: object) -> ExecPlugin:
    """A plugin that counts its runs in `runs` and prints `status` (a Python expression that may use `runs` and `info`)."""
    script = folder / "plugin.py"
    script.write_text(
        "import json, os, pathlib, sys\n"
        f"counter = pathlib.Path({str(folder / 'runs')!r})\n"
        "runs = int(counter.read_text()) + 1 if counter.exists() else 1\n"
        "counter.write_text(str(runs))\n"
        "info = json.loads(os.environ['KUBERNETES_EXEC_INFO'])\n"
        f"status = {status}\n"
        "print(json.dumps({'apiVersion': info['apiVersion'], 'kind': 'ExecCredential', 'status': status}))\n"
    )
    return ExecPlugin(command=sys.executable, arguments=[str(script)], **options)  # type: ignore[arg-type]  # of the constructor


async def test_a_plugin_runs_once_for_many_callers(tmp_path: Path) -> None:
    source = ExecCredential(plugin(tmp_path, "{'token': f'token-{runs}'}"))
    credentials = await asyncio.gather(*(source.current() for _ in range(8)))
    assert {credential.token for credential in credentials} == {"token-1"}


async def test_a_plugin_runs_again_when_its_credential_expires_or_is_refused(tmp_path: Path, clock: ManualClock) -> None:
    status = "{'token': f'token-{runs}', 'expirationTimestamp': '2026-01-01T01:00:00Z' if runs == 1 else '2027-01-01T00:00:00Z'}"
    source = ExecCredential(plugin(tmp_path, status), clock=clock)
    assert (await source.current()).token == "token-1"
    clock.passed_s = 3600 - 11
    assert (await source.current()).token == "token-1"
    clock.passed_s = 3600 - 10
    second = await source.current()
    assert second.token == "token-2"
    source.refused(second)
    assert (await source.current()).token == "token-3"


async def test_a_plugin_gets_its_environment_and_the_cluster_when_asked_and_may_answer_a_certificate(tmp_path: Path) -> None:
    status = "{'clientCertificateData': os.environ['CERT'], 'clientKeyData': info['spec']['cluster']['server']}"
    source = ExecCredential(plugin(tmp_path, status, environment={"CERT": "pem"}, cluster={"server": "https://api"}))
    assert await source.current() == Credential(None, "pem", "https://api")


@pytest.mark.parametrize(
    "status, problem",
    [
        ("sys.exit(3)", "exit code 3"),
        ("{}", "not an ExecCredential"),
        ("{'token': 't'}; info['apiVersion'] = 'client.authentication.k8s.io/v1beta1'", "not an ExecCredential"),
        ("print('hello')", "not an ExecCredential"),
    ],
)
async def test_a_failing_plugin_is_a_configuration_error(tmp_path: Path, status: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        await ExecCredential(plugin(tmp_path, status)).current()


async def test_a_missing_plugin_comes_with_its_install_hint() -> None:
    with pytest.raises(ConfigError, match=r"no-such-plugin.*Get it from the shop"):
        await ExecCredential(ExecPlugin("no-such-plugin", install_hint="Get it from the shop.")).current()
