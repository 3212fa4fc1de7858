# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from lab import image_seed, images
from lab.state import Lab


@pytest.fixture
def archive(lab: Lab, tmp_path: Path) -> Path:
    """An archive that the lab lists; nobody opens it here."""
    lab.root.mkdir(parents=True)
    file = tmp_path / "image.tar"
    file.write_text("content")
    images.remember(lab, [file])
    return file


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A seed: one layer, one database."""
    folder = tmp_path / "seed" / "root"
    (folder / "snapshots").mkdir(parents=True)
    (folder / "snapshots" / "layer").write_text("layer")
    (folder / "meta.db").write_text("database")
    return folder


def test_layers_are_shared_with_the_seed_and_databases_are_not(lab: Lab, archive: Path, root: Path) -> None:
    node = lab.nodes[0]

    image_seed.plant(lab, node, root, [archive])

    planted = lab.node_folder(node) / "var" / "lib" / "containerd"
    assert (planted / "snapshots" / "layer").samefile(root / "snapshots" / "layer")
    assert (planted / "meta.db").read_text() == "database"
    assert not (planted / "meta.db").samefile(root / "meta.db")


def test_a_planted_node_needs_no_seed_and_has_imported_its_archives(lab: Lab, archive: Path, root: Path) -> None:
    assert image_seed.needs_seed(lab)
    for node in lab.nodes:
        image_seed.plant(lab, node, root, [archive])

    assert not image_seed.needs_seed(lab)
    assert images.missing_on(lab, lab.nodes[0]) == []


def test_a_node_that_has_images_is_never_overwritten(lab: Lab, archive: Path, root: Path) -> None:
    mine = lab.node_folder(lab.nodes[0]) / "var" / "lib" / "containerd"
    mine.mkdir(parents=True)
    (mine / "mine").touch()

    image_seed.plant(lab, lab.nodes[0], root, [archive])

    assert [path.name for path in mine.iterdir()] == ["mine"]
