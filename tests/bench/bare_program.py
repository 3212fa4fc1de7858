# SPDX-License-Identifier: Apache-2.0
"""The program somebody would write for the same stack without this project's components and models.

Made from the state of a deployed stack: the same resources of the same kinds and providers with the same inputs, one
statement each, typed SDK classes, nested values as plain dictionaries, outputs wired where ours are. The state of the
stack, put under the bare program's names, belongs to it: with both, a preview must find nothing to change, which proves
that the two programs declare the same.
Only the class of the revocation lists is ours: a dynamic resource, not a component, and no SDK has one.
Secrets: plain values are looked at in memory to find out which output they come from; none is written.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

PROJECT = "bare"
Resource = dict[str, Any]
_SECRET_MARK = "4dabf18193072939515e22adb298388d"
_MODULES = {
    "core/v1": "core.v1",
    "apps/v1": "apps.v1",
    "batch/v1": "batch.v1",
    "policy/v1": "policy.v1",
    "networking.k8s.io/v1": "networking.v1",
    "rbac.authorization.k8s.io/v1": "rbac.v1",
    "apiextensions.k8s.io/v1": "apiextensions.v1",
}
_CRL_INPUTS = ("authority", "ca_cert_pem", "ca_key_pem", "revoked_cert_pems", "valid_hours", "renew_before_hours")
_HEAD = """import base64

import pulumi
{imports}
from components.crl import Crl


def b64(text):
    return base64.b64encode(text.encode()).decode()


