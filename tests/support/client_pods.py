# SPDX-License-Identifier: Apache-2.0
"""Pods of tests inside a deployed stack: they carry a label that network policies know, mount a Secret, run a program.

Programs are the modules of `pod_programs`; the runtime image has what they import.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from images.build import SITE
from tests.support.real_lab import KubeObject, RealLab, pod

TLS_ROOT = "/mnt/tls"
SECRET_MODE = 0o440
TEST_LABEL = "test"
"""Tells pods of tests from those of the stack, whose labels they carry."""


def program(name: str, *arguments: str) -> list[str]:
    """Command line of a program."""
    source = Path(__file__).with_name("pod_programs") / f"{name}.py"
    return ["env", f"PYTHONPATH={SITE}", "python3", "-c", source.read_text(), *arguments]


def client_pod(
    namespace: str,
    name: str,
    image: str,
    *,
    app: str,
    node: str,
    secrets: Sequence[str] = (),
    command: Sequence[str] = ("sleep", "infinity"),
) -> KubeObject:
    """A pod that passes for one of `app` and mounts each Secret at `/mnt/tls/<secret>`."""
    made = pod(
        namespace,
        name,
        image,
        command,
        nodeSelector={"kubernetes.io/hostname": node},
        automountServiceAccountToken=False,
        resources={"requests": {"cpu": "10m", "memory": "96Mi"}, "limits": {"memory": "192Mi"}},
        volumeMounts=[{"name": secret, "mountPath": f"{TLS_ROOT}/{secret}", "readOnly": True} for secret in secrets],
        volumes=[{"name": secret, "secret": {"secretName": secret, "defaultMode": SECRET_MODE}} for secret in secrets],
    )
    made["metadata"]["labels"] = {"app": app, TEST_LABEL: name}
    return made


def run_in(lab: RealLab, namespace: str, pod_name: str, name: str, *arguments: str) -> Any:
    """Run a program in a pod of the cluster; returns the JSON it prints."""
    done = lab.try_run("kubectl", "-n", namespace, "exec", pod_name, "--", *program(name, *arguments))
    assert done.code == 0, f"{name} in {pod_name}: {done.err}"
    return json.loads(done.out)


def told_by(lab: RealLab, namespace: str, pod_name: str) -> list[dict[str, Any]]:
    """What a pod whose command is a program has printed so far."""
    lines = lab.kubectl("-n", namespace, "logs", pod_name).splitlines()
    return [json.loads(line) for line in lines if line.startswith("{")]
