# SPDX-License-Identifier: Apache-2.0
"""The pack under the real engine, started as a user starts it: a bare `pulumi preview` with one variable set."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.pulumi_stack import PulumiProject

pytestmark = pytest.mark.engine

POLICIES = Path(__file__).resolve().parents[2] / "policies"
PROGRAM = """
    import os
    import pulumi
    import pulumi_kubernetes as k8s
    from pulumi_kubernetes.apiextensions import CustomResource

    provider = k8s.Provider("files", render_yaml_to_directory=os.environ["TRIAL_RENDERED"])
    pod = {
        "securityContext": {"runAsNonRoot": True, "runAsUser": 10001, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [{
            "name": "main", "image": "registry.example/app:1.2.3", "args": ["--listen=$(POD_IP):8443"],
            "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        }],
    }
    exec(os.environ.get("TRIAL_CHANGE", ""))
    inside = {"metadata": {"name": "app", "namespace": "trial"}}
    files = pulumi.ResourceOptions(provider=provider)
    k8s.apps.v1.Deployment("app", **inside, spec={
        "selector": {"matchLabels": {"app": "app"}}, "template": {"metadata": {"labels": {"app": "app"}}, "spec": pod}}, opts=files)
    client = '{"tls_enable": %s}' % os.environ.get("TRIAL_TLS", "true")
    k8s.core.v1.ConfigMap("config", **inside, data={"http_client_ctl.json": client}, opts=files)
    CustomResource("set", api_version="mindcluster.huawei.com/v1", kind="InferServiceSet", **inside, spec={
        "replicas": 1, "template": {"roles": [{"name": "prefill", "spec": {"template": {"spec": pod}}}]}}, opts=files)
"""


@pytest.fixture
def project(tmp_path: Path) -> PulumiProject:
    return PulumiProject.create(tmp_path, PROGRAM, TRIAL_RENDERED=str(tmp_path / "rendered"), PULUMI_OPTION_POLICY_PACK=str(POLICIES))


def test_a_bare_preview_of_a_good_stack_passes_with_the_pack(project: PulumiProject) -> None:
    outcome = project.run("preview")

    assert outcome.code == 0, outcome.text
    assert "ascend-pd@v0.1.0" in outcome.text
    assert "5 to create" in outcome.text


def test_a_bare_preview_of_a_violating_stack_fails_and_names_the_resource(project: PulumiProject) -> None:
    project.environment["TRIAL_CHANGE"] = "pod['containers'][0]['args'] = ['--listen=0.0.0.0:8443']"

    outcome = project.run("preview")

    assert outcome.code != 0
    assert "S10-no-all-zero-listener  (kubernetes:apps/v1:Deployment: app)" in outcome.text
    assert (
        "Deployment trial/app: spec.template.spec.containers[main].args[0] names 0.0.0.0:8443, which is every address the pod has. "
        "Listen on $(POD_IP) or on a loopback address."
    ) in outcome.text
    assert "S10-no-all-zero-listener  (kubernetes:mindcluster.huawei.com/v1:InferServiceSet: set)" in outcome.text


def test_a_bare_update_of_a_violating_stack_changes_nothing(project: PulumiProject, tmp_path: Path) -> None:
    project.environment["TRIAL_TLS"] = "false"

    outcome = project.run("up", "--yes", "--skip-preview")

    assert outcome.code != 0
    assert "S11-tls-everywhere  (kubernetes:core/v1:ConfigMap: config)" in outcome.text
    assert "configmap" not in " ".join(path.name for path in (tmp_path / "rendered").rglob("*.yaml"))


def test_an_unknown_value_does_not_hide_a_violation_beside_it(project: PulumiProject) -> None:
    project.environment["TRIAL_CHANGE"] = (
        "unknown = k8s.core.v1.Namespace('n', opts=pulumi.ResourceOptions(provider=provider)).id\n"
        "pod['hostPID'] = True\n"
        "pod['containers'][0]['ports'] = [{'containerPort': 80, 'hostPort': unknown.apply(lambda _: 80)}]\n"
    )

    outcome = project.run("preview")

    assert outcome.code != 0
    assert "spec.template.spec.hostPID is true" in outcome.text


def test_a_recorded_exemption_lets_a_stack_pass_until_it_expires(project: PulumiProject, tmp_path: Path) -> None:
    project.environment["TRIAL_CHANGE"] = "pod['hostPID'] = True"
    record = {"kind": "*", "namespace": "trial", "name": "app", "reason": "a debugger needs it", "expires": "2999-12-31"}
    settings = tmp_path / "settings.json"
    settings.write_text(json.dumps({"S24-no-host-namespaces": {"exemptions": [record]}}))
    arguments = ("preview", "--policy-pack", str(POLICIES), "--policy-pack-config", str(settings))
    del project.environment["PULUMI_OPTION_POLICY_PACK"]

    passed = project.run(*arguments)
    settings.write_text(json.dumps({"S24-no-host-namespaces": {"exemptions": [{**record, "expires": "2026-01-31"}]}}))
    failed = project.run(*arguments)

    assert passed.code == 0, passed.text
    assert failed.code != 0
    assert "An exemption (a debugger needs it) expired on 2026-01-31." in failed.text
