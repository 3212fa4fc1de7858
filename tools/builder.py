# SPDX-License-Identifier: Apache-2.0
"""Makes every binary of the table present: from the cache, from the user's installation, or by building it.

Invariants: a folder `<cache>/<fingerprint>` is complete or absent (built aside, then renamed), so an
interrupted run loses the binary in work and nothing else; one family is built by one process at a time,
so two runs at once build each binary once; Go's caches are removed only when nobody builds and every
binary is there.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tools.catalogue import CATALOGUE, Binary
from tools.errors import ToolsError
from tools.file_lock import locked, locked_if_free
from tools.fingerprint import fingerprint
from tools.go_command import Go, explain
from tools.installed import find_installed
from tools.links import is_same_content, link_binary, linked_path, remove_strangers
from tools.places import Places
from tools.progress import Progress

KEEP_CACHES_VARIABLE = "ASCEND_PD_KEEP_GO_CACHES"
# Measured for the whole table: module cache 8 GB, build cache 12 GB, binaries 1.1 GB, and room to link.
DISK_NEEDED_BYTES = 25 * 10**9
LOG_LINES_SHOWN = 25

How = Literal["cached", "built", "installed"]


@dataclass(frozen=True)
class Outcome:
    """Where one binary is and how it came there."""

    binary: Binary
    how: How
    path: Path


class Builder:
    """One run over the table. `disk_needed_bytes`: Go's caches and the binaries, in all."""

    def __init__(
        self,
        places: Places,
        environ: Mapping[str, str],
        catalogue: Sequence[Binary] = CATALOGUE,
        disk_needed_bytes: int = DISK_NEEDED_BYTES,
    ) -> None:
        self._places = places
        self._environ = environ
        self._catalogue = catalogue
        self._disk_needed_bytes = disk_needed_bytes
        self._go: Go | None = None

    def build(self, binaries: Sequence[Binary], progress: Progress) -> list[Outcome]:
        """Make `binaries` present and link them, in the given order.

        Raises:
            ToolsError: Go is missing or too old, the disk is too full, or a build failed.
        """
        outcomes = []
        for binary in binaries:
            progress.begin()
            started_s = time.monotonic()
            outcome = self.find(binary) or self._build_alone(binary, progress)
            link_binary(binary, outcome.path, self._places, is_installed=outcome.how == "installed")
            progress.done(binary.name, outcome.how, time.monotonic() - started_s)
            outcomes.append(outcome)
        remove_strangers(self._catalogue, self._places)
        return outcomes

    def find(self, binary: Binary) -> Outcome | None:
        """Return where a current binary is, cached or installed, without building anything."""
        try:
            folder = self._folder(binary)
        except ToolsError:
            folder = None  # no Go: an installed binary may still do, and building says what is missing
        if folder and all((folder / name).is_file() for name in binary.files):
            return Outcome(binary, "cached", folder / binary.name)
        installed = find_installed(binary, self._environ, self._places)
        return Outcome(binary, "installed", installed) if installed else None

    def is_ready(self, binary: Binary) -> bool:
        """Tell whether the checkout's link of `binary` leads to a current one."""
        found = self.find(binary)
        link = linked_path(binary, self._places)
        return found is not None and link.exists() and is_same_content(link, found.path)

    def remove_go_caches(self) -> bool:
        """Remove Go's caches unless something is missing or somebody builds; say whether they went."""
        caches = self._places.go_mod_cache.parent
        if not caches.is_dir() or any(self.find(binary) is None for binary in self._catalogue if not binary.optional):
            return False
        with locked_if_free(self._caches_lock) as is_held:
            if not is_held:
                return False
            self._find_go().remove_caches()
            shutil.rmtree(caches, ignore_errors=True)
            return True

    @property
    def _caches_lock(self) -> Path:
        return self._places.locks / "go-caches.lock"

    def _find_go(self) -> Go:
        if self._go is None:
            self._go = Go.find(self._environ, self._places)
        return self._go

    def _source(self, binary: Binary) -> Path:
        return self._places.go_sources / binary.family

    def _folder(self, binary: Binary) -> Path:
        return self._places.cache / fingerprint(binary, self._source(binary), self._find_go())

    def _build_alone(self, binary: Binary, progress: Progress) -> Outcome:
        """Build under the family's lock, unless the process that held it has built the same meanwhile."""
        self._find_go().check_version(self._source(binary))
        lock = self._places.locks / f"{binary.family}.lock"
        with locked(lock, on_wait=lambda: progress.say(f"{binary.name}: waiting for another run that builds {binary.family}")):
            if found := self.find(binary):
                return found
            self._check_disk()
            with locked(self._caches_lock, shared=True):
                return Outcome(binary, "built", self._build(binary, progress))

    def _check_disk(self) -> None:
        self._places.cache.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(self._places.cache).free
        if free >= self._disk_needed_bytes or free + _size_bytes(self._places.cache) >= self._disk_needed_bytes:
            return
        raise ToolsError(
            f"{self._places.cache}: {free / 1e9:.0f} GB free, building needs {self._disk_needed_bytes / 1e9:.0f} GB. "
            "Free space there, or set XDG_CACHE_HOME to a folder on a larger disk."
        )

    def _build(self, binary: Binary, progress: Progress) -> Path:
        folder = self._folder(binary)
        aside = self._places.cache / f".{binary.family}"  # ours alone: the family is locked
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir(parents=True)
        try:
            self._compile(binary, aside / binary.name, progress)
            self._add_companions(binary, aside)
            shutil.rmtree(folder, ignore_errors=True)  # an incomplete one: somebody removed files by hand
            aside.rename(folder)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
        return folder / binary.name

    def _compile(self, binary: Binary, output: Path, progress: Progress) -> None:
        self._places.logs.mkdir(parents=True, exist_ok=True)
        log_path = self._places.logs / f"{binary.name}.log"
        started_s = time.monotonic()
        with log_path.open("wb") as log:
            process = self._find_go().start_build(binary, self._source(binary), output, log)
            try:
                while (code := _wait_a_second(process)) is None:
                    progress.alive(binary.name, "building", time.monotonic() - started_s)
            finally:
                if process.poll() is None:
                    process.terminate()
                    process.wait()
        if code or not output.is_file():
            text = log_path.read_text(errors="replace")
            tail = "\n".join(text.splitlines()[-LOG_LINES_SHOWN:])
            raise ToolsError(f"{tail}\n{binary.name}: the build failed, see {log_path}. {explain(text)}")

    def _add_companions(self, binary: Binary, folder: Path) -> None:
        for name in binary.scripts:
            shutil.copy2(self._source(binary) / name, folder / name)
        for file in binary.module_files:
            module = self._find_go().module_folder(file.module, self._source(binary))
            documents = [(module / path).read_text() for path in file.paths]
            (folder / file.target).write_text("\n---\n".join(documents))


def keeps_caches(environ: Mapping[str, str], option: bool) -> bool:
    """Tell whether Go's caches stay: the option or the variable asks for it."""
    return option or environ.get(KEEP_CACHES_VARIABLE, "") not in ("", "0")


def _wait_a_second(process: subprocess.Popen[bytes]) -> int | None:
    try:
        return process.wait(timeout=1.0)
    except subprocess.TimeoutExpired:
        return None


def _size_bytes(folder: Path) -> int:
    """Add up the files below `folder`: what an interrupted run has there need not be free any more."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(parent, name)).st_size
            except FileNotFoundError:
                continue  # a build beside this one removed it
    return total
