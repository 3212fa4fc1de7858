# SPDX-License-Identifier: Apache-2.0
"""Declare Pulumi resources in this process, without an engine, and look at what was registered.

inventory = declare(lambda: PdCluster("pd", args))
inventory.one("kubernetes:apps/v1:StatefulSet").inputs["metadata"]["name"]

The monitor resolves outputs to believable values; with `preview=True` every computed output is unknown, as in the
first preview of a stack. Transforms, provider checks and ordering belong to the engine and are tested in tests/engine.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pulumi
from pulumi.runtime import mocks, rpc, settings

KUBERNETES = "kubernetes:"
NPUS = "16"
"""What every node that is looked at offers."""


@dataclass(frozen=True)
class Registered:
    """One registration as the engine would get it. `parent`, `dependencies`: URNs. `secret`: inputs that the state encrypts."""

    urn: str
    type: str
    name: str
    parent: str
    inputs: dict[str, Any]
    secret: frozenset[str]
    dependencies: tuple[str, ...]
    provider: str

    @property
    def is_object(self) -> bool:
        """Whether it is an object of the cluster, which a provider is not."""
        return self.type.startswith(KUBERNETES)

    @property
    def metadata(self) -> dict[str, Any]:
        found: dict[str, Any] = self.inputs.get("metadata") or {}
        return found


@dataclass
class Inventory:
    """Everything that one program registered, in order."""

    resources: list[Registered] = field(default_factory=list)

    def of(self, type_: str) -> list[Registered]:
        return [resource for resource in self.resources if resource.type == type_]

    def one(self, type_: str, name: str | None = None) -> Registered:
        """The only resource of a type, or the only one whose object has this name."""
        found = [resource for resource in self.of(type_) if name in (None, resource.metadata.get("name"))]
        assert len(found) == 1, f"{len(found)} resources of type {type_}: {[resource.name for resource in found]}"
        return found[0]

    def names(self) -> list[tuple[str, str]]:
        """(type, name) of everything, sorted."""
        return sorted((resource.type, resource.name) for resource in self.resources)

    def below(self, component: str) -> list[tuple[str, str]]:
        """(type, name) of the children of the only component of this type, sorted."""
        urn = self.one(component).urn
        return sorted((resource.type, resource.name) for resource in self.resources if resource.parent == urn)


def declare(program: Callable[[], object], *, preview: bool = False) -> Inventory:
    """Run a program under mocks until every registration is answered."""
    inventory = Inventory()
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        monitor = _Recorder(_Cluster(computed=not preview), inventory)
        mocks.set_mocks(monitor.mocks, project="ascend-pd", stack="trial", preview=preview, monitor=monitor)

        @mocks.test
        def run() -> None:
            program()

        run()
    finally:
        settings.reset_options()
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()
        asyncio.set_event_loop(None)
    return inventory


@contextmanager
def _own_loop() -> Iterator[None]:
    """The mock monitor wants a loop in its worker thread and would leave one open there."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        yield
    finally:
        asyncio.set_event_loop(None)
        loop.close()


class _Recorder(mocks.MockMonitor):
    def __init__(self, cluster: _Cluster, inventory: Inventory) -> None:
        super().__init__(cluster)
        self._inventory = inventory

    def RegisterResource(self, request: Any) -> Any:  # noqa: N802 - name of the engine's protocol
        with _own_loop():
            answer = super().RegisterResource(request)
        if request.type != "pulumi:pulumi:Stack":
            self._record(answer.urn, request, request.object, request.dependencies)
        return answer

    def ReadResource(self, request: Any) -> Any:  # noqa: N802 - name of the engine's protocol
        with _own_loop():
            answer = super().ReadResource(request)
        self._record(answer.urn, request, request.properties, request.dependencies)
        return answer

    def _record(self, urn: str, request: Any, properties: Any, dependencies: Any) -> None:
        given = rpc.deserialize_properties(properties)
        inputs = {key: _with_integers(rpc.unwrap_rpc_secret(value)) for key, value in given.items()}
        secret = frozenset(key for key, value in given.items() if rpc.is_rpc_secret(value))
        parent = "" if request.parent.split("::")[-2:-1] == ["pulumi:pulumi:Stack"] else request.parent
        made = Registered(urn, request.type, request.name, parent, inputs, secret, tuple(dependencies), request.provider)
        self._inventory.resources.append(made)


def _with_integers(value: Any) -> Any:
    """The wire knows floats only; objects of the cluster know integers."""
    if isinstance(value, dict):
        return {key: _with_integers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_integers(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


class _Cluster(mocks.Mocks):
    """Answers with the inputs, and with what a provider would compute unless a preview is simulated."""

    def __init__(self, *, computed: bool) -> None:
        self._computed = computed

    def new_resource(self, args: mocks.MockResourceArgs) -> tuple[str | None, dict[str, Any]]:
        state = {key: rpc.unwrap_rpc_secret(value) for key, value in args.inputs.items() if value is not None}
        if not self._computed:
            return ("", state)
        return f"{args.name}-id", state | _outputs(args)

    def call(self, _args: mocks.MockCallArgs) -> tuple[dict[str, Any], None]:
        return {}, None


def _outputs(args: mocks.MockResourceArgs) -> dict[str, Any]:
    if args.typ == "tls:index/privateKey:PrivateKey":
        return {"privateKeyPem": pulumi.Output.secret(f"key of {args.name}")}
    if args.typ == "tls:index/certRequest:CertRequest":
        return {"certRequestPem": f"request of {args.name}"}
    if args.typ in ("tls:index/selfSignedCert:SelfSignedCert", "tls:index/locallySignedCert:LocallySignedCert"):
        return {"certPem": f"certificate of {args.name}", "validityEndTime": "2030-01-01T00:00:00Z"}
    if args.typ.endswith(":Crl"):
        text = f"list of {args.inputs['authority']}"
        return {
            "crl_pem": text,
            "crl_der_base64": base64.b64encode(text.encode()).decode(),
            "number": 1,
            "next_update": "2030-01-01T00:00:00+00:00",
            "serials": [],
        }
    if args.typ == "kubernetes:core/v1:Node":
        return {"status": {"allocatable": {"huawei.com/Ascend910": NPUS}}}
    return {}
