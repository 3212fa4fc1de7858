# SPDX-License-Identifier: Apache-2.0
"""A real engine in the place of the simulated one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from components.engine import PROBE_SOURCE
from images.recipes import PYTHON_ROOT
from tests.support.declared_stack import ENGINE, IMAGES, declared, pod_templates, trial_stack
from tests.support.pulumi_mocks import Inventory

SET = "kubernetes:mindcluster.huawei.com/v1:InferServiceSet"
DEPLOYMENT = "kubernetes:apps/v1:Deployment"
INSTALLED = "/usr/local/Ascend/mindie/latest/mindie-service"


def with_engine(**engine: object) -> Inventory:
    return declared(trial_stack({**ENGINE, "workload.engine": ENGINE["workload.engine"] | engine}))


def pods(stack: Inventory) -> list[dict[str, Any]]:
    """Pod specs of a prefill Server, a decode Server and a Coordinator."""
    found = [*pod_templates(stack.one(SET)), *pod_templates(stack.one(DEPLOYMENT, "mindie-ms-coordinator"))]
    return [template["spec"] for template in found]


def environment(container: dict[str, Any]) -> dict[str, str]:
    return {each["name"]: each["value"] for each in container["env"] if "value" in each}


def test_servers_and_coordinator_run_the_engines_image_and_nothing_simulated_is_left() -> None:
    stack = with_engine(node_manager_command=["bin/node_manager"])
    used = {container["image"] for spec in pods(stack) for container in spec["containers"]}

    assert used == {"registry.example/mindie:2.1"}
    assert IMAGES["simulator"] not in str([resource.inputs for resource in stack.resources])
    assert stack.of("ascend-pd:index:Clusterd") == []


def test_commands_are_below_the_install_path_unless_absolute() -> None:
    stack = with_engine(server_command=["/opt/site/start", "--fast"], install_path="/opt/mindie")
    prefill, _, coordinator = (spec["containers"][0] for spec in pods(stack))

    assert prefill["command"] == ["/opt/site/start", "--fast"]
    assert coordinator["command"] == ["/opt/mindie/bin/ms_coordinator", "$(POD_IP)", "$(POD_IP)"]
    assert {prefill["workingDir"], coordinator["workingDir"]} == {"/opt/mindie"}


@pytest.mark.parametrize("command, expected", [([], ["server"]), (["bin/node_manager"], ["server", "node-manager"])])
def test_a_node_manager_runs_beside_the_server_only_when_it_has_a_command(command: list[str], expected: list[str]) -> None:
    prefill, _, _ = pods(with_engine(node_manager_command=command))

    assert [container["name"] for container in prefill["containers"]] == expected


def test_the_environment_is_the_manuals_and_the_sites_wins() -> None:
    prefill, _, _ = pods(with_engine(environment={"MINDIE_LOG_TO_FILE": "1", "HCCL_EXEC_TIMEOUT": "60"}))
    found = environment(prefill["containers"][0])

    assert (found["MIES_INSTALL_PATH"], found["HSECEASY_PATH"]) == (INSTALLED, f"{INSTALLED}/lib")
    assert found["LD_LIBRARY_PATH"].split(":")[0] == f"{INSTALLED}/lib"
    assert found["MIES_CONTAINER_IP"] == "$(POD_IP)"
    assert (found["MINDIE_LOG_TO_FILE"], found["HCCL_EXEC_TIMEOUT"]) == ("1", "60")
    assert not [name for name in found if name.startswith("SIM_")]


def test_variables_that_others_refer_to_stand_before_them() -> None:
    prefill, _, _ = pods(with_engine())
    names = [each["name"] for each in prefill["containers"][0]["env"]]

    assert names.index("POD_IP") < names.index("MIES_CONTAINER_IP")


def test_settings_weights_and_shared_memory_are_where_the_engine_looks() -> None:
    prefill, _, _ = pods(with_engine(weights_claim="weights", shared_memory="8Gi"))
    sources = {volume.pop("name"): volume for volume in (dict(each) for each in prefill["volumes"])}
    mounts = {mount["mountPath"]: mount for mount in prefill["containers"][0]["volumeMounts"]}

    assert sources[mounts[f"{INSTALLED}/conf"]["name"]]["configMap"]["name"] == "mindie-settings"
    assert sources[mounts["/mnt/weights"]["name"]] == {"persistentVolumeClaim": {"claimName": "weights", "readOnly": True}}
    assert sources[mounts["/dev/shm"]["name"]] == {"emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}}
    assert mounts["/mnt/weights"]["readOnly"] is True


def test_the_probe_comes_from_the_runtime_image_before_the_engine_starts() -> None:
    for spec in pods(with_engine()):
        (installer,) = spec["initContainers"]
        server = spec["containers"][0]
        (written,) = installer["volumeMounts"]
        read = {mount["mountPath"]: mount for mount in server["volumeMounts"]}[written["mountPath"]]

        assert installer["image"] == IMAGES["runtime"]
        assert installer["command"] == ["cp", PROBE_SOURCE, f"{written['mountPath']}/probe.py"]
        assert (written["name"], written.get("readOnly", False), read["readOnly"]) == (read["name"], False, True)
        for kind in ("startup", "readiness", "liveness"):
            assert server[f"{kind}Probe"]["exec"]["command"][:2] == ["python3", "/opt/probe/probe.py"]


def test_the_probes_file_is_where_the_runtime_image_has_it() -> None:
    inside = Path(PROBE_SOURCE).relative_to(f"{PYTHON_ROOT}/lib")

    assert (Path(__file__).resolve().parents[3] / inside).is_file()


def test_the_proof_expects_no_trace_of_a_real_engine(dev: Inventory) -> None:
    def arguments(stack: Inventory) -> list[str]:
        (job,) = [each for each in stack.of("kubernetes:batch/v1:Job") if each.metadata["name"].startswith("pd-proof")]
        (template,) = pod_templates(job)
        found: list[str] = template["spec"]["containers"][0]["args"]
        return found

    assert "--expect-trace" in arguments(dev)
    assert "--expect-trace" not in arguments(with_engine())
