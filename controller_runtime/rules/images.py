# SPDX-License-Identifier: Apache-2.0
"""S18: an image reference that means the same thing tomorrow.

Seed: deployment manual, secure image.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from controller_runtime.rules.certainty import certain_first
from controller_runtime.rules.model import Finding, Severity, rule
from controller_runtime.rules.objects import KubeObject, get, label, sequence
from controller_runtime.rules.pods import Container, Pod, containers, pods

_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128}")
_LATEST: Final = re.compile(r"(?:^|[-_.])latest$", re.IGNORECASE)
_CANDIDATE: Final = re.compile(r"[-_.]rc(?:[-_.]?\d|$)", re.IGNORECASE)


@rule(
    "S18",
    title="Images are pinned",
    reason="A moving tag runs code nobody reviewed, and differs from node to node.",
    control=("CIS 5.5.1", "NSA build secure container images"),
    remedy="Name a released tag, better a digest (repository@sha256:...)",
    severity=Severity.HIGH,
    each=lambda obj: _references(obj),
)
def pinned_images(reference: tuple[str, object]) -> Iterator[Finding]:
    """A digest settles it, whatever tag stands before it."""
    place, image = reference
    if (problem := unpinned(image)) is not None:
        yield Finding(place, problem)


def unpinned(image: object) -> str | None:
    """What is wrong with an image reference, None when it is pinned."""
    if not isinstance(image, str) or not image.strip():
        return "names no image"
    name, at, digest = image.partition("@")
    if at:
        return None if _DIGEST.fullmatch(digest) else f"has the digest {digest}, which is no sha256 of 64 digits"
    tag = name.rsplit("/", 1)[-1].partition(":")[2]
    if not tag:
        return f"is {image} without tag or digest, which means latest"
    if _LATEST.search(tag):
        return f"is {image}, a tag that moves"
    if _CANDIDATE.search(tag):
        return f"is {image}, a release candidate"
    return None


def _references(obj: KubeObject) -> Iterator[tuple[str, object]]:
    return certain_first([_container_images(obj), _volume_images(obj)])


def _container_images(obj: KubeObject) -> Iterator[tuple[str, object]]:
    return certain_first(_image(container) for container in containers(obj))


def _image(container: Container) -> Iterator[tuple[str, object]]:
    if "image" in container.body:
        yield f"{container.place}.image", get(container.body, "image")


def _volume_images(obj: KubeObject) -> Iterator[tuple[str, object]]:
    return certain_first(_image_volumes(pod) for pod in pods(obj))


def _image_volumes(pod: Pod) -> Iterator[tuple[str, object]]:
    for index, volume in enumerate(sequence(pod.spec, "volumes")):
        image = get(volume, "image", "reference")
        if image is not None:
            yield f"{pod.place}.volumes[{label(volume, index)}].image.reference", image
