# SPDX-License-Identifier: Apache-2.0
"""A lab of real nodes for tests: the command line as a process, and objects that answer questions in pods."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parents[2]
KubeObject = dict[str, Any]


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str


@dataclass(frozen=True)
class RealLab:
    """A lab by name. Every call is one `python -m lab` process, as users run it."""

    name: str
    number: int | None = None

    def try_run(self, *words: str, stdin: str | None = None, env: dict[str, str] | None = None) -> Done:
        """Run a command of the lab, whatever its exit code."""
        number = [] if self.number is None else ["--number", str(self.number)]
        command = [sys.executable, "-m", "lab", "--name", self.name, *number, *words]
        environment = {**os.environ, **(env or {})}
        done = subprocess.run(command, cwd=CHECKOUT, input=stdin, capture_output=True, text=True, env=environment, timeout=600, check=False)
        return Done(done.returncode, done.stdout, done.stderr)

    def run(self, *words: str, stdin: str | None = None) -> str:
        """Run a command of the lab that must succeed; returns its output."""
        done = self.try_run(*words, stdin=stdin)
        assert done.code == 0, f"{' '.join(words)}: {done.code}\n{done.out}{done.err}"
        return done.out

    def kubectl(self, *words: str, stdin: str | None = None) -> str:
        """Run kubectl as administrator."""
        return self.run("kubectl", *words, stdin=stdin)

    def get(self, *words: str) -> KubeObject:
        """`kubectl get ... -o json`."""
        answer: KubeObject = json.loads(self.kubectl("get", *words, "-o", "json"))
        return answer

    def apply(self, *objects: KubeObject) -> None:
        """Apply objects."""
        self.kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))

    def status(self) -> KubeObject:
        """`status --json`."""
        answer: KubeObject = json.loads(self.run("status", "--json"))
        return answer

    def is_ready(self, node: str) -> bool:
        """What the API server says of the node."""
        conditions = self.get("node", node)["status"]["conditions"]
        return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)

    def wait_pod(self, namespace: str, name: str, state: str = "condition=Ready") -> None:
        """Wait for a pod's condition or `jsonpath=...` state."""
        self.kubectl("-n", namespace, "wait", f"--for={state}", f"pod/{name}", "--timeout=180s")

    def python(self, namespace: str, pod: str, code: str) -> Done:
        """Run Python in a pod."""
        return self.try_run("kubectl", "-n", namespace, "exec", pod, "--", "python3", "-c", code)


def until(what: str, condition: Callable[[], bool], timeout_s: float = 120) -> float:
    """Ask until it holds, at most `timeout_s`; returns the seconds it took."""
    start = time.monotonic()
    while not condition():
        assert time.monotonic() - start < timeout_s, f"not within {timeout_s:.0f} s: {what}"
    return time.monotonic() - start


def images() -> dict[str, dict[str, str]]:
    """The project's images as `make images` recorded them: name -> reference, archive."""
    record = CHECKOUT / "build" / "images.json"
    assert record.exists(), f"{record} is missing. Run `make images`."
    found: dict[str, dict[str, str]] = json.loads(record.read_text())
    return found


def pod(namespace: str, name: str, image: str, command: Sequence[str] = ("sleep", "infinity"), **spec: Any) -> KubeObject:
    """A restricted pod with one container `main`; `resources`, `volumeMounts`, `env` go into the container."""
    container: KubeObject = {
        "name": "main",
        "image": image,
        "imagePullPolicy": "Never",
        "command": list(command),
        "securityContext": {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}},
    }
    container |= {key: spec.pop(key) for key in ("resources", "volumeMounts", "env") if key in spec}
    security = {"runAsNonRoot": True, "runAsUser": 10001, "fsGroup": 10001, "seccompProfile": {"type": "RuntimeDefault"}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": name}},
        "spec": {"terminationGracePeriodSeconds": 1, "securityContext": security, "containers": [container], **spec},
    }


WEB_SERVER = (
    "import http.server, os\n"
    "class Handler(http.server.BaseHTTPRequestHandler):\n"
    "    def do_GET(self):\n"
    "        self.send_response(200); self.end_headers(); self.wfile.write(os.environ['HOSTNAME'].encode())\n"
    "http.server.ThreadingHTTPServer((os.environ['POD_IP'], 8080), Handler).serve_forever()\n"
)


def web_server(namespace: str, name: str, image: str, node: str) -> list[KubeObject]:
    """A web server on a node and its Service on port 80."""
    environment = [{"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]
    server = pod(namespace, name, image, ["python3", "-c", WEB_SERVER], env=environment, nodeName=node)
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"selector": {"app": name}, "ports": [{"port": 80, "targetPort": 8080}]},
    }
    return [server, service]


def fetch(host: str) -> str:
    """Python that prints what a web server says."""
    return f"import urllib.request as u; print(u.urlopen('http://{host}/', timeout=2).read().decode())"
