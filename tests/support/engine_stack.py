# SPDX-License-Identifier: Apache-2.0
"""The project's own stack under the real engine: rendered to files, or as the real program previews it.

Rendering needs no cluster: `PdCluster` with the provider's render mode. Certificates are made by the real tls
provider and revocation lists by the real dynamic provider.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.support.declared_stack import CHECKOUT, IMAGES
from tests.support.pulumi_stack import Outcome, PulumiProject
from tests.support.stacks import stack

RENDER_PROGRAM = """
    import json
    import os
    import pulumi
    from pulumi_kubernetes import Provider
    from components.pd_cluster import PdCluster, PdClusterArgs
    from components.split import role_split
    from controller_runtime.api.stack_rules import read_stack

    config = read_stack(pulumi.Config("ascend-pd").require_object("stack"))
    args = PdClusterArgs(config, json.loads(os.environ["TRIAL_IMAGES"]), role_split(config).instances)
    files = Provider("files", render_yaml_to_directory=os.environ["TRIAL_RENDERED"])
    cluster = PdCluster("pd", args, pulumi.ResourceOptions(providers={"kubernetes": files}))
    pulumi.export("revocation_lists", cluster.revocation_lists)
"""
WITHOUT_NODES = {"pools.prefill.node_names": None, "pools.decode.node_names": None}
"""Nodes are looked at in a cluster; a rendered stack has none."""
UNSTABLE = re.compile(r"^(\s*(?:ca\.crt|tls\.crt|tls\.key|crl\.pem|crl\.der): ).*$", re.MULTILINE)


@dataclass(frozen=True)
class EngineStack:
    """A stack of the project in a throw-away Pulumi project."""

    project: PulumiProject
    root: Path

    @classmethod
    def rendering(cls, root: Path) -> EngineStack:
        """A project that writes manifests to `root/rendered`."""
        rendered = {"TRIAL_RENDERED": str(root / "rendered"), "TRIAL_IMAGES": json.dumps(IMAGES)}
        return cls(_project(root, RENDER_PROGRAM, rendered), root)

    @classmethod
    def real(cls, root: Path, kubeconfig: Path) -> EngineStack:
        """A project with the real program."""
        made = cls(_project(root, (CHECKOUT / "__main__.py").read_text(), {"KUBECONFIG": str(kubeconfig)}), root)
        images = {name: {"reference": reference} for name, reference in IMAGES.items()}
        (made.project.directory / "build").mkdir()
        (made.project.directory / "build" / "images.json").write_text(json.dumps(images))
        return made

    def configure(self, settings: Mapping[str, Any]) -> None:
        """Write the stack file."""
        file = self.project.directory / "Pulumi.trial.yaml"
        kept = yaml.safe_load(file.read_text()) if file.exists() else {}
        file.write_text(yaml.safe_dump(kept | {"config": {"ascend-pd:stack": dict(settings)}}))

    def change(self, changes: Mapping[str, Any]) -> None:
        """Write the stack file: the valid test stack without named nodes, and these changes."""
        self.configure(stack(WITHOUT_NODES | dict(changes)))

    def up(self) -> None:
        """Bring the stack up; it must succeed."""
        outcome = self.project.run("up", "--yes", "--skip-preview")
        assert outcome.code == 0, outcome.text

    def preview(self, *options: str) -> Outcome:
        """Preview, whatever comes out."""
        return self.project.run("preview", *options)

    def state(self, *options: str) -> dict[str, Any]:
        """The exported state; secrets stay encrypted unless the options say otherwise."""
        outcome = self.project.run("stack", "export", *options)
        assert outcome.code == 0, outcome.text
        exported: dict[str, Any] = json.loads(outcome.text)
        return exported

    def manifests(self) -> dict[str, str]:
        """What was rendered: file name -> manifest, certificates, keys and lists replaced by a word."""
        files = sorted((self.root / "rendered").rglob("*.yaml"))
        return {file.name: UNSTABLE.sub(r"\1(made by the engine)", file.read_text()) for file in files}


def _project(root: Path, program: str, environment: Mapping[str, str]) -> PulumiProject:
    project = PulumiProject.create(root, program, PYTHONPATH=str(CHECKOUT), PULUMI_ERROR_OUTPUT_STRING="true")
    project.environment.pop("KUBECONFIG", None)
    project.environment.update(environment)
    return project
