# SPDX-License-Identifier: Apache-2.0
"""`.env.sh` sets up a shell, holds no secret, and the passphrase it names is the owner's alone."""

from __future__ import annotations

import stat
import subprocess
from pathlib import Path

import pytest

from tools.env_file import write_env_file
from tools.places import Places


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(checkout=tmp_path / "a check'out", cache=tmp_path / "cache", state=tmp_path / "state")


@pytest.fixture(autouse=True)
def checkout(places: Places) -> None:
    places.checkout.mkdir()


def source(places: Places, command: str, **environ: str) -> str:
    """Source the file twice in a plain shell and return what `command` prints."""
    file = places.checkout / ".env.sh"
    script = f'. "{file}"; . "{file}"; {command}'
    return subprocess.run(
        ["sh", "-euc", script], env={"PATH": "/usr/bin:/bin", **environ}, capture_output=True, text=True, check=True
    ).stdout.strip()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_passphrase_is_private_and_not_in_the_file(places: Places) -> None:
    file = write_env_file(places)
    passphrase = places.passphrase_file.read_text().strip()
    assert len(passphrase) >= 32
    assert passphrase not in file.read_text()
    assert mode(places.passphrase_file) == 0o600
    assert mode(places.state) == 0o700
    assert mode(places.pulumi_state) == 0o700


def test_passphrase_is_made_once(places: Places) -> None:
    write_env_file(places)
    first = places.passphrase_file.read_text()
    write_env_file(places)
    assert places.passphrase_file.read_text() == first
    assert [path.name for path in places.state.iterdir() if path.is_file()] == ["passphrase"]


def test_two_users_of_two_states_get_two_passphrases(places: Places, tmp_path: Path) -> None:
    write_env_file(places)
    other = Places(checkout=places.checkout, cache=places.cache, state=tmp_path / "other")
    write_env_file(other)
    assert other.passphrase_file.read_text() != places.passphrase_file.read_text()


def test_passphrase_that_others_could_read_is_closed_again(places: Places) -> None:
    write_env_file(places)
    places.passphrase_file.chmod(0o644)
    write_env_file(places)
    assert mode(places.passphrase_file) == 0o600


def test_shell_finds_our_binaries_first_and_only_once(places: Places) -> None:
    write_env_file(places)
    assert source(places, 'echo "$PATH"') == f"{places.bin}:/usr/bin:/bin"


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("PULUMI_HOME", "{checkout}/.tools/pulumi"),
        ("PULUMI_BACKEND_URL", "file://{state}/pulumi"),
        ("PULUMI_CONFIG_PASSPHRASE_FILE", "{state}/passphrase"),
        ("PULUMI_STACK", "dev"),
        ("PULUMI_OPTION_CONFIG_FILE", "{checkout}/build/Pulumi.dev.yaml"),
        ("PULUMI_OPTION_POLICY_PACK", "{checkout}/policies"),
        ("PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION", "true"),
        ("PULUMI_ERROR_OUTPUT_STRING", "true"),
        ("KUBECONFIG", "/var/lib/ascend-pd/lab/dev/kubeconfig"),
    ],
)
def test_shell_gets_the_dev_stack(places: Places, variable: str, value: str) -> None:
    write_env_file(places)
    assert source(places, f'echo "${variable}"') == value.format(checkout=places.checkout, state=places.state)


def test_kubeconfig_of_the_user_stays(places: Places) -> None:
    write_env_file(places)
    assert source(places, 'echo "$KUBECONFIG"', KUBECONFIG="/home/me/config") == "/home/me/config"


@pytest.mark.parametrize(
    ("environ", "state"),
    [
        ({"HOME": "/home/me"}, "/home/me/.local/state/ascend-pd"),
        ({"HOME": "/home/me", "XDG_STATE_HOME": "/state"}, "/state/ascend-pd"),
        ({"HOME": "/home/me", "XDG_STATE_HOME": "relative"}, "/home/me/.local/state/ascend-pd"),
    ],
)
def test_state_lies_where_the_user_keeps_state(environ: dict[str, str], state: str) -> None:
    assert Places.of_user(environ).state == Path(state)
