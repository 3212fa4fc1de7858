# SPDX-License-Identifier: Apache-2.0
"""S12 between objects: the TLS files a ConfigMap names lie in a Secret that its readers mount.

A ConfigMap may be mounted by containers that use only part of it, so a path is good when one reader has it in a
Secret, and bad wherever a reader has something else at that place.
Seed: controller manual, `*_tls_items`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

from controller_runtime.rules.certainty import certain_first
from controller_runtime.rules.config_files import config_files
from controller_runtime.rules.model import CrossFinding, Severity, cross_rule
from controller_runtime.rules.objects import KubeObject, get, kind_of, members, reference, sequence
from controller_runtime.rules.pods import Container, containers
from controller_runtime.rules.tls_files import TlsFile, files_named_by

SECRET_SOURCES = ("secret", "clusterTrustBundle", "podCertificate")


class _Reader(NamedTuple):
    """A container that mounts a ConfigMap, and the position of its object."""

    position: int
    container: Container


@cross_rule(
    "S12",
    title="TLS files come from Secrets",
    reason="A key in a ConfigMap, an image or a host directory is readable by whoever can read those.",
    control=("NSA secrets", "CIS 5.4.1"),
    remedy="Mount the identity's Secret at that directory",
    severity=Severity.CRITICAL,
)
def tls_files_in_secrets(objects: Sequence[KubeObject]) -> Iterator[CrossFinding]:
    """Judges each path once per reader that has something else there, else once at the ConfigMap."""
    everything = [(index, member) for index, obj in enumerate(objects) for member in members(obj)]
    readers = _readers(everything)
    yield from certain_first(_config_map(index, obj, readers) for index, obj in everything if kind_of(obj) == "ConfigMap")


def _config_map(index: int, obj: KubeObject, readers: dict[tuple[str, str], list[_Reader]]) -> Iterator[CrossFinding]:
    name = reference(obj)
    mine = readers.get((name.namespace, name.name), [])
    if not mine:
        return
    for file in config_files(obj):
        for tls_file in files_named_by(file):
            yield from _path(index, tls_file, mine)


def _path(index: int, tls_file: TlsFile, readers: Sequence[_Reader]) -> Iterator[CrossFinding]:
    sources = [(reader, _source_of(reader.container, tls_file.path)) for reader in readers]
    wrong = [(reader, source) for reader, source in sources if source not in ("secret", "image")]
    for reader, source in wrong:
        yield CrossFinding(
            reader.position, reader.container.place, f"reads {tls_file.path} from {source}; {tls_file.place} names it as a TLS file"
        )
    if not wrong and all(source == "image" for _, source in sources):
        yield CrossFinding(index, tls_file.place, f"is {tls_file.path}, where no reader of this ConfigMap mounts a Secret")


def _readers(objects: Sequence[tuple[int, KubeObject]]) -> dict[tuple[str, str], list[_Reader]]:
    found: dict[tuple[str, str], list[_Reader]] = {}
    for index, obj in objects:
        namespace = reference(obj).namespace
        for container in containers(obj):
            for name in sorted(_config_maps(container)):
                found.setdefault((namespace, name), []).append(_Reader(index, container))
    return found


def _config_maps(container: Container) -> set[str]:
    mounted = {get(mount, "name") for mount in sequence(container.body, "volumeMounts")}
    names: set[str] = set()
    for volume in sequence(container.pod.spec, "volumes"):
        if get(volume, "name") in mounted:
            names |= {
                str(name)
                for source in (volume, *sequence(volume, "projected", "sources"))
                if (name := get(source, "configMap", "name")) is not None
            }
    return names


def _source_of(container: Container, path: str) -> str:
    """What is at a path in a container: `secret`, `image` (nothing mounted), or the kind of volume."""
    wanted, best = PurePosixPath(path), (-1, "image")
    for mount in sequence(container.body, "volumeMounts"):
        at = PurePosixPath(str(get(mount, "mountPath")))
        if wanted.is_relative_to(at) and len(at.parts) > best[0]:
            best = (len(at.parts), _kind_of_volume(container, get(mount, "name")))
    return best[1]


def _kind_of_volume(container: Container, name: object) -> str:
    for volume in sequence(container.pod.spec, "volumes"):
        if get(volume, "name") == name:
            sources = [volume, *sequence(volume, "projected", "sources")]
            if any(get(source, kind) is not None for source in sources for kind in SECRET_SOURCES) or get(volume, "csi") is not None:
                return "secret"
            return (
                next((f"a volume of kind {key}" for key in volume if key != "name"), "a volume") if isinstance(volume, dict) else "a volume"
            )
    return "a volume that is not declared"
