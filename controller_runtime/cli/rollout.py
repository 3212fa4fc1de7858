# SPDX-License-Identifier: Apache-2.0
"""`ascend-pd rollout`: see what a changed InferServiceSet or InferService would do before it is applied."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml
from pydantic import ValidationError

from controller_runtime.api.infer_service import InferService
from controller_runtime.api.infer_service_set import InferServiceSet
from controller_runtime.api.meta import ObjectMeta, SchemaModel
from controller_runtime.api.names import infer_service_name
from controller_runtime.api.problems import from_validation
from controller_runtime.api.rollout import RolloutStatus
from controller_runtime.cli.processes import run_json
from controller_runtime.errors import ConfigError
from controller_runtime.reconcilers.rollout.plan import RolloutPlan, plan_rollout

KINDS = {"InferServiceSet": "inferservicesets.mindcluster.huawei.com", "InferService": "inferservices.mindcluster.huawei.com"}

app = typer.Typer(help=__doc__, no_args_is_help=True)


@app.callback()
def rollout() -> None:
    """Plan the update of an InferServiceSet or InferService."""


class Output(StrEnum):
    """How a plan is printed."""

    table = "table"
    json = "json"


class ObjectPlan(SchemaModel):
    """The plan of one object of a file."""

    kind: str
    namespace: str
    name: str
    services: int
    """InferServices that each follow the plan."""
    plan: RolloutPlan
    note: str = ""
    """What the plan does not know."""


class Plans(SchemaModel):
    """All objects of a file."""

    objects: list[ObjectPlan]

    @property
    def problems(self) -> list[str]:
        """Why the file must not be applied."""
        return [f"{each.kind} {each.name}: {problem}" for each in self.objects for problem in each.plan.problems]


@app.command()
def plan(
    file: Annotated[Path, typer.Option("-f", "--filename", help="The changed InferServiceSets and InferServices, as YAML.")],
    old: Annotated[Path | None, typer.Option("--from", help="What is applied now, as YAML. Default: asked from the cluster.")] = None,
    namespace: Annotated[str, typer.Option("-n", "--namespace", help="Of objects that name none.")] = "default",
    output: Annotated[Output, typer.Option("--output", "-o", help="How to print it.")] = Output.table,
) -> None:
    """Print every step with old and new instances per role, and the least that serves. Exit 1 when prefill or decode would stop."""
    former = _read(old, namespace) if old else None
    plans = Plans(objects=[_plan(obj, former, namespace) for obj in _read(file, namespace).values()])
    typer.echo(plans.model_dump_json(by_alias=True, indent=2) if output is Output.json else "\n\n".join(map(_table, plans.objects)))
    for problem in plans.problems:
        typer.echo(problem, err=True)
    raise typer.Exit(1 if plans.problems else 0)


def _plan(obj: dict[str, Any], former: dict[tuple[str, str, str], dict[str, Any]] | None, namespace: str) -> ObjectPlan:
    kind, at, name = _key(obj, namespace)
    old = _live(kind, at, name) if former is None else former.get((kind, at, name))
    count, new = _service(obj, "-f")
    made = plan_rollout(_service(old, "--from")[1] if old else None, new)
    return ObjectPlan(kind=kind, namespace=at, name=name, services=count, plan=made, note=_note(old, new))


def _note(old: dict[str, Any] | None, new: InferService) -> str:
    """That instances may stand elsewhere than the plan assumes: at the declared number, all of the applied template."""
    applied = RolloutStatus.model_validate(((old or {}).get("status") or {}).get("rollout") or {})
    under_way = f"An update is under way (step {applied.step} of {applied.steps}); the plan starts as if it were complete."
    scaled = [role.name for role in new.spec.roles if role.is_autoscaled]
    autoscaled = f"An autoscaler decides how many instances {', '.join(scaled)} has; the plan takes the number in the file."
    return " ".join([*([] if applied.is_complete else [under_way]), *([autoscaled] if scaled else [])])


def _service(obj: dict[str, Any], where: str) -> tuple[int, InferService]:
    """How many InferServices an object stands for, and one of them."""
    bare = {key: value for key, value in obj.items() if key != "status"}
    try:
        if obj["kind"] == "InferService":
            return 1, InferService.model_validate(bare)
        parent = InferServiceSet.model_validate(bare)
    except ValidationError as err:
        raise ConfigError([f"{where}: {problem.sentence(obj['kind'])}" for problem in from_validation(err)]) from err
    metadata = ObjectMeta(name=infer_service_name(parent.metadata.name, 0), namespace=parent.metadata.namespace)
    return parent.spec.services, InferService(metadata=metadata, spec=parent.spec.template)


def _live(kind: str, namespace: str, name: str) -> dict[str, Any] | None:
    found = run_json(["kubectl", "get", KINDS[kind], "-n", namespace, f"--field-selector=metadata.name={name}", "-o", "json"])
    return next(iter(found["items"]), None)


def _read(path: Path, namespace: str) -> dict[tuple[str, str, str], dict[str, Any]]:
    try:
        documents = list(yaml.safe_load_all(path.read_text()))
    except (OSError, yaml.YAMLError) as err:
        raise ConfigError(f"{path}: cannot be read ({err}). Give a YAML file.") from err
    found = {_key(each, namespace): each for each in documents if isinstance(each, dict) and each.get("kind") in KINDS}
    if not found:
        raise ConfigError(f"{path}: has no InferServiceSet or InferService. Give the file you are about to apply.")
    return found


def _key(obj: dict[str, Any], namespace: str) -> tuple[str, str, str]:
    metadata = obj.get("metadata") or {}
    return str(obj["kind"]), str(metadata.get("namespace") or namespace), str(metadata.get("name"))


def _table(each: ObjectPlan) -> str:
    return "\n".join(_lines(each))


def _lines(each: ObjectPlan) -> Iterator[str]:
    yield f"{each.kind} {each.namespace}/{each.name}" + (f", each of {each.services} services" if each.services > 1 else "")
    if not each.plan.steps:
        yield "  nothing is updated, made or deleted"
    for number, row in enumerate(each.plan.steps, 1):
        counts = "; ".join(f"{name} {count.new} new, {count.old} old, {count.serving} serving" for name, count in row.roles.items())
        yield f"  {number}. {'; '.join(row.changes)}"
        yield f"     {counts} (step {row.step} of {row.steps})"
    if each.note:
        yield f"  {each.note}"
    yield "  least serving: " + ", ".join(f"{name} {count}" for name, count in each.plan.minimum_serving.items())
