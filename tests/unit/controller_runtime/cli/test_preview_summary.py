# SPDX-License-Identifier: Apache-2.0
"""Engine events as the command line of 3.274 prints them, shortened."""

from __future__ import annotations

import json
from typing import Any

import pytest

from controller_runtime.cli.preview_summary import PreviewSummary, read_preview, summarise
from controller_runtime.errors import ConfigError

URN = "urn:pulumi:dev::ascend-pd::"
SET = f"{URN}ascend-pd:index:PdCluster$ascend-pd:index:InferServiceSet$kubernetes:mindcluster.huawei.com/v1:InferServiceSet::pd-servers-set"
PASSED = {"summaryEvent": {"result": "succeeded", "PolicyPacks": {"ascend-pd|local|/somewhere": "0.1.0"}}}
FAILED = {"summaryEvent": {"result": "failed", "PolicyPacks": {}}}


def step(op: str, urn: str = SET, **more: Any) -> dict[str, Any]:
    return {"resourcePreEvent": {"metadata": {"op": op, "urn": urn, **more}}}


def message(severity: str, text: str) -> dict[str, Any]:
    return {"diagnosticEvent": {"severity": severity, "message": text}}


def read(*events: dict[str, Any]) -> PreviewSummary:
    return read_preview([json.dumps({"sequence": n, "timestamp": 1, **event}) + "\n" for n, event in enumerate(events)], "dev")


def test_a_changed_object_is_named_with_its_property_paths_and_without_values() -> None:
    event = step(
        "update",
        old={"inputs": {"spec": {"password": "hunter2"}}},
        new={"inputs": {"spec": {"password": "hunter3"}}},
        detailedDiff={"spec.template.roles[1].replicas": {"diffKind": "update"}, "spec.password": {"diffKind": "update"}},
    )

    found = read(event, PASSED)

    (change,) = found.changes
    assert (change.operation, change.name) == ("update", "pd-servers-set")
    assert change.kind == "kubernetes:mindcluster.huawei.com/v1:InferServiceSet"
    assert change.properties == ("spec.password", "spec.template.roles[1].replicas")
    assert "hunter" not in summarise(found) + found.model_dump_json()


def test_a_component_of_which_the_engine_gives_no_details_shows_the_inputs_that_differ() -> None:
    old = {"inputs": {"instances": {"prefill": 1, "decode": 1}, "name": "pd", "gone": True}}
    new = {"inputs": {"instances": {"prefill": 1, "decode": 2}, "name": "pd"}}

    found = read(step("update", f"{URN}ascend-pd:index:PdCluster::pd", old=old, new=new, detailedDiff=None), PASSED)

    assert found.changes[0].properties == ("gone", "instances.decode")


def test_objects_that_come_or_go_list_no_properties() -> None:
    found = read(step("create", old=None, new={"inputs": {"a": 1}}), step("delete", old={"inputs": {"a": 1}}, new=None), PASSED)

    assert [change.properties for change in found.changes] == [(), ()]
    assert summarise(found).startswith("### Preview of `dev`: 1 to create, 1 to delete\n")


def test_a_replacement_is_one_change() -> None:
    found = read(step("create-replacement"), step("replace", detailedDiff={"spec": {}}), step("delete-replaced"), PASSED)

    assert [(change.operation, change.properties) for change in found.changes] == [("replace", ("spec",))]
    assert found.unchanged == 0


def test_objects_that_stay_are_counted_only() -> None:
    found = read(step("same"), step("read"), PASSED)

    assert (found.changes, found.unchanged, found.passed) == ((), 2, True)
    assert summarise(found) == "### Preview of `dev`: no changes\n\n2 unchanged. Judged by ascend-pd 0.1.0: 0 violations.\n"


def test_a_violation_is_shown_with_its_finding_and_its_object() -> None:
    policy = {
        "policyEvent": {
            "resourceUrn": f"{URN}kubernetes:apps/v1:Deployment::app",
            "policyName": "S10-no-all-zero-listener",
            "enforcementLevel": "mandatory",
            "message": "S10 No listener on all addresses. A reason.\nDeployment trial/app: args[0] names 0.0.0.0:80 | all.\n",
        }
    }

    found = read(step("same"), policy, FAILED)

    assert not found.passed
    assert "| S10-no-all-zero-listener | mandatory | `kubernetes:apps/v1:Deployment` | `app` |" in summarise(found)
    assert "Deployment trial/app: args[0] names 0.0.0.0:80 \\| all. |" in summarise(found)
    assert "A reason" not in summarise(found)


def test_a_failed_preview_is_not_called_one_without_changes() -> None:
    found = read(message("info#err", "Traceback"), message("debug", "x"), message("error", "time_scale is -3\n"), FAILED)

    page = summarise(found)

    assert page.startswith("### Preview of `dev`: failed\n")
    assert found.diagnostics == ("time_scale is -3",)
    assert "> time_scale is -3" in page
    assert "No policy pack ran." in page


@pytest.mark.parametrize("events", [(), (step("same"),)])
def test_a_preview_that_ended_early_did_not_pass(events: tuple[dict[str, Any], ...]) -> None:
    found = read(*events)

    assert not found.passed
    assert "ended early" in summarise(found)


@pytest.mark.parametrize("text", ["Previewing update (dev):", "[1]", '{"sequence": 1}'])
def test_other_output_is_refused_with_the_way_out(text: str) -> None:
    with pytest.raises(ConfigError, match=r"line 2: no engine event. Set PULUMI_ENABLE_STREAMING_JSON_PREVIEW=true"):
        read_preview(["\n", text], "dev")
