# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import pytest

from lab import images
from lab.errors import LabError
from lab.pause_image import PAUSE_IMAGE
from lab.state import Lab


def _archive(path: Path, **members: object) -> Path:
    with tarfile.open(path, "w") as tar:
        for name, content in members.items():
            data = json.dumps(content).encode()
            entry = tarfile.TarInfo(f"{name}.json")
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return path


def _oci(path: Path, reference: str) -> Path:
    manifest = {"digest": "sha256:0", "annotations": {"org.opencontainers.image.ref.name": reference}}
    return _archive(path, index={"manifests": [manifest]})


def test_names_are_read_from_both_kinds_of_archives(tmp_path: Path) -> None:
    docker = _archive(tmp_path / "docker.tar", manifest=[{"RepoTags": ["localhost/a:1", "localhost/a:2"]}])

    assert images.references(docker) == ["localhost/a:1", "localhost/a:2"]
    assert images.references(_oci(tmp_path / "oci.tar", "localhost/b:1")) == ["localhost/b:1"]


def test_a_file_that_is_no_image_archive_is_refused(tmp_path: Path) -> None:
    text = tmp_path / "text.tar"
    text.write_text("no archive")

    with pytest.raises(LabError, match="cannot be read as an image archive"):
        images.references(text)
    with pytest.raises(LabError, match=r"neither index.json nor manifest.json"):
        images.references(_archive(tmp_path / "other.tar", other=1))


def test_a_given_pause_image_is_not_built_again(tmp_path: Path) -> None:
    given = [_oci(tmp_path / "b.tar", PAUSE_IMAGE), _oci(tmp_path / "a.tar", "localhost/a:1")]

    assert images.with_pause(given) == [tmp_path / "a.tar", tmp_path / "b.tar"]


def test_a_node_misses_what_changed_since_it_imported_and_nothing_that_is_gone(lab: Lab, tmp_path: Path) -> None:
    lab.root.mkdir(parents=True)
    for node in lab.nodes:
        lab.node_folder(node).mkdir()
    first, second = _oci(tmp_path / "a.tar", "localhost/a:1"), _oci(tmp_path / "b.tar", "localhost/b:1")
    images.remember(lab, [first, second])
    up_to_date, behind = lab.nodes
    images.note_imported(lab, up_to_date, [first, second])

    assert images.missing_on(lab, up_to_date) == []
    assert images.missing_on(lab, behind) == [first, second]

    _oci(first, "localhost/a:12345")
    second.unlink()
    assert images.missing_on(lab, up_to_date) == [first]
    assert images.missing_on(lab, behind) == [first]


def test_the_cache_follows_the_users_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/elsewhere")

    assert images.cache_folder() == Path("/elsewhere/ascend-pd/images")


def test_the_last_import_of_a_local_image_is_also_called_dev(tmp_path: Path) -> None:
    built = _oci(tmp_path / "built.tar", "localhost/app:4f2a")
    foreign = _oci(tmp_path / "foreign.tar", "registry.example/app:1")

    script = images.import_script([built, foreign])

    steps = [
        script.index(step) for step in (f"images import {built}", "pinned=", "images tag --force localhost/app:4f2a localhost/app:dev")
    ]
    assert steps == sorted(steps)
    assert "registry.example/app:dev" not in script
