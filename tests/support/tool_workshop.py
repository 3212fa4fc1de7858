# SPDX-License-Identifier: Apache-2.0
"""A checkout and a user's folders in a temporary place, with one tiny Go module to build for real."""

from __future__ import annotations

import io
import os
from pathlib import Path

from tools.builder import Builder, Outcome
from tools.catalogue import Binary
from tools.places import Places
from tools.progress import Progress

HELLO = Binary(name="hello", family="hello", package=".", version="1.0.0", values=(("main.greeting", "hi"),))


class Workshop:
    """Builds rows of a small table below `root`; `printed` is what the last build showed."""

    def __init__(self, root: Path, go_build_cache: Path) -> None:
        self.environ = {"PATH": os.environ["PATH"], "HOME": str(root / "home")}
        self.places = Places.of_user(self.environ, checkout=root / "checkout")
        self.places.go_build_cache.parent.mkdir(parents=True)
        self.places.go_build_cache.symlink_to(go_build_cache)  # the standard library is compiled once for all tests
        self.printed = ""
        self.add_family("hello")

    def add_family(self, family: str) -> Path:
        source = self.places.go_sources / family
        source.mkdir(parents=True)
        (source / "go.mod").write_text(f"module tools/{family}\n\ngo 1.21\n")
        (source / "main.go").write_text('package main\n\nvar greeting = "none"\n\nfunc main() { println(greeting) }\n')
        return source

    def builder(self, *catalogue: Binary, disk_needed_bytes: int = 1) -> Builder:
        return Builder(self.places, self.environ, catalogue or (HELLO,), disk_needed_bytes)

    def build(self, *catalogue: Binary, disk_needed_bytes: int = 1) -> list[Outcome]:
        rows = catalogue or (HELLO,)
        stream = io.StringIO()
        try:
            return self.builder(*rows, disk_needed_bytes=disk_needed_bytes).build(rows, Progress(len(rows), stream))
        finally:
            self.printed = stream.getvalue()


def write_executable(path: Path, script: str) -> Path:
    """Write a shell script at `path`, its folders included."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path
