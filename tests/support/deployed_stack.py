# SPDX-License-Identifier: Apache-2.0
"""The whole stack on a lab of real nodes, deployed by the real engine as a user does it.

The program is copied first: whoever edits the checkout meanwhile changes nothing here. State, settings,
plugins' home and passphrase are this copy's own.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from controller_runtime.cli.cluster_view import PodView, pod_view
from controller_runtime.cli.preview_summary import PreviewSummary, read_preview
from controller_runtime.cli.smoke import Verdict
from tests.support.client_pods import TEST_LABEL
from tests.support.pulumi_stack import Outcome, engine_environment
from tests.support.real_lab import CHECKOUT, KubeObject, RealLab, images
from tests.support.stacks import changed
from tools.places import DEV_LAB_KUBECONFIG, Places
from tools.stack_state import ensure_stack

STACK = "e2e"
PASSPHRASE = "correct horse battery staple of the end-to-end tests"
PROGRAM = ("Pulumi.yaml", "__main__.py", "components", "controller_runtime", "policies", "pyproject.toml")
NAMESPACES = {"operator": "mindx-dl", "workload": "mindie", "etcd": "ascend-pd-etcd"}
UP_TIMEOUT_S = 420


@dataclass(frozen=True)
class PodState:
    """What tells whether a pod was replaced or its containers restarted."""

    uid: str
    restarts: int


@dataclass
class DeployedStack:
    """One stack. `settings`: what it was last brought up with."""

    lab: RealLab
    root: Path
    environment: dict[str, str]
    base: dict[str, Any]
    settings: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def create(cls, lab: RealLab, root: Path) -> DeployedStack:
        """Copy the program, load the images into the lab, make an empty stack."""
        project = root / "project"
        _copy_program(project)
        found = images()
        (project / "build" / "images.json").write_text(json.dumps(found))
        lab.run("load", *(image["archive"] for image in found.values()))
        environment = engine_environment(root) | {
            "PULUMI_CONFIG_PASSPHRASE": PASSPHRASE,
            "PULUMI_ERROR_OUTPUT_STRING": "true",
            "PULUMI_ENABLE_STREAMING_JSON_PREVIEW": "true",
            "PULUMI_STACK": STACK,
            "PULUMI_OPTION_CONFIG_FILE": str(root / f"Pulumi.{STACK}.yaml"),
            "PULUMI_OPTION_POLICY_PACK": str(project / "policies"),
            "KUBECONFIG": str(DEV_LAB_KUBECONFIG.parents[1] / lab.name / "kubeconfig"),
        }
        (root / "state").mkdir()
        ensure_stack(Places(CHECKOUT, root / "cache", root), STACK, environment)
        return cls(lab, root, environment, _settings_for(lab))

    @property
    def project(self) -> Path:
        """Folder of the copied program."""
        return self.root / "project"

    def up(self, **changes: Any) -> Outcome:
        """`pulumi up` with the settings so far and these changes (dots are written as two underscores), whatever comes out."""
        self._configure(changes, keep=True)
        return self.pulumi("up", "--yes", "--skip-preview", "--suppress-outputs")

    def up_killed_at(self, words: str, **changes: Any) -> None:
        """Start `pulumi up` and take it down without a chance to tidy up, engine and plugins, as soon as it prints these words."""
        self._configure(changes, keep=True)
        process = subprocess.Popen(
            self._pulumi("up", "--yes", "--skip-preview", "--suppress-outputs"),
            cwd=self.project,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        assert process.stdout is not None
        with process.stdout as lines:
            seen = any(words in line for line in lines)
            _kill_session(process.pid)
        process.wait(timeout=30)
        assert seen, f"{words} was never printed"

    def preview(self, **changes: Any) -> PreviewSummary:
        """`pulumi preview` with these changes, which are not kept. It must succeed."""
        self._configure(changes, keep=False)
        done = subprocess.run(
            [*self._pulumi("preview", "--json")], cwd=self.project, env=self.environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return read_preview(done.stdout.splitlines(), STACK)

    def pulumi(self, *words: str) -> Outcome:
        """Run the engine's command line on this stack."""
        done = subprocess.run(
            self._pulumi(*words),
            cwd=self.project,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=UP_TIMEOUT_S,
            check=False,
        )
        return Outcome(done.returncode, done.stdout)

    def smoke(self, wait_s: float = 0, timeout_s: float = 20) -> Verdict:
        """Send a request from this machine through the node port, as `make smoke` does."""
        command = [str(Path(sys.executable).with_name("ascend-pd")), "smoke", f"--wait-s={wait_s}", f"--timeout-s={timeout_s}"]
        done = subprocess.run(
            [*command, f"--stack={STACK}"], cwd=self.project, env=self.environment, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.stdout.strip(), done.stderr
        return Verdict.model_validate_json(done.stdout.splitlines()[-1])

    def pod_objects(self) -> list[KubeObject]:
        """Pods of the stack's namespaces, unfinished and finished, without those that tests put there."""
        items = [item for namespace in NAMESPACES.values() for item in self.lab.get("pods", "-n", namespace)["items"]]
        return [item for item in items if TEST_LABEL not in item["metadata"]["labels"]]

    def pods(self) -> dict[str, PodView]:
        """Pods of the stack by name, those of finished Jobs left out."""
        return {view.name: view for view in map(pod_view, self.pod_objects()) if not view.finished}

    def states(self) -> dict[str, PodState]:
        """Pod name -> uid and restarts, those of finished Jobs left out."""
        return {
            item["metadata"]["name"]: PodState(
                item["metadata"]["uid"], sum(one["restartCount"] for one in item["status"].get("containerStatuses", []))
            )
            for item in self.pod_objects()
            if item["status"].get("phase") != "Succeeded"
        }

    def pod_of(self, app: str) -> PodView:
        """The only, or first, pod of an app."""
        return min((pod for pod in self.pods().values() if pod.app == app), key=lambda pod: pod.name)

    def all_ready(self) -> bool:
        """Every pod Ready, and as many as there should be: no workload is short of one."""
        pods = self.pods().values()
        return all(pod.ready for pod in pods) and not self._short_workloads()

    def image(self, name: str) -> str:
        """Reference of one of the images that were deployed."""
        record = json.loads((self.project / "build" / "images.json").read_text())
        return str(record[name]["reference"])

    def remove(self) -> Outcome:
        """`pulumi destroy`."""
        return self.pulumi("destroy", "--yes", "--skip-preview", "--suppress-outputs")

    def _pulumi(self, *words: str) -> list[str]:
        return ["pulumi", *words, "--non-interactive", "--color=never"]

    def _configure(self, changes: Mapping[str, Any], *, keep: bool) -> None:
        asked = self.settings | {path.replace("__", "."): value for path, value in changes.items()}
        file = Path(self.environment["PULUMI_OPTION_CONFIG_FILE"])
        written = yaml.safe_load(file.read_text()) if file.is_file() else {}
        file.write_text(yaml.safe_dump(written | {"config": {"ascend-pd:stack": changed(self.base, asked)}}))
        if keep:
            self.settings = asked

    def _short_workloads(self) -> list[str]:
        found = [item for namespace in NAMESPACES.values() for item in self.lab.get("deployments,statefulsets", "-n", namespace)["items"]]
        return [item["metadata"]["name"] for item in found if item["status"].get("readyReplicas", 0) != item["spec"]["replicas"]]


def _kill_session(leader: int) -> None:
    """Plugins have process groups of their own, but share the session of the command line that started them."""
    for directory in Path("/proc").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):
            if directory.name.isdigit() and os.getsid(int(directory.name)) == leader:
                os.kill(int(directory.name), signal.SIGKILL)


def _settings_for(lab: RealLab) -> dict[str, Any]:
    """The settings of the dev stack at the addresses of this lab."""
    raw: dict[str, Any] = yaml.safe_load((CHECKOUT / "Pulumi.dev.yaml").read_text())["config"]["ascend-pd:stack"]
    status = lab.status()
    peers = {kind: [{"cidr": f"{status[place]['ip']}/32", "port": status[place]["port"]}] for kind, place in _PLACES.items()}
    clients = [{"cidr": status["node_cidr"], "port": 1025}]
    return raw | {"cluster": {"identifier": f"lab-{lab.name}"}, "network": raw["network"] | peers | {"clients": clients}}


_PLACES = {"dns": "dns", "api_server": "api"}


def _copy_program(project: Path) -> None:
    project.mkdir(parents=True)
    for name in PROGRAM:
        source = CHECKOUT / name
        if source.is_dir():
            shutil.copytree(source, project / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, project / name)
    (project / "build").mkdir()
    (project / ".venv").symlink_to(Path(sys.executable).parent.parent)
