# SPDX-License-Identifier: Apache-2.0
"""The image that holds a pod's namespaces: one static C program, built here when no archive brings it."""

from __future__ import annotations

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


def build_pause(folder: Path, reference: str = PAUSE_IMAGE) -> Path:
    """Return `lab-pause.tar` in `folder`, an OCI archive of the image, built by gcc and buildah the first time."""
    archive = folder / "lab-pause.tar"
    if archive.exists():
        return archive
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="lab-pause-", dir=folder) as scratch:
        work = Path(scratch)
        (work / "pause.c").write_text(_SOURCE)
        run("gcc", "-static", "-Os", "-s", "-o", work / "pause", work / "pause.c")
        _commit(work, reference, work / "pause.tar")
        (work / "pause.tar").rename(archive)
    return archive


def _commit(work: Path, reference: str, archive: Path) -> None:
    """Storage and policy lie in `work`, so that the machine's own buildah is not touched."""
    policy = work / "policy.json"
    policy.write_text('{"default": [{"type": "insecureAcceptAnything"}]}')
    buildah = ("buildah", "--root", work / "store", "--runroot", work / "run", "--storage-driver", "vfs")
    trust = ("--signature-policy", policy)
    image = run(*buildah, "from", *trust, "scratch").strip()
    run(*buildah, "add", "--quiet", "--chown", "0:0", image, work / "pause", "/pause")
    run(*buildah, "config", "--entrypoint", '["/pause"]', "--user", "65534:65534", image)
    run(*buildah, "commit", *trust, "--quiet", "--timestamp", "0", image, reference)
    run(*buildah, "push", *trust, "--quiet", "--format", "oci", reference, f"oci-archive:{archive}:{reference}")
    run(*buildah, "rm", image)
