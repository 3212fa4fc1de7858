# SPDX-License-Identifier: Apache-2.0
"""References of the stack's images, by digest."""

from __future__ import annotations

import json
from pathlib import Path

from controller_runtime.api.stack import ImageSpec, ImagesSpec
from controller_runtime.errors import ConfigError

NAMES = ("runtime", "simulator", "etcd")


def image_references(spec: ImagesSpec, built: Path) -> dict[str, str]:
    """Map image name -> reference.

    `built`: what `make images` wrote, read only when images are local.

    Raises:
        ConfigError: images are local and were not built.
    """
    if spec.source == "local":
        try:
            found = json.loads(built.read_text())
        except FileNotFoundError:
            remedy = "Run `make images`; for a cluster of your own run `make images-push` and set images.source: registry"
            raise ConfigError(f"ascend-pd:stack.images.source is local: build/images.json does not exist. {remedy}.") from None
        return {name: str(found[name]["reference"]) for name in NAMES}
    return {name: f"{spec.registry}/ascend-pd-{name}{_version(image)}" for name in NAMES if (image := getattr(spec, name)) is not None}


def _version(image: ImageSpec) -> str:
    return f":{image.tag}@{image.digest}" if image.digest else f":{image.tag}"
