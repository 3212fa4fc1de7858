# SPDX-License-Identifier: Apache-2.0
"""The builder with a real Go module: cached, built once, resumable, and readable when it cannot build."""

from __future__ import annotations

import io
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Barrier

import pytest

from tests.support.tool_workshop import HELLO, Workshop, write_executable
from tools.builder import keeps_caches
from tools.catalogue import Binary, ModuleFile
from tools.errors import ToolsError
from tools.file_lock import locked
from tools.progress import Progress

pytestmark = pytest.mark.process


def test_first_run_builds_a_working_binary_stamped_with_its_values(workshop: Workshop) -> None:
    (outcome,) = workshop.build()
    assert outcome.how == "built"
    answer = subprocess.run([workshop.places.bin / "hello"], capture_output=True, text=True, check=True)
    assert answer.stderr == "hi\n"
    assert "[1/1] hello" in workshop.printed
    assert "built" in workshop.printed


def test_second_run_takes_the_cached_binary(workshop: Workshop) -> None:
    (first,) = workshop.build()
    inode = first.path.stat().st_ino
    (second,) = workshop.build()
    assert second.how == "cached"
    assert second.path.stat().st_ino == inode
    assert "cached" in workshop.printed


def test_changed_source_is_built_anew_and_the_old_binary_stays(workshop: Workshop) -> None:
    (first,) = workshop.build()
    main = workshop.places.go_sources / "hello" / "main.go"
    main.write_text(main.read_text().replace("println(greeting)", 'println(greeting, "again")'))
    (second,) = workshop.build()
    assert second.how == "built"
    assert first.path.exists()
    answer = subprocess.run([workshop.places.bin / "hello"], capture_output=True, text=True, check=True)
    assert answer.stderr == "hi again\n"


def test_two_runs_at_once_build_once(workshop: Workshop) -> None:
    ready = Barrier(2)

    def run() -> str:
        builder = workshop.builder()
        ready.wait(timeout=30)
        (outcome,) = builder.build([HELLO], Progress(1, io.StringIO()))
        return outcome.how

    with ThreadPoolExecutor(2) as pool:
        hows = sorted(future.result(timeout=100) for future in [pool.submit(run), pool.submit(run)])
    assert hows == ["built", "cached"]


def test_run_that_waits_says_so(workshop: Workshop) -> None:
    with ThreadPoolExecutor(1) as pool:
        stream = io.StringIO()
        with locked(workshop.places.locks / "hello.lock"):
            future = pool.submit(workshop.builder().build, [HELLO], Progress(1, stream))
            while "waiting for another run" not in stream.getvalue():
                assert not future.done()
        assert future.result(timeout=100)[0].how == "built"


def test_leftovers_of_an_interrupted_run_do_not_matter(workshop: Workshop) -> None:
    aside = workshop.places.cache / ".hello"
    aside.mkdir(parents=True)
    (aside / "hello").write_text("half a binary")
    (outcome,) = workshop.build()
    assert outcome.how == "built"
    assert not aside.exists()
    subprocess.run([outcome.path], capture_output=True, check=True)


def test_cache_folder_that_lost_its_binary_is_built_again(workshop: Workshop) -> None:
    (outcome,) = workshop.build()
    outcome.path.unlink()
    assert workshop.build()[0].how == "built"


def test_scripts_and_module_files_lie_beside_the_binary(workshop: Workshop) -> None:
    source = workshop.places.go_sources / "hello"
    write_executable(source / "hello-exec", "echo script")
    (source / "one.yaml").write_text("a: 1")
    (source / "two.yaml").write_text("b: 2")
    row = replace(
        HELLO, scripts=("hello-exec",), module_files=(ModuleFile("tools/hello", ("one.yaml", "two.yaml"), "stages.yaml"),), bundled=True
    )
    (outcome,) = workshop.build(row)
    assert (outcome.path.parent / "stages.yaml").read_text() == "a: 1\n---\nb: 2"
    assert (workshop.places.share / "stages.yaml").read_text() == "a: 1\n---\nb: 2"
    # The engine resolves its own path and looks for its bundle there, so these are no symbolic links.
    assert not (workshop.places.bin / "hello").is_symlink()
    assert subprocess.run([workshop.places.bin / "hello-exec"], capture_output=True, text=True, check=True).stdout == "script\n"


