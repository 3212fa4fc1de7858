# SPDX-License-Identifier: Apache-2.0
"""The generator on a small state. That a whole stack previews without a change is shown by the bench itself."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from tests.bench.bare_program import BareProgramError, bare_program, bare_state, count_by_provider

STACK = "urn:pulumi:dev::ascend-pd::"
ROOT = f"{STACK}pulumi:pulumi:Stack::ascend-pd-dev"
COMPONENT = f"{STACK}ascend-pd:index:Pki::pki"
PROVIDER = f"{STACK}pulumi:providers:kubernetes::cluster"
KEY = f"{STACK}ascend-pd:index:Pki$tls:index/privateKey:PrivateKey::key"
SECRET = f"{STACK}ascend-pd:index:Pki$kubernetes:core/v1:Secret::secret"
PEM = "-----BEGIN-----"


def secret(value: Any) -> dict[str, str]:
    return {"4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270", "plaintext": json.dumps(value)}


def resource(urn: str, **more: Any) -> dict[str, Any]:
    kind = urn.split("::")[2].rpartition("$")[2]
    plain: dict[str, Any] = {"urn": urn, "type": kind, "custom": True, "inputs": {}, "outputs": {}, "parent": ROOT}
    return plain | more


def deployment(*more: dict[str, Any], data: Any = None) -> dict[str, Any]:
    data = data or {"tls.key": base64.b64encode(PEM.encode()).decode()}
    resources = [
        resource(
            SECRET,
            parent=COMPONENT,
            provider=f"{PROVIDER}::an-id",
            dependencies=[KEY],
            propertyDependencies={"data": [KEY], "metadata": None},
            inputs={"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "data": secret(data)},
        ),
        resource(ROOT, custom=False, outputs={"endpoint": "https://x"}),
        resource(COMPONENT, custom=False),
        resource(PROVIDER, inputs={"version": "4.25.0", "kubeconfig": "/k", "enableServerSideApply": "true", "clusterIdentifier": "lab"}),
        resource(KEY, parent=COMPONENT, inputs={"algorithm": "ECDSA", "rsaBits": 3072.0}, outputs={"privateKeyPem": secret(PEM)}),
        *more,
    ]
    return {"version": 3, "deployment": {"manifest": {}, "resources": resources}}


def test_a_secret_is_wired_from_the_output_it_came_from_and_not_written() -> None:
    program = bare_program(deployment())

    assert "data={'tls.key': r3.private_key_pem.apply(b64)}" in program
    assert PEM not in program
    assert base64.b64encode(PEM.encode()).decode() not in program


def test_a_secret_of_unknown_origin_stops_the_generator() -> None:
    with pytest.raises(BareProgramError, match="data holds a secret from elsewhere"):
        bare_program(deployment(data={"token": "aHVudGVyMg=="}))


def test_statements_come_after_what_they_need_and_parse() -> None:
    program = bare_program(deployment())

    compile(program, "bare", "exec")
    assert program.index("r3 = PrivateKey(") < program.index("r0 = Secret(")
    assert "r2 = Provider('cluster', enable_server_side_apply=True, cluster_identifier='lab')" in program
    assert "r3 = PrivateKey('key', algorithm='ECDSA', rsa_bits=3072)" in program
    assert "opts=pulumi.ResourceOptions(provider=r2, depends_on=[r3])" in program


def test_components_leave_neither_statement_nor_state() -> None:
    stack = deployment()

    kinds = [moved["type"] for moved in bare_state(stack, "dev")["deployment"]["resources"]]

    assert "ascend-pd:index:Pki" not in kinds
    assert len(kinds) == 4
    assert "Pki" not in bare_program(stack)


def test_state_moves_under_the_names_of_the_bare_program() -> None:
    moved = {item["type"]: item for item in bare_state(deployment(), "dev")["deployment"]["resources"]}

    found = moved["kubernetes:core/v1:Secret"]
    assert found["urn"] == "urn:pulumi:dev::bare::kubernetes:core/v1:Secret::secret"
    assert found["parent"] == "urn:pulumi:dev::bare::pulumi:pulumi:Stack::bare-dev"
    assert found["provider"] == "urn:pulumi:dev::bare::pulumi:providers:kubernetes::cluster::an-id"
    assert found["dependencies"] == ["urn:pulumi:dev::bare::tls:index/privateKey:PrivateKey::key"]
    assert found["propertyDependencies"] == {"data": found["dependencies"], "metadata": []}


def test_custom_resources_are_declared_with_their_group_and_objects_read_by_their_id() -> None:
    group = resource(f"{STACK}kubernetes:example.com/v1:Thing::t", provider=f"{PROVIDER}::x", inputs={"spec": {"n": 1.0}})
    node = resource(f"{STACK}kubernetes:core/v1:Node::n", provider=f"{PROVIDER}::x", external=True, id="node4")

    program = bare_program(deployment(group, node))

    assert "CustomResource('t', api_version='example.com/v1', kind='Thing', spec={'n': 1}, " in program
    assert "Node.get('n', 'node4', " in program
    assert count_by_provider(deployment(group, node)) == {"kubernetes": 2, "tls": 1, "read": 1}


def test_a_resource_of_an_unknown_package_stops_the_generator() -> None:
    with pytest.raises(BareProgramError, match="no statement for a resource of type aws:s3:Bucket"):
        bare_program(deployment(resource(f"{STACK}aws:s3:Bucket::b")))
