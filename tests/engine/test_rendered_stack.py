# SPDX-License-Identifier: Apache-2.0
"""A whole stack rendered by the real engine: its manifests, its state, and what a revocation changes."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from cryptography import x509

from tests.support.declared_stack import CHECKOUT
from tests.support.engine_stack import EngineStack
from tests.support.pulumi_stack import Outcome

pytestmark = [pytest.mark.engine, pytest.mark.timeout(300), pytest.mark.xdist_group("rendered-stack")]

GOLDENS = Path(__file__).parent / "goldens"
PLACES = ("cluster", "mindx-dl", "mindie", "ascend-pd-etcd", "kube-node-lease")
CRL = "pulumi-python:dynamic/ascend-pd:Crl"
REVOKED = "etcd-controller#1"
ETCD_IDENTITIES = ("etcd-server", "etcd-controller", "etcd-coordinator", "etcd-backup", "etcd-root")


class Run(NamedTuple):
    """The stack brought up, previewed again, and brought up with a revoked certificate."""

    manifests: dict[str, str]
    state: dict[str, Any]
    open_state: dict[str, Any]
    again: Outcome
    revoked_state: dict[str, Any]
    """Its secrets open, as in `open_state`."""
    revoked_again: Outcome


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    stack = EngineStack.rendering(tmp_path_factory.mktemp("stack"))
    stack.change({})
    stack.up()
    manifests, state, open_state = stack.manifests(), stack.state(), stack.state("--show-secrets")
    again = stack.preview("--expect-no-changes")
    stack.change({"pki.revoked": [REVOKED]})
    stack.up()
    return Run(manifests, state, open_state, again, stack.state("--show-secrets"), stack.preview("--expect-no-changes"))


def by_place(manifests: dict[str, str]) -> dict[str, str]:
    """One stream of documents per namespace, and one of what belongs to none; definitions have goldens of their own."""
    found: dict[str, list[str]] = {place: [] for place in PLACES}
    for name, text in sorted(manifests.items()):
        if not name.startswith("apiextensions"):
            namespace = yaml.safe_load(text)["metadata"].get("namespace", "cluster")
            found[namespace].append(re.sub(r"\b(pd-proof|etcd-auth)-[0-9a-f]{8}\b", r"\1-HASH", text))
    return {place: "---\n".join(texts) for place, texts in found.items()}


@pytest.mark.parametrize("place", PLACES)
def test_manifests_are_those_that_were_reviewed(run: Run, place: str) -> None:
    rendered = by_place(run.manifests)[place]
    golden = GOLDENS / f"{place}.yaml"
    latest = CHECKOUT / "build" / "goldens" / golden.name
    latest.parent.mkdir(parents=True, exist_ok=True)
    latest.write_text(rendered)

    assert rendered == golden.read_text(), f"compare with {latest}; copy it over {golden} once the difference is wanted"


def test_definitions_are_rendered_with_the_stack(run: Run) -> None:
    kinds = [yaml.safe_load(text)["spec"]["names"]["kind"] for name, text in run.manifests.items() if name.startswith("apiextensions")]

    assert sorted(kinds) == ["InferService", "InferServiceSet", "InstanceSet"]


def test_another_stack_of_the_same_settings_is_rendered_alike(run: Run, tmp_path: Path) -> None:
    other = EngineStack.rendering(tmp_path)
    other.change({})
    other.up()

    assert other.manifests() == run.manifests


def test_a_second_preview_changes_nothing(run: Run) -> None:
    assert run.again.code == 0, run.again.text
    assert run.revoked_again.code == 0, run.revoked_again.text


def test_the_state_holds_no_private_key_in_clear(run: Run) -> None:
    keys = {text for text in strings(run.open_state) if "PRIVATE KEY" in text}
    assert len(keys) >= 23

    for text in strings(run.state):
        assert "PRIVATE KEY" not in text
        assert "PRIVATE KEY" not in decoded(text)


def strings(value: object) -> Iterator[str]:
    """Every string below a value; JSON inside strings is opened, as secrets are exported that way."""
    if isinstance(value, dict):
        for item in value.values():
            yield from strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from strings(item)
    elif isinstance(value, str):
        yield value


def decoded(text: str) -> str:
    try:
        return base64.b64decode(text, validate=True).decode(errors="replace")
    except ValueError:
        return ""


def resources(state: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """(type name) -> resource as the state has it."""
    found = state["deployment"]["resources"]
    return {f"{each['type']} {each['urn'].rpartition('::')[2]}": each for each in found}


def test_a_revocation_changes_the_list_the_secrets_beside_it_and_the_members_and_nothing_else(run: Run) -> None:
    before, after = resources(run.open_state), resources(run.revoked_state)

    added = {name for name in after if name not in before}
    managed = {name for name in before if name.startswith(("kubernetes:", "tls:", CRL))}
    changed = {name for name in managed if before[name].get("inputs") != after[name].get("inputs")}

    assert added == {
        "tls:index/privateKey:PrivateKey pd-pki-etcd-controller-2-key",
        "tls:index/certRequest:CertRequest pd-pki-etcd-controller-2-request",
        "tls:index/locallySignedCert:LocallySignedCert pd-pki-etcd-controller-2-cert",
    }
    assert before.keys() <= after.keys()
    assert changed == {
        f"{CRL} pd-pki-etcd-crl",
        *(f"kubernetes:core/v1:Secret pd-pki-{name}-tls" for name in ETCD_IDENTITIES),
        "kubernetes:apps/v1:StatefulSet pd-etcd-members",
    }


def test_members_restart_because_of_the_lists_number_alone(run: Run) -> None:
    name = "kubernetes:apps/v1:StatefulSet pd-etcd-members"
    before, after = (resources(state)[name]["inputs"]["spec"] for state in (run.state, run.revoked_state))
    annotations = [spec["template"]["metadata"].pop("annotations") for spec in (before, after)]

    assert annotations == [{"ascend-pd.io/crl-numbers": "etcd=1 etcd-peer=1"}, {"ascend-pd.io/crl-numbers": "etcd=2 etcd-peer=1"}]
    assert before == after


def test_the_next_list_has_the_next_number_and_names_the_revoked_certificate(run: Run) -> None:
    certificate = x509.load_pem_x509_certificate(
        resources(run.state)["tls:index/locallySignedCert:LocallySignedCert pd-pki-etcd-controller-1-cert"]["outputs"]["certPem"].encode()
    )
    kept = resources(run.revoked_state)["tls:index/locallySignedCert:LocallySignedCert pd-pki-etcd-controller-1-cert"]
    lists = [resources(state)[f"{CRL} pd-pki-etcd-crl"]["outputs"] for state in (run.state, run.revoked_state)]

    assert x509.load_pem_x509_certificate(kept["outputs"]["certPem"].encode()).serial_number == certificate.serial_number
    assert [int(each["number"]) for each in lists] == [1, 2]
    assert [each["serials"] for each in lists] == [[], [format(certificate.serial_number, "x")]]
    (entry,) = x509.load_der_x509_crl(base64.b64decode(lists[1]["crl_der_base64"]))
    assert entry.serial_number == certificate.serial_number