def test_plugin_goes_to_the_plugin_folder_and_not_on_path(workshop: Workshop) -> None:
    source = workshop.add_family("thing")
    assert source.is_dir()
    row = Binary(name="pulumi-resource-thing", family="thing", package=".", version="2.3.4", plugin=True)
    workshop.build(row)
    folder = workshop.places.pulumi_home / "plugins" / "resource-thing-v2.3.4"
    assert folder.is_dir()
    assert not folder.is_symlink()
    assert (folder / "pulumi-resource-thing").exists()
    assert not (workshop.places.bin / "pulumi-resource-thing").exists()


def test_binary_that_left_the_table_leaves_the_checkout(workshop: Workshop) -> None:
    workshop.places.bin.mkdir(parents=True)
    (workshop.places.bin / "gone").symlink_to("/nowhere")
    workshop.build()
    assert [path.name for path in workshop.places.bin.iterdir()] == ["hello"]


def test_failed_build_shows_the_compiler_and_the_log(workshop: Workshop) -> None:
    (workshop.places.go_sources / "hello" / "main.go").write_text("package main\n\nfunc main() { undefined() }\n")
    with pytest.raises(ToolsError) as caught:
        workshop.build()
    assert "undefined: undefined" in str(caught.value)
    assert str(workshop.places.logs / "hello.log") in str(caught.value)
    assert not list(workshop.places.bin.glob("*"))


def test_missing_go_names_the_version_to_install(workshop: Workshop) -> None:
    workshop.environ["PATH"] = "/nonexistent"
    with pytest.raises(ToolsError, match=r"no `go` on PATH.*Install Go 1\.21 or newer"):
        workshop.build()


def test_old_go_names_the_version_to_install(workshop: Workshop) -> None:
    (workshop.places.go_sources / "hello" / "go.mod").write_text("module tools/hello\n\ngo 9.9\n")
    with pytest.raises(ToolsError, match=r"hello needs 9\.9\. Install Go 9\.9 or newer"):
        workshop.build()


def test_full_disk_is_refused_before_anything_is_built(workshop: Workshop) -> None:
    with pytest.raises(ToolsError, match=r"GB free, building needs 1000000000 GB\. Free space there, or set XDG_CACHE_HOME"):
        workshop.build(disk_needed_bytes=10**18)
    assert not (workshop.places.logs / "hello.log").exists()


def test_full_disk_does_not_matter_when_nothing_is_built(workshop: Workshop) -> None:
    workshop.build()
    assert workshop.build(disk_needed_bytes=10**18)[0].how == "cached"


def test_what_a_run_has_in_its_caches_need_not_be_free(workshop: Workshop) -> None:
    free = shutil.disk_usage(workshop.places.cache.parent.parent).free
    with (workshop.places.cache / "sparse").open("wb") as file:
        file.truncate(free)
    assert workshop.build(disk_needed_bytes=free + free // 2)[0].how == "built"


def test_go_caches_go_when_everything_is_there(workshop: Workshop) -> None:
    workshop.build()
    own = workshop.places.go_build_cache
    own.unlink()  # leave the cache of the other tests alone
    own.mkdir()
    assert workshop.builder().remove_go_caches()
    assert not workshop.places.go_mod_cache.parent.exists()
    assert workshop.build()[0].how == "cached"


def test_go_caches_stay_while_something_is_missing(workshop: Workshop) -> None:
    assert not workshop.builder().remove_go_caches()
    assert workshop.places.go_build_cache.exists()


def test_go_caches_stay_while_somebody_builds(workshop: Workshop) -> None:
    workshop.build()
    with locked(workshop.places.locks / "go-caches.lock", shared=True):
        assert not workshop.builder().remove_go_caches()
    assert workshop.places.go_build_cache.exists()


@pytest.mark.parametrize(
    ("variable", "option", "expected"), [("", False, False), ("0", False, False), ("1", False, True), ("", True, True)]
)
def test_option_and_variable_keep_go_caches(variable: str, option: bool, expected: bool) -> None:
    assert keeps_caches({"ASCEND_PD_KEEP_GO_CACHES": variable}, option) is expected


def test_readiness_follows_the_link_in_the_checkout(workshop: Workshop) -> None:
    builder = workshop.builder()
    assert not builder.is_ready(HELLO)
    workshop.build()
    assert builder.is_ready(HELLO)
    (workshop.places.bin / "hello").unlink()
    assert not builder.is_ready(HELLO)
