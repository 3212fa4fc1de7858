# SPDX-License-Identifier: Apache-2.0
"""Builds images with buildah and exports them as OCI archives.

Every timestamp is fixed and bytecode is checked by nothing but its presence, so that content alone decides
the digest and a read-only container starts without compiling.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from images.content import base_tag, image_tag, package_files, runtime_lock
from images.recipes import BASE_EXCLUDES, BASE_PACKAGES, BASE_SUITE, PREFIX, PYTHON_ROOT, USER, EntryPoint, Recipe

EPOCH = "0"
SITE = f"{PYTHON_ROOT}/lib"
POLICY = {"default": [{"type": "insecureAcceptAnything"}]}
STUB = """#!/usr/bin/python3 -sE
import sys
sys.path[:0] = ["{site}"]
from {module} import {function}
sys.exit({function}())
"""


class ImageError(RuntimeError):
    """An image could not be built; the message holds the tool's own last lines."""


@dataclass(frozen=True)
class Image:
    """A built image. `reference`: by digest. `archive`: OCI archive to load into a container runtime."""

    name: str
    tag: str
    reference: str
    archive: Path


class Builder:
    """Builds into a storage of its own below `cache`, so that nothing of the machine's buildah is touched."""

    def __init__(self, checkout: Path, cache: Path) -> None:
        """Prepare folders; `cache` is kept between runs."""
        self.checkout, self.cache = checkout, cache
        self.archives = cache / "archives"
        self.archives.mkdir(parents=True, exist_ok=True)
        policy = cache / "policy.json"
        policy.write_text(json.dumps(POLICY))
        self._policy = policy
        self._env = {**os.environ, "BUILDAH_ISOLATION": "chroot", "SOURCE_DATE_EPOCH": EPOCH}

    def base(self) -> str:
        """Build the Python root file system with the locked dependencies; returns its tag."""
        tag = base_tag(self.checkout)
        name = f"{PREFIX}base:{tag}"
        if not self._exists(name):
            with tempfile.TemporaryDirectory(dir=self.cache) as scratch:
                rootfs, site = Path(scratch, "rootfs.tar"), Path(scratch, "site")
                self._root_file_system(rootfs)
                self._dependencies(site)
                self._commit(name, None, [(rootfs, "/"), (site, SITE)], [])
        return tag

    def image(self, recipe: Recipe, parents: dict[str, str]) -> Image:
        """Build one image unless its archive is current. `parents`: recipe name -> tag."""
        parent = parents.get(recipe.parent or "", "")
        tag = image_tag(recipe, parent, self.checkout)
        archive = self.archives / f"{recipe.name}-{tag}.tar"
        if not archive.exists():
            self._build(recipe, f"{PREFIX}{recipe.parent}:{parent}" if recipe.parent else None, tag)
            self._export(f"{recipe.repository}:{tag}", archive)
            self._forget_older(recipe, archive)
        return Image(recipe.name, tag, f"{recipe.repository}@{archive_digest(archive)}", archive)

    def push(self, image: Image, registry: str) -> str:
        """Copy one image to `registry` (a prefix such as `registry.example.internal/ascend-pd`); returns its digest there."""
        with tempfile.TemporaryDirectory(dir=self.cache) as scratch:
            digest = Path(scratch, "digest")
            target = f"docker://{registry}/{PREFIX.rpartition('/')[2]}{image.name}:{image.tag}"
            self._buildah("push", "--quiet", "--format", "oci", "--digestfile", str(digest), f"{PREFIX}{image.name}:{image.tag}", target)
            return digest.read_text().strip()

    def _build(self, recipe: Recipe, parent: str | None, tag: str) -> None:
        with tempfile.TemporaryDirectory(dir=self.cache) as scratch:
            copies = [(copy.source, copy.target) for copy in recipe.copies]
            if recipe.packages:
                site = Path(scratch, "site")
                for package in recipe.packages:
                    self._package(package, site)
                copies.append((site, SITE))
            if recipe.entry_points:
                commands = Path(scratch, "bin")
                commands.mkdir()
                for entry_point in recipe.entry_points:
                    self._entry_point(entry_point, commands)
                copies.append((commands, "/usr/bin"))
            self._commit(f"{recipe.repository}:{tag}", parent, copies, ["--user", USER, "--env", "PATH=/usr/bin:/bin"])

    def _root_file_system(self, target: Path) -> None:
        excludes = [f"--dpkgopt=path-exclude={path}" for path in BASE_EXCLUDES]
        self._run(["mmdebstrap", "--variant=minbase", f"--include={','.join(BASE_PACKAGES)}", *excludes, BASE_SUITE, str(target)])

    def _dependencies(self, target: Path) -> None:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--require-hashes", "--only-binary=:all:", "--no-compile", "--no-deps"]
        self._run([*pip, "--target", str(target), "-r", str(runtime_lock(self.checkout))])
        shutil.rmtree(target / "bin", ignore_errors=True)
        self._compile(target)

    def _package(self, name: str, site: Path) -> None:
        for file in package_files(self.checkout / name):
            target = site / file.relative_to(self.checkout)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target)
        self._compile(site)

    def _compile(self, site: Path) -> None:
        options = ["-q", "-j", "0", "--invalidation-mode", "unchecked-hash", "-s", str(site), "-p", SITE]
        self._run([sys.executable, "-m", "compileall", *options, str(site)])

    def _entry_point(self, entry_point: EntryPoint, folder: Path) -> None:
        module, function = entry_point.target.split(":")
        script = folder / entry_point.name
        script.write_text(STUB.format(site=SITE, module=module, function=function))
        script.chmod(0o755)

    def _commit(self, name: str, parent: str | None, copies: Sequence[tuple[Path, str]], config: Sequence[str]) -> None:
        container = self._buildah("from", parent or "scratch").strip()
        try:
            for source, target in copies:
                owner = [] if source.suffix == ".tar" else ["--chown", "0:0"]
                self._buildah("add", "--quiet", *owner, container, str(source), target)
            if config:
                self._buildah("config", *config, container)
            self._buildah("commit", "--quiet", "--timestamp", EPOCH, container, name)
        finally:
            self._buildah("rm", container)

    def _export(self, name: str, archive: Path) -> None:
        partial = archive.with_suffix(".part")
        partial.unlink(missing_ok=True)
        self._buildah("push", "--quiet", "--format", "oci", name, f"oci-archive:{partial}:{name}")
        partial.rename(archive)

    def _forget_older(self, recipe: Recipe, keep: Path) -> None:
        for old in self.archives.glob(f"{recipe.name}-*.tar"):
            if old != keep:
                old.unlink()

    def _exists(self, name: str) -> bool:
        command = self._buildah_command("inspect", "--type", "image", name)
        return subprocess.run(command, env=self._env, capture_output=True, check=False).returncode == 0

    def _buildah(self, verb: str, *args: str) -> str:
        return self._run(self._buildah_command(verb, *args))

    def _buildah_command(self, verb: str, *args: str) -> list[str]:
        storage = ["--root", str(self.cache / "storage"), "--runroot", str(self.cache / "run"), "--storage-driver", "vfs"]
        policy = ["--signature-policy", str(self._policy)] if verb in ("from", "commit", "push") else []
        return ["buildah", *storage, verb, *policy, *args]

    def _run(self, command: Sequence[str]) -> str:
        try:
            done = subprocess.run(command, env=self._env, capture_output=True, text=True, check=False)
        except FileNotFoundError as err:
            raise ImageError(f"{command[0]} is not installed. Run `make setup`.") from err
        if done.returncode != 0:
            tail = "\n".join((done.stderr or done.stdout).strip().splitlines()[-10:])
            raise ImageError(f"{' '.join(command[:3])} ... ended with {done.returncode}:\n{tail}")
        return done.stdout


def archive_digest(archive: Path) -> str:
    """Digest of the image inside an OCI archive."""
    with tarfile.open(archive) as tar:
        index = tar.extractfile("index.json")
        if index is None:
            raise ImageError(f"{archive} is no OCI archive. Remove it and run `make images`.")
        return str(json.load(index)["manifests"][0]["digest"])
