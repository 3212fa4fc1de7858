# SPDX-License-Identifier: Apache-2.0
"""Write deploy/infer-operator.yaml, or what it should be: the component RawOperator, rendered by the Pulumi engine.

    python -m deploy.render [--output FILE]

State, settings and passphrase of the run are thrown away; no cluster is asked.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

from tools.places import CHECKOUT, Places

MANIFEST = Path(__file__).resolve().parent / "infer-operator.yaml"
PROGRAM = """
import os
import pulumi
from pulumi_kubernetes import Provider
from components.raw_operator import RawOperator, RawOperatorArgs
from controller_runtime.api.stack import OperatorSpec, Resources

files = Provider("files", render_yaml_to_directory=os.environ["RENDERED"])
args = RawOperatorArgs(OperatorSpec(resources=Resources(cpu="50m", memory="256Mi")), "mindx-dl", "localhost/ascend-pd-runtime:dev")
RawOperator("raw", args, pulumi.ResourceOptions(providers={"kubernetes": files}))
"""
HEADER = """\
# SPDX-License-Identifier: Apache-2.0
# The Infer Operator for a cluster that has none. Made by `make deploy-manifests` from components/raw_operator.py; do not edit.
# The image is the one `make images` loads into the local cluster. Elsewhere put in your own:
#   sed 's|localhost/ascend-pd-runtime:dev|registry.example/ascend-pd-runtime:0.1.0|' infer-operator.yaml | kubectl apply -f -
# The operator may open connections anywhere; narrow its network policy to the addresses of your API server.
"""
ORDER = (
    "Namespace",
    "CustomResourceDefinition",
    "ServiceAccount",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
    "ConfigMap",
    "NetworkPolicy",
    "Deployment",
)
"""Order of creation; a kind that is not here would be a surprise."""


def main() -> int:
    """Parse the command line and render."""
    parser = argparse.ArgumentParser(prog="python -m deploy.render", description=__doc__)
    parser.add_argument("--output", type=Path, default=MANIFEST, help="file to write (default: %(default)s)")
    args = parser.parse_args()
    args.output.write_text(render())
    return 0


def render() -> str:
    """Return the manifest: header, then one document per object in order of creation.

    Raises:
        SystemExit: the engine refused; its own words are in it.
    """
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        (root / "state").mkdir()
        (root / "Pulumi.yaml").write_text(f"name: raw\nruntime: {{name: python, options: {{toolchain: pip, virtualenv: {sys.prefix}}}}}\n")
        (root / "__main__.py").write_text(PROGRAM)
        environment = _environment(root)
        _pulumi(root, environment, "stack", "init", "raw")
        _pulumi(root, environment, "up", "--yes", "--skip-preview", "--suppress-outputs")
        texts = [file.read_text() for file in (root / "rendered").rglob("*.yaml")]
    return HEADER + "---\n" + "---\n".join(sorted(texts, key=_place))


def _place(text: str) -> tuple[int, str]:
    found = yaml.safe_load(text)
    return ORDER.index(found["kind"]), found["metadata"]["name"]


def _environment(root: Path) -> dict[str, str]:
    places = Places.of_user(os.environ)
    kept = {name: value for name, value in os.environ.items() if name != "KUBECONFIG" and not name.startswith("PULUMI_")}
    return kept | {
        "PATH": f"{places.bin}:{os.environ['PATH']}",
        "PYTHONPATH": str(CHECKOUT),
        "RENDERED": str(root / "rendered"),
        "PULUMI_HOME": str(places.pulumi_home),
        "PULUMI_BACKEND_URL": (root / "state").as_uri(),
        "PULUMI_CONFIG_PASSPHRASE": "thrown away with the state",
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
        "PULUMI_NEO": "false",
        "PULUMI_ERROR_OUTPUT_STRING": "true",
    }


def _pulumi(root: Path, environment: dict[str, str], *words: str) -> None:
    command = ["pulumi", *words, "--non-interactive", "--color=never"]
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"pulumi {' '.join(words)}:\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    sys.exit(main())
