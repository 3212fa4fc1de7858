# SPDX-License-Identifier: Apache-2.0
"""References of images: what was built here, or what a registry has."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from components.images import image_references
from controller_runtime.api.stack import ImageSpec, ImagesSpec
from controller_runtime.errors import ConfigError

DIGEST = f"sha256:{'0' * 64}"


def test_local_images_are_those_that_were_built(tmp_path: Path) -> None:
    built = tmp_path / "images.json"
    built.write_text(json.dumps({name: {"reference": f"{name}@{DIGEST}", "tag": "x"} for name in ("runtime", "simulator", "etcd")}))

    assert image_references(ImagesSpec(), built) == {name: f"{name}@{DIGEST}" for name in ("runtime", "simulator", "etcd")}


def test_local_images_that_were_not_built_are_asked_for(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"does not exist\. Run `make images`; .* run `make images-push`"):
        image_references(ImagesSpec(), tmp_path / "images.json")


def test_images_of_a_registry_carry_tag_and_digest(tmp_path: Path) -> None:
    spec = ImagesSpec(source="registry", registry="registry.example/pd", runtime=ImageSpec(tag="1", digest=DIGEST), etcd=ImageSpec(tag="2"))

    assert image_references(spec, tmp_path / "never read") == {
        "runtime": f"registry.example/pd/ascend-pd-runtime:1@{DIGEST}",
        "etcd": "registry.example/pd/ascend-pd-etcd:2",
    }
