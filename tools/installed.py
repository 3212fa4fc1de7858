# SPDX-License-Identifier: Apache-2.0
"""Binaries that the user has installed already, used when their version is exactly the pinned one.

Only what a user of Pulumi and Kubernetes has is looked for: `pulumi` with its language host,
`kubectl`, and resource plugins in the user's own plugin folder.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from tools.catalogue import CATALOGUE, Binary
from tools.places import Places

VERSION_TIMEOUT_S = 20


def find_installed(binary: Binary, environ: Mapping[str, str], places: Places) -> Path | None:
    """Return the path of an installed binary of exactly the right version, or None."""
    if binary.plugin:
        return _installed_plugin(binary, environ, places)
    if binary.beside:
        neighbour = next(row for row in CATALOGUE if row.name == binary.beside)
        found = find_installed(neighbour, environ, places)
        candidate = found.parent / binary.name if found else None
        return candidate if candidate and all((candidate.parent / name).is_file() for name in binary.files) else None
    if not binary.version_arguments:
        return None
    for candidate in _on_path(binary.name, environ, places):
        if binary.version in _reported_version(candidate, binary, environ):
            return candidate
    return None


def _installed_plugin(binary: Binary, environ: Mapping[str, str], places: Places) -> Path | None:
    home = Path(environ.get("PULUMI_HOME") or Path(environ.get("HOME") or Path.home()) / ".pulumi")
    candidate = home / "plugins" / binary.plugin_folder / binary.name
    return candidate if os.access(candidate, os.X_OK) and not _is_ours(candidate, places) else None


def _on_path(name: str, environ: Mapping[str, str], places: Places) -> Iterator[Path]:
    for folder in environ.get("PATH", "").split(os.pathsep):
        candidate = Path(folder) / name
        if folder and candidate.is_file() and os.access(candidate, os.X_OK) and not _is_ours(candidate, places):
            yield candidate.resolve()


def _is_ours(candidate: Path, places: Places) -> bool:
    """Tell links of any checkout's `.tools`, and what they point at, from an installation of the user."""
    resolved = candidate.resolve()
    return resolved.is_relative_to(places.cache.resolve()) or candidate.is_relative_to(places.links)


def _reported_version(candidate: Path, binary: Binary, environ: Mapping[str, str]) -> list[str]:
    try:
        answer = subprocess.run(
            [candidate, *binary.version_arguments],
            capture_output=True,
            text=True,
            timeout=VERSION_TIMEOUT_S,
            check=False,
            env={**environ, "PULUMI_SKIP_UPDATE_CHECK": "true"},
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    return answer.stdout.split()
