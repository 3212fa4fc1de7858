# SPDX-License-Identifier: Apache-2.0
"""The image that holds a pod's namespaces: one static C program, built here when no archive brings it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from lab.commands import run

PAUSE_IMAGE = "localhost/pause:1"
_SOURCE = """
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void leave(int number) { (void)number; _exit(0); }
static void reap(int number) { (void)number; while (waitpid(-1, 0, WNOHANG) > 0) {} }

int main(void) {
  signal(SIGINT, leave);
  signal(SIGTERM, leave);
  signal(SIGCHLD, reap);
  for (;;) pause();
}
"""


def build_pause(folder: Path) -> Path:
    """Return the archive of the pause image in `folder`, building it by gcc and buildah the first time."""
    archive = folder / "lab-pause.tar"
    if archive.exists():
        return archive
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="lab-pause-") as scratch:
        work = Path(scratch)
        (work / "pause.c").write_text(_SOURCE)
        run("gcc", "-static", "-Os", "-s", "-o", work / "pause", work / "pause.c")
        commit_image(
            work,
            PAUSE_IMAGE,
            archive,
            ["copy", "IMAGE", str(work / "pause"), "/pause"],
            ["--entrypoint", '["/pause"]', "--user", "65534:65534"],
        )
    return archive


def commit_image(work: Path, reference: str, archive: Path, fill: list[str], config: list[str]) -> None:
    """Build an image from nothing: the buildah call `fill` puts files in (`IMAGE` stands for it), `config` sets it up.

    `work`: empty scratch folder on a disk. The archive appears by rename.
    """
    os.makedirs(work / "store", exist_ok=True)
    buildah = ("buildah", "--root", work / "store", "--runroot", work / "run", "--storage-driver", "vfs")
    image = run(*buildah, "from", "scratch").strip()
    run(*buildah, *(image if word == "IMAGE" else word for word in fill))
    run(*buildah, "config", *config, image)
    run(*buildah, "commit", "--quiet", "--timestamp", "0", image, reference)
    partial = archive.with_suffix(".partial")
    partial.unlink(missing_ok=True)
    run(*buildah, "push", "--quiet", reference, f"oci-archive:{partial}:{reference}")
    run(*buildah, "rm", image)
    partial.rename(archive)
