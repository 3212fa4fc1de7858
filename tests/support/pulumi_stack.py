# SPDX-License-Identifier: Apache-2.0
"""A throw-away Pulumi project on the real engine: own home, own state, no cluster.

Kubernetes resources are rendered to files by the real provider, so a preview needs no API server.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

from tests.support.binaries import PLACES, binary

PREVIEW_TIMEOUT_S = 100


@dataclass(frozen=True)
class Outcome:
    """How a run of the command line ended; `text` is all it printed."""

    code: int
    text: str


@dataclass(frozen=True)
class PulumiProject:
    """One project directory with one stack."""

    directory: Path
    environment: dict[str, str]

    @classmethod
    def create(cls, root: Path, program: str, **environment: str) -> PulumiProject:
        """Write a project with this program and make its stack. `environment` is added to that of every run."""
        directory = root / "project"
        directory.mkdir(parents=True)
        interpreter = Path(sys.executable).parent.parent
        (directory / "Pulumi.yaml").write_text(
            f"name: trial\nruntime: {{name: python, options: {{toolchain: pip, virtualenv: {interpreter}}}}}\n"
        )
        (directory / "__main__.py").write_text(textwrap.dedent(program))
        (root / "state").mkdir()
        project = cls(directory, engine_environment(root) | environment)
        outcome = project.run("stack", "init", "trial")
        assert outcome.code == 0, outcome.text
        return project

    def run(self, *arguments: str) -> Outcome:
        """Run the command line in the project."""
        done = subprocess.run(
            [str(binary("pulumi")), *arguments, "--non-interactive", "--color=never"],
            cwd=self.directory,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PREVIEW_TIMEOUT_S,
            check=False,
        )
        return Outcome(done.returncode, done.stdout)


def engine_environment(root: Path) -> dict[str, str]:
    """Variables of an engine with its own home and the state folder `root/state`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PULUMI_")}
    return kept | {
        "PATH": f"{binary('pulumi-language-python').parent}:{os.environ['PATH']}",
        "PULUMI_HOME": str(_home(root)),
        "PULUMI_BACKEND_URL": (root / "state").as_uri(),
        "PULUMI_CONFIG_PASSPHRASE": "trial",
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
        "PULUMI_NEO": "false",
    }


def _home(root: Path) -> Path:
    """A home with the built plugins. Their folders are real: the engine passes over links to folders."""
    home = root / "home"
    for plugin in (PLACES.pulumi_home / "plugins").iterdir():
        if plugin.is_dir():
            folder = home / "plugins" / plugin.name
            folder.mkdir(parents=True)
            for file in plugin.iterdir():
                (folder / file.name).symlink_to(file.resolve())
    return home
