# SPDX-License-Identifier: Apache-2.0
"""The Go command: finding it, its version, and running it in a closed environment.

Invariants: Go's own caches of the user are not touched (ours are in the tools' cache folder, so that
they can be removed when everything is built); Go never fetches another Go (`GOTOOLCHAIN=local`);
binaries carry neither paths nor version-control data of this machine.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tools.catalogue import Binary
from tools.errors import ToolsError
from tools.places import Places

FIXED_ENVIRONMENT = {"CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false", "GOTOOLCHAIN": "local", "GOWORK": "off"}
STRIP_FLAGS = "-s -w"

# What Go says, and what a person can do about it.
_EXPLANATIONS = (
    ("no space left on device", "The disk is full. Free space in the cache folder and run the command again: it goes on where it stopped."),
    ("signal: killed", "The compiler was killed, most likely for lack of memory. Free memory (about 4 GiB are needed) and run again."),
    ("dial tcp", "The Go module proxy cannot be reached. Check the network, or set GOPROXY to one that can be."),
    ("proxyconnect", "The HTTP proxy cannot be reached. Check HTTPS_PROXY, or set GOPROXY to a module proxy that can be reached."),
    ("checksum mismatch", "A downloaded module is not the one pinned in go.sum. Remove Go's caches below the cache folder and run again."),
)


def version_tuple(text: str) -> tuple[int, ...]:
    """Read the numbers of `go1.26.8` or `1.26`; empty when there are none."""
    found = re.search(r"(\d+(?:\.\d+)*)", text)
    return tuple(int(part) for part in found.group(1).split(".")) if found else ()


def required_version(go_mod: Path) -> str:
    """Return the version on the `go` line of a go.mod."""
    found = re.search(r"^go (\S+)$", go_mod.read_text(), re.MULTILINE)
    if found is None:
        raise ToolsError(f"{go_mod}: no `go` line. Add the Go version the module needs.")
    return found.group(1)


def highest_required_version(sources: Path) -> str:
    """Return the Go version that every family below `sources` can be built with."""
    return max((required_version(path) for path in sources.glob("*/go.mod")), key=version_tuple)


@dataclass(frozen=True)
class Go:
    """`version` as `go1.26.8`, `platform` as `linux/amd64`."""

    executable: Path
    version: str
    platform: str
    environment: Mapping[str, str]

    @classmethod
    def find(cls, environ: Mapping[str, str], places: Places) -> Go:
        """Take the first `go` on PATH.

        Raises:
            ToolsError: there is none, or it does not run.
        """
        executable = shutil.which("go", path=environ.get("PATH", ""))
        if executable is None:
            raise ToolsError(
                "Go: no `go` on PATH, and binaries have to be built. "
                f"Install Go {highest_required_version(places.go_sources)} or newer and put its bin folder on PATH."
            )
        environment = {
            **environ,
            **FIXED_ENVIRONMENT,
            "GOMODCACHE": str(places.go_mod_cache),
            "GOCACHE": str(places.go_build_cache),
        }
        answer = subprocess.run(
            [executable, "env", "GOVERSION", "GOOS", "GOARCH"], capture_output=True, text=True, env=environment, cwd="/", check=False
        )
        words = answer.stdout.split()
        if answer.returncode or len(words) != 3:
            raise ToolsError(f"Go: `{executable} env` failed: {answer.stderr.strip()}. Repair or reinstall Go.")
        return cls(executable=Path(executable), version=words[0], platform=f"{words[1]}/{words[2]}", environment=environment)

    def check_version(self, source: Path) -> None:
        """Refuse a Go older than the module in `source` asks for."""
        needed = required_version(source / "go.mod")
        if version_tuple(self.version) < version_tuple(needed):
            raise ToolsError(f"Go: {self.executable} is {self.version}, {source.name} needs {needed}. Install Go {needed} or newer.")

    def start_build(self, binary: Binary, source: Path, output: Path, log: IO[bytes]) -> subprocess.Popen[bytes]:
        """Start the build of one binary; the caller waits for it."""
        return subprocess.Popen(
            [str(self.executable), "build", *build_flags(binary), "-o", str(output), binary.package],
            cwd=source,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )

    def module_folder(self, module: str, source: Path) -> Path:
        """Return where the source of `module`, as pinned in `source`, lies in the module cache."""
        answer = subprocess.run(
            [str(self.executable), "list", "-m", "-f", "{{.Dir}}", module],
            cwd=source,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        folder = answer.stdout.strip()
        if answer.returncode or not folder:
            raise ToolsError(f"{source.name}: the source of {module} was not found: {answer.stderr.strip()}. {explain(answer.stderr)}")
        return Path(folder)

    def remove_caches(self) -> None:
        """Remove modules and build results; the module cache is read-only, so only Go removes it everywhere."""
        subprocess.run(
            [str(self.executable), "clean", "-cache", "-modcache"], env=self.environment, cwd="/", capture_output=True, check=False
        )


def build_flags(binary: Binary) -> list[str]:
    """Return the flags of `go build` that shape the binary."""
    link = " ".join([STRIP_FLAGS, *(f"-X {name}={value}" for name, value in binary.values)])
    tags = ["-tags", ",".join(binary.tags)] if binary.tags else []
    return ["-trimpath", *tags, "-ldflags", link]


def explain(output: str) -> str:
    """Say what to do about a failure of the Go command, from what it printed."""
    for sign, advice in _EXPLANATIONS:
        if sign in output:
            return advice
    return "Read the output above; the same command run again goes on where it stopped."
