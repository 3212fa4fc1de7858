# SPDX-License-Identifier: Apache-2.0
"""Container images of the nodes: archives on disk, imported into each node's containerd, no registry.

A lab keeps a list of its archives; each node keeps the list of what it has imported, so a node that was down
during `load` catches up when it starts. Every image also gets the name `repository@digest`, under which
manifests pin it, and images of this machine the name `repository:dev`, which the last import owns. Archives are
docker or OCI archives; an OCI archive keeps its builder's digest.
"""

from __future__ import annotations

import json
import os
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from lab import node as nodes
from lab.commands import run, wait_until
from lab.errors import LabError
from lab.pause_image import PAUSE_IMAGE, build_pause
from lab.state import Lab
from lab.topology import NodeSpec

_REFERENCE_ANNOTATIONS = ("io.containerd.image.name", "org.opencontainers.image.ref.name")
_TAG_BY_DIGEST = """
images=$(ctr $ADDRESS -n k8s.io images ls | awk 'NR > 1 && $1 !~ /@|^sha256:/ {print $1, $3}')
known=$(ctr $ADDRESS -n k8s.io images ls -q)
while read -r name digest; do
  [ -n "$name" ] || continue
  pinned=${name%:*}@$digest
  grep -qxF "$pinned" <<<"$known" || ctr $ADDRESS -n k8s.io images tag "$name" "$pinned" >/dev/null
done <<<"$images"
"""


LATEST_TAG = "dev"
"""Tag by which hand-written manifests name the last build."""


def cache_folder() -> Path:
    """Where images that were built on this machine are kept."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "ascend-pd" / "images"


def import_script(archives: Iterable[Path], address: str = "") -> str:
    """Bash that imports archives and gives every image its further names. `address`: socket, default the node's."""
    option = f"-a {address}" if address else ""
    listed = list(archives)
    imports = [f"ctr {option} -n k8s.io images import {archive} >/dev/null" for archive in listed]
    return "\n".join(["set -e", f"ADDRESS='{option}'", *imports, _TAG_BY_DIGEST, *_latest_tags(listed, option)])


def _latest_tags(archives: Iterable[Path], option: str) -> list[str]:
    """Commands that move the tag `dev` to these archives; after the digests, which take every name they find."""
    commands = []
    for reference in (reference for archive in archives for reference in references(archive)):
        latest = f"{reference.rpartition(':')[0]}:{LATEST_TAG}"
        if reference.startswith("localhost/") and reference != latest:
            commands.append(f"ctr {option} -n k8s.io images tag --force {reference} {latest} >/dev/null")
    return commands


def references(archive: Path) -> list[str]:
    """Names of the images in an archive.

    Raises:
        LabError: it is no image archive.
    """
    try:
        with tarfile.open(archive) as tar:
            members = {name.removeprefix("./"): name for name in tar.getnames()}
            index = _member(tar, members.get("index.json"))
            manifest = _member(tar, members.get("manifest.json"))
    except (OSError, tarfile.TarError) as err:
        raise LabError(f"{archive}: cannot be read as an image archive ({err}). Give a docker or OCI archive.") from err
    if index is None and manifest is None:
        raise LabError(f"{archive}: neither index.json nor manifest.json inside. Give a docker or OCI archive.")
    if isinstance(manifest, list):
        return [str(tag) for image in manifest for tag in image.get("RepoTags") or []]
    found = []
    for entry in index.get("manifests", []) if isinstance(index, dict) else []:
        annotations = entry.get("annotations", {})
        found += [annotations[key] for key in _REFERENCE_ANNOTATIONS if key in annotations][:1]
    return found


def with_pause(archives: Iterable[Path]) -> list[Path]:
    """The archives in order, and one with the pause image, built here when no archive has it."""
    wanted = sorted({archive.resolve() for archive in archives})
    if not any(PAUSE_IMAGE in references(archive) for archive in wanted):
        wanted.insert(0, build_pause(cache_folder()))
    return wanted


def identity(archive: Path) -> str:
    """Changes whenever the file is written anew."""
    facts = archive.stat()
    return f"{archive} {facts.st_size} {facts.st_mtime_ns}"


def remember(lab: Lab, archives: Iterable[Path]) -> None:
    """Add archives to the lab's list, and drop those whose file is gone."""
    paths = sorted({*(path for path in _listed(lab) if Path(path).exists()), *(str(archive) for archive in archives)})
    (lab.root / "archives.json").write_text(json.dumps(paths, indent=1))


def missing_on(lab: Lab, node: NodeSpec) -> list[Path]:
    """Listed archives that the node has not imported in their present state. Files that are gone do not count."""
    have = set(_imported(lab, node).values())
    present = [Path(path) for path in _listed(lab) if Path(path).exists()]
    return [archive for archive in present if identity(archive) not in have]


def note_imported(lab: Lab, node: NodeSpec, archives: Iterable[Path]) -> None:
    """Record what the node has."""
    record: Mapping[str, str] = {**_imported(lab, node), **{str(archive): identity(archive) for archive in archives}}
    (lab.node_folder(node) / "images.json").write_text(json.dumps(record, indent=1))


def catch_up(lab: Lab, node: NodeSpec) -> list[Path]:
    """Import into a running node what it misses; returns that."""
    archives = missing_on(lab, node)
    if not archives:
        return []
    machine = nodes.machine(lab, node)
    hint = f"Read {machine.logs}/containerd.log."
    wait_until(f"containerd of {node.name} answers", lambda: "Server" in run(*machine.enter(["ctr", "version"]), check=False), 60, hint)
    run(*machine.enter(["bash", "-c", import_script(archives)]))
    note_imported(lab, node, archives)
    return archives


def _listed(lab: Lab) -> list[str]:
    try:
        paths: list[str] = json.loads((lab.root / "archives.json").read_text())
    except FileNotFoundError:
        return []
    return paths


def _imported(lab: Lab, node: NodeSpec) -> dict[str, str]:
    try:
        record: dict[str, str] = json.loads((lab.node_folder(node) / "images.json").read_text())
    except FileNotFoundError:
        return {}
    return record


def _member(tar: tarfile.TarFile, name: str | None) -> object:
    file = tar.extractfile(name) if name else None
    return json.loads(file.read()) if file else None
