# SPDX-License-Identifier: Apache-2.0
"""Whose turn it is, and what a role gets while it waits."""

from __future__ import annotations

from typing import Any

from controller_runtime.api.labels import GANG_SCHEDULE, ROLLOUT_WAITS_FOR
from controller_runtime.kube.kind import Object
from controller_runtime.reconcilers.desired_instance_set import desired_instance_set
from controller_runtime.reconcilers.rollout.hand_over import RoleProgress, progress_of, waits_for
from controller_runtime.reconcilers.rollout.turns import handed_over, service_rollout, set_rollout, turns_of
from tests.support.infer import infer_service, infer_service_set, pod_template, role

COMPLETE = {"observedGeneration": 1, "rollout": {"revision": "v1-a", "newInstances": 2, "step": 2, "steps": 2}}
ROLLING = {
    "observedGeneration": 1,
    "rollout": {"revision": "v1-a", "newInstances": 1, "oldInstances": 1, "step": 0, "steps": 2, "message": "m"},
}


def progress(name: str, *, differs: bool = False, complete: bool = True) -> RoleProgress:
    return RoleProgress(name, exists=True, differs=differs, is_complete=complete, is_rolling=not complete)


def worker(name: str, image: str = "a", replicas: int = 2, **more: Any) -> Object:
    return role(name, replicas, spec={"template": pod_template(None, None, {"name": "infer", "image": image})}, **more)


def live(*roles: Object, status: dict[str, Any] | None = None) -> dict[str, Object]:
    parent = infer_service("s", list(roles))
    made = {each.name: desired_instance_set(parent, each) for each in parent.spec.roles}
    return {
        f"s-{name}": {**each, "metadata": {**each["metadata"], "generation": 1}, "status": (status or {}).get(name, COMPLETE)}
        for name, each in made.items()
    }


def test_the_first_changed_role_goes_and_the_others_wait_for_it() -> None:
    assert waits_for([progress("a"), progress("b", differs=True), progress("c", differs=True), progress("d")]) == {"c": "b"}


def test_a_role_halfway_through_an_earlier_change_rests_while_one_before_it_moves() -> None:
    assert waits_for([progress("a", differs=True), progress("b", complete=False)]) == {"b": "a"}
    assert waits_for([progress("a", complete=False), progress("b", differs=True)]) == {"b": "a"}


def test_a_role_without_an_instance_set_neither_waits_nor_holds_up() -> None:
    new = progress_of("a", None, differs=False)

    assert waits_for([new, progress("b", differs=True)]) == {}


def test_a_status_about_an_earlier_spec_does_not_count_and_one_that_says_nothing_yet_holds_up_nobody() -> None:
    told = {"metadata": {"generation": 1}, "status": COMPLETE}

    assert progress_of("a", told, differs=False).is_complete
    assert not progress_of("a", {**told, "metadata": {"generation": 2}}, differs=False).is_complete
    assert progress_of("a", {"metadata": {"generation": 1}}, differs=False).is_complete
    assert progress_of("a", {**told, "status": ROLLING}, differs=False).is_rolling


def test_a_waiting_role_keeps_its_template_and_gets_its_number_of_instances() -> None:
    parent = infer_service("s", [worker("a", "b"), worker("b", "b", 5, metadata={"labels": {"x": "y"}})])

    turns = turns_of(parent, (), live(worker("a"), worker("b")))

    kept = turns.role(parent.spec.roles[1])
    assert turns.role(parent.spec.roles[0]) is parent.spec.roles[0]
    assert (kept.replicas, kept.spec, kept.metadata.labels) == (5, worker("b")["spec"], {})
    desired = handed_over(desired_instance_set(parent, kept), turns.waiting["b"])
    assert desired["metadata"]["annotations"] == {ROLLOUT_WAITS_FOR: "a"}


def test_instances_labels_and_services_alone_wait_for_nobody_and_gang_does() -> None:
    changed = [worker("a", "b"), worker("b", "a", 5, metadata={"labels": {"x": "y"}}, services=[{"name": "f", "spec": {"ports": []}}])]

    assert turns_of(infer_service("s", changed), (), live(worker("a"), worker("b"))).waiting == {}
    gang = [worker("a", "b"), worker("b", metadata={"labels": {GANG_SCHEDULE: "true"}})]
    assert turns_of(infer_service("s", gang), (), live(worker("a"), worker("b"))).waiting == {"b": "a"}


def test_a_role_that_cannot_run_as_written_holds_up_nobody() -> None:
    parent = infer_service("s", [worker("a", "b"), worker("b", "b")])

    assert turns_of(parent, {"a"}, live(worker("a"), worker("b"))).waiting == {}


def test_the_service_adds_its_roles_up_and_one_that_waits_has_everything_to_do() -> None:
    parent = infer_service("s", [worker("a", "b"), worker("b", "b")])
    children = live(worker("a", "b"), worker("b"), status={"a": ROLLING})

    found = service_rollout(parent, {"a": children["s-a"], "b": children["s-b"]}, turns_of(parent, (), children))

    assert (found.new_instances, found.old_instances, found.step, found.steps) == (1, 3, 0, 4)
    assert found.message == "role a m; role b waits for role a"


def test_a_new_service_counts_as_updated_before_its_roles_say_anything_and_so_does_its_set() -> None:
    parent = infer_service("s", [worker("a"), worker("b")])
    made = infer_service_set("s", [worker("a"), worker("b")], 2)

    found = service_rollout(parent, {"a": None, "b": None}, turns_of(parent, (), {}))

    assert (found.new_instances, found.step, found.steps) == (4, 4, 4)
    of_set = set_rollout(made, [{"metadata": {"name": "s-0"}}, {"metadata": {"name": "s-1"}, "status": {"rollout": ROLLING["rollout"]}}])
    assert (of_set.new_instances, of_set.step, of_set.steps, of_set.message) == (5, 4, 6, "s-1: m")