"""


class BareProgramError(Exception):
    """The stack holds something the generator has no statement for."""


def bare_state(deployment: Mapping[str, Any], stack: str) -> dict[str, Any]:
    """Put the deployment of a stack, as `pulumi stack export` prints it, under the names of the bare program."""
    resources = deployment["deployment"]["resources"]
    names = {resource["urn"]: _bare_urn(resource, stack) for resource in resources}
    root = f"urn:pulumi:{stack}::{PROJECT}::pulumi:pulumi:Stack::{PROJECT}-{stack}"
    moved = [_moved(resource, names, root) for resource in resources if not _is_component(resource)]
    return {**deployment, "deployment": {**deployment["deployment"], "resources": moved}}


def bare_program(deployment: Mapping[str, Any]) -> str:
    """Write the program for a deployment exported with its secrets in plain text.

    Raises:
        BareProgramError: a resource of an unknown kind, or a secret whose source is not among its dependencies.
    """
    resources = [resource for resource in deployment["deployment"]["resources"] if not _is_component(resource)]
    writer = _Writer({resource["urn"]: f"r{number}" for number, resource in enumerate(resources)})
    statements = [statement for resource in _in_order(resources) for statement in writer.statements(resource)]
    return _HEAD.format(imports="\n".join(sorted(writer.imports))) + "\n".join(statements) + "\n"


def count_by_provider(deployment: Mapping[str, Any]) -> dict[str, int]:
    """Count custom resources by package, `read` ones apart."""
    found: dict[str, int] = {}
    for resource in deployment["deployment"]["resources"]:
        if resource["custom"] and not resource["type"].startswith("pulumi:providers:"):
            package = "read" if resource.get("external") else resource["type"].partition(":")[0]
            found[package] = found.get(package, 0) + 1
    return found


def _is_component(resource: Resource) -> bool:
    return not resource["custom"] and resource["type"] != "pulumi:pulumi:Stack"


def _bare_urn(resource: Resource, stack: str) -> str:
    kind = resource["type"]
    name = resource["urn"].rpartition("::")[2]
    if kind == "pulumi:pulumi:Stack":
        name = f"{PROJECT}-{stack}"
    return f"urn:pulumi:{stack}::{PROJECT}::{kind}::{name}"


def _moved(resource: Resource, names: Mapping[str, str], root: str) -> Resource:
    moved = {**resource, "urn": names[resource["urn"]]}
    if "parent" in resource:
        moved["parent"] = root
    if "provider" in resource:
        urn, _, identifier = resource["provider"].rpartition("::")
        moved["provider"] = f"{names[urn]}::{identifier}"
    if "dependencies" in resource:
        moved["dependencies"] = [names[urn] for urn in resource["dependencies"]]
    if "propertyDependencies" in resource:
        moved["propertyDependencies"] = {key: [names[urn] for urn in urns or ()] for key, urns in resource["propertyDependencies"].items()}
    if resource["type"] == "pulumi:providers:pulumi-python":
        # This provider is given the project's whole configuration; the bare project has none.
        for side in ("inputs", "outputs"):
            moved[side] = {key: value for key, value in resource[side].items() if not key.startswith("ascend-pd:")}
    if resource["type"] == "pulumi:pulumi:Stack":
        moved["outputs"] = {}
    return moved


def _in_order(resources: list[Resource]) -> Iterator[Resource]:
    """Yield each resource after those it depends on."""
    waiting, done = {resource["urn"]: resource for resource in resources}, set[str]()
    while waiting:
        ready = [urn for urn, resource in waiting.items() if not (_needs(resource) & waiting.keys())]
        if not ready:
            raise BareProgramError(f"{len(waiting)} resources depend on each other")
        for urn in ready:
            yield waiting.pop(urn)
        done.update(ready)


def _needs(resource: Resource) -> set[str]:
    provider = resource.get("provider", "").rpartition("::")[0]
    return {*resource.get("dependencies", ()), *([provider] if provider else [])}


@dataclass
class _Writer:
    """Turns resources into statements. `variables`: URN -> name of its variable."""

    variables: Mapping[str, str]
    imports: set[str] = field(default_factory=set)
    _seen: dict[str, Resource] = field(default_factory=dict)

    def statements(self, resource: Resource) -> Iterator[str]:
        kind, name = resource["type"], resource["urn"].rpartition("::")[2]
        self._seen[resource["urn"]] = resource
        package, _, rest = kind.partition(":")
        variable = self.variables[resource["urn"]]
        if kind == "pulumi:providers:kubernetes":
            self.imports.add("from pulumi_kubernetes import Provider")
            inputs = {key: value for key, value in resource["inputs"].items() if key not in ("__internal", "kubeconfig", "version")}
            yield f"{variable} = Provider({name!r}, {_keywords({_snake(key): repr(_boolean(value)) for key, value in inputs.items()})})"
        elif package == "kubernetes":
            yield f"{variable} = {self._kubernetes(resource, rest, name)}"
        elif package == "tls":
            class_name = rest.rpartition(":")[2]
            self.imports.add(f"from pulumi_tls import {class_name}")
            inputs = {_snake(key): self._value(_snake_keys(value), resource, key) for key, value in resource["inputs"].items()}
            yield f"{variable} = {class_name}({name!r}, {_keywords(inputs)})"
        elif kind == "pulumi-python:dynamic/ascend-pd:Crl":
            inputs = {key: self._value(resource["inputs"][key], resource, key) for key in _CRL_INPUTS}
            yield f"{variable} = Crl({name!r}, {_keywords(inputs)})"
        elif package != "pulumi":
            raise BareProgramError(f"no statement for a resource of type {kind}")

    def _kubernetes(self, resource: Resource, rest: str, name: str) -> str:
        group, _, class_name = rest.rpartition(":")
        options = [f"provider={self.variables[resource['provider'].rpartition('::')[0]]}"]
        if after := [self.variables[urn] for urn in resource.get("dependencies", ())]:
            options.append(f"depends_on=[{', '.join(after)}]")
        ending = f"opts=pulumi.ResourceOptions({', '.join(options)})"
        if resource.get("external"):
            self.imports.add("from pulumi_kubernetes.core.v1 import Node")
            return f"Node.get({name!r}, {resource['id']!r}, {ending})"
        inputs = {key: value for key, value in _plain(resource["inputs"]).items() if key not in ("apiVersion", "kind")}
        arguments = {_snake(key): self._value(value, resource, key) for key, value in inputs.items()}
        if group in _MODULES:
            self.imports.add(f"from pulumi_kubernetes.{_MODULES[group]} import {class_name}")
        else:
            self.imports.add("from pulumi_kubernetes.apiextensions import CustomResource")
            class_name, arguments = "CustomResource", {"api_version": repr(group), "kind": repr(class_name), **arguments}
        return f"{class_name}({name!r}, {_keywords(arguments)}, {ending})"

    def _value(self, value: Any, resource: Resource, key: str) -> str:
        """Write a value; strings that an output of its dependencies explains become that output."""
        sources = self._sources((resource.get("propertyDependencies") or {}).get(key) or ())
        is_secret = _is_secret(resource["inputs"].get(key))

        def write(part: Any) -> str:
            if isinstance(part, dict):
                return "{" + ", ".join(f"{name!r}: {write(item)}" for name, item in part.items()) + "}"
            if isinstance(part, list):
                return "[" + ", ".join(map(write, part)) + "]"
            if isinstance(part, str) and part in sources:
                return sources[part]
            if is_secret:
                raise BareProgramError(f"{resource['urn']}: {key} holds a secret from elsewhere")
            return repr(int(part)) if isinstance(part, float) and part.is_integer() else repr(part)

        return write(_plain(value))

    def _sources(self, urns: Any) -> dict[str, str]:
        """Map every text that outputs of these resources yield to the expression that yields it."""
        found: dict[str, str] = {}
        lists: dict[str, tuple[int, str]] = {}
        for urn in urns:
            resource, variable = self._seen[urn], self.variables[urn]
            outputs = _plain(resource.get("outputs") or {})
            for key, value in outputs.items():
                if isinstance(value, str) and key.lower().replace("_", "").endswith(("pem", "base64")):
                    expression = f"{variable}.{_snake(key)}"
                    found[value] = expression
                    found[base64.b64encode(value.encode()).decode()] = f"{expression}.apply(b64)"
            if resource["type"].endswith(":Crl"):
                lists[outputs["authority"]] = (int(outputs["number"]), f"{variable}.number")
        if lists:
            text = " ".join(f"{name}={number}" for name, (number, _) in sorted(lists.items()))
            arguments = ", ".join(f"{json.dumps(name)}: {expression}" for name, (_, expression) in sorted(lists.items()))
            found[text] = f"pulumi.Output.all(**{{{arguments}}}).apply(lambda n: ' '.join(f'{{k}}={{int(n[k])}}' for k in sorted(n)))"
        return found


def _is_secret(value: Any) -> bool:
    return isinstance(value, dict) and _SECRET_MARK in value


def _plain(value: Any) -> Any:
    """Open the envelopes of secrets."""
    if _is_secret(value):
        return _plain(json.loads(value["plaintext"]))
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value


def _boolean(value: Any) -> Any:
    return {"true": True, "false": False}.get(value, value) if isinstance(value, str) else value


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])", lambda found: f"_{found[0].lower()}", name)


def _snake_keys(value: Any) -> Any:
    """Nested properties of pulumi-tls are snake case in Python."""
    if isinstance(value, dict) and not _is_secret(value):
        return {_snake(key): _snake_keys(item) for key, item in value.items()}
    return value


def _keywords(arguments: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in arguments.items())
