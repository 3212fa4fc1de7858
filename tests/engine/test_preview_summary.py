# SPDX-License-Identifier: Apache-2.0
"""The summary of a pull request from what the real engine prints."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller_runtime.cli.preview_summary import PreviewSummary, read_preview, summarise
from tests.support.pulumi_stack import PulumiProject

pytestmark = pytest.mark.engine

POLICIES = Path(__file__).resolve().parents[2] / "policies"
PROGRAM = """
    import os
    import pulumi
    import pulumi_kubernetes as k8s
    from pulumi_kubernetes.apiextensions import CustomResource

    provider = k8s.Provider("files", render_yaml_to_directory=os.environ["TRIAL_RENDERED"])
    decode = int(os.environ.get("TRIAL_DECODE", "1"))

    class Servers(pulumi.ComponentResource):
        def __init__(self):
            super().__init__("trial:index:Servers", "servers", {"instances": {"prefill": 1, "decode": decode}})
            files = pulumi.ResourceOptions(parent=self, provider=provider)
            inside = {"metadata": {"name": "pd", "namespace": "trial"}}
            k8s.core.v1.Secret("key", **inside, data={"token": pulumi.Output.secret(os.environ["TRIAL_TOKEN"])}, opts=files)
            CustomResource("set", api_version="mindcluster.huawei.com/v1", kind="InferServiceSet", **inside, spec={
                "replicas": 1, "template": {"roles": [{"name": "prefill", "replicas": 1}, {"name": "decode", "replicas": decode}]}},
                opts=files)
            if os.environ.get("TRIAL_BAD"):
                k8s.core.v1.ConfigMap("bad", **inside, data={"listen.conf": "address=0.0.0.0:8443"}, opts=files)

    Servers()
"""
TOKEN, NEXT_TOKEN = "Zmlyc3QgdG9rZW4=", "c2Vjb25kIHRva2Vu"


@pytest.fixture
def project(tmp_path: Path) -> PulumiProject:
    return PulumiProject.create(
        tmp_path,
        PROGRAM,
        TRIAL_RENDERED=str(tmp_path / "rendered"),
        TRIAL_TOKEN=TOKEN,
        PULUMI_OPTION_POLICY_PACK=str(POLICIES),
        PULUMI_ENABLE_STREAMING_JSON_PREVIEW="true",
    )


def preview(project: PulumiProject) -> tuple[int, PreviewSummary]:
    outcome = project.run("preview", "--json")
    return outcome.code, read_preview(outcome.text.splitlines(), "trial")


def test_one_more_decode_instance_is_one_property_of_one_object(project: PulumiProject) -> None:
    assert project.run("up", "--yes", "--skip-preview").code == 0
    project.environment["TRIAL_DECODE"] = "2"

    code, found = preview(project)

    assert (code, found.passed, found.packs) == (0, True, ("ascend-pd 0.1.0",))
    assert {(change.operation, change.name, change.properties) for change in found.changes} == {
        ("update", "servers", ("instances.decode",)),
        ("update", "set", ("spec.template.roles[1].replicas",)),
    }


def test_a_changed_secret_shows_its_place_and_neither_value(project: PulumiProject) -> None:
    assert project.run("up", "--yes", "--skip-preview").code == 0
    project.environment["TRIAL_TOKEN"] = NEXT_TOKEN

    code, found = preview(project)

    assert code == 0
    assert [(change.operation, change.properties) for change in found.changes] == [("replace", ("data.token",))]
    shown = summarise(found) + found.model_dump_json()
    assert TOKEN not in shown
    assert NEXT_TOKEN not in shown


def test_a_violation_fails_the_preview_and_stands_in_the_summary(project: PulumiProject) -> None:
    project.environment["TRIAL_BAD"] = "yes"

    code, found = preview(project)

    assert code != 0
    assert not found.passed
    assert [(violation.policy, violation.name) for violation in found.violations] == [("S10-no-all-zero-listener", "bad")]
    assert "ConfigMap trial/pd" in summarise(found)
