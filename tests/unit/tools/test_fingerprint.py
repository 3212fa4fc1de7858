# SPDX-License-Identifier: Apache-2.0
"""The hash of a binary's inputs changes when, and only when, an input changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.tool_workshop import HELLO
from tools.catalogue import ModuleFile
from tools.errors import ToolsError
from tools.fingerprint import fingerprint
from tools.go_command import Go

GO = Go(executable=Path("/go/bin/go"), version="go1.26.8", platform="linux/amd64", environment={})


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "family"
    (folder / "shim").mkdir(parents=True)
    for name in ("go.mod", "go.sum", "main.go", "shim/shim.go"):
        (folder / name).write_text(name)
    return folder


@pytest.mark.parametrize("name", ["go.mod", "go.sum", "main.go", "shim/shim.go", "new-script"])
def test_any_file_of_the_family_changes_the_hash(source: Path, name: str) -> None:
    before = fingerprint(HELLO, source, GO)
    (source / name).write_text("something else")
    assert fingerprint(HELLO, source, GO) != before


@pytest.mark.parametrize(
    "change",
    [
        lambda row: replace(row, tags=("osusergo",)),
        lambda row: replace(row, values=(("main.greeting", "hello"),)),
        lambda row: replace(row, package="./cmd"),
        lambda row: replace(row, name="other"),
        lambda row: replace(row, module_files=(ModuleFile("m", ("a",), "a"),)),
    ],
    ids=["tags", "values", "package", "name", "module files"],
)
def test_any_flag_changes_the_hash(source: Path, change: Callable) -> None:
    assert fingerprint(change(HELLO), source, GO) != fingerprint(HELLO, source, GO)


@pytest.mark.parametrize("go", [replace(GO, version="go1.26.9"), replace(GO, platform="linux/arm64")], ids=["version", "platform"])
def test_another_go_changes_the_hash(source: Path, go: Go) -> None:
    assert fingerprint(HELLO, source, go) != fingerprint(HELLO, source, GO)


def test_place_time_and_hidden_files_do_not_change_the_hash(source: Path, tmp_path: Path) -> None:
    before = fingerprint(HELLO, source, GO)
    moved = source.rename(tmp_path / "moved")
    (moved / ".main.go.swp").write_text("editor")
    (moved / "main.go").touch()
    elsewhere = replace(GO, executable=Path("/usr/bin/go"), environment={"HOME": "/root"})
    assert fingerprint(HELLO, moved, elsewhere) == before


def test_incomplete_checkout_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ToolsError, match=r"no go\.mod for hello"):
        fingerprint(HELLO, tmp_path, GO)
