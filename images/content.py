# SPDX-License-Identifier: Apache-2.0
"""Content hashes: an image is built again only when something that goes into it changed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from images.recipes import BASE_EXCLUDES, BASE_PACKAGES, BASE_SUITE, Recipe

TAG_LENGTH = 16


def base_tag(checkout: Path) -> str:
    """Hash of the root file system's package list and of the locked Python dependencies."""
    parts = [*BASE_PACKAGES, BASE_SUITE, *BASE_EXCLUDES, _builder(checkout)]
    return _digest("\n".join(parts).encode() + runtime_lock(checkout).read_bytes())


def image_tag(recipe: Recipe, parent_tag: str, checkout: Path) -> str:
    """Hash of a recipe, its parent and every file it copies."""
    state = hashlib.sha256(f"{recipe.name} {recipe.entry_points} {parent_tag} {_builder(checkout)}".encode())
    for copy in recipe.copies:
        state.update(copy.target.encode() + hashlib.sha256(copy.source.read_bytes()).digest())
    for package in recipe.packages:
        for file in package_files(checkout / package):
            state.update(str(file.relative_to(checkout)).encode() + file.read_bytes())
    return state.hexdigest()[:TAG_LENGTH]


def package_files(root: Path) -> Iterator[Path]:
    """List the files of a Python package that belong into an image, sorted."""
    yield from sorted(file for file in root.rglob("*") if file.is_file() and "__pycache__" not in file.parts)


def runtime_lock(checkout: Path) -> Path:
    """Locked dependencies of the images."""
    return checkout / "requirements" / "runtime.lock"


def _builder(checkout: Path) -> str:
    return _digest((checkout / "images" / "build.py").read_bytes())


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:TAG_LENGTH]
