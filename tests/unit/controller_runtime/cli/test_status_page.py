# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import datetime as dt
from typing import Any

from controller_runtime.cli.cluster_view import ClusterView, NodeView, PodView, WorkloadView
from controller_runtime.cli.status_page import StackOutputs, problems, render

NOW = dt.datetime(2026, 6, 1, tzinfo=dt.UTC)
LATER = "2027-06-01T00:00:00.123456789Z"
NODE = NodeView(name="node1", address="10.0.0.1", ready=True, npus=0)


def outputs(**changes: Any) -> StackOutputs:
    plain: dict[str, Any] = {
        "endpoint": "https://entry.mindie.svc.cluster.local:1025",
        "namespaces": {"workload": "mindie"},
        "instances": {"prefill": 1, "decode": 1},
        "decision": "1P:1D given.",
        "certificates": {"probe": LATER},
        "revocation_lists": {"pd": LATER},
    }
    return StackOutputs.model_validate(plain | changes)


def pod(name: str, *, app: str = "mindie-server", role: str | None = None, ready: bool = True, finished: bool = False) -> PodView:
    return PodView(namespace="mindie", name=name, app=app, node="node1", ready=ready, finished=finished, restarts=0, role=role)


def view(*pods: PodView, nodes: tuple[NodeView, ...] = (NODE,)) -> ClusterView:
    return ClusterView(nodes=nodes, pods=pods)


SERVING = (pod("p-0", role="prefill"), pod("d-0", role="decode"))


def test_a_serving_stack_has_no_problems() -> None:
    assert problems(outputs(), view(*SERVING, pod("proof", app="pd-proof", ready=False, finished=True)), NOW) == []


def test_nodes_and_pods_that_are_not_ready_are_named() -> None:
    lost = NodeView(name="node2", address="10.0.0.2", ready=False, npus=0)

    found = problems(outputs(), view(*SERVING, pod("x", app="clusterd", ready=False), nodes=(NODE, lost)), NOW)

    assert found == ["node node2 is not Ready", "pod mindie/x is not Ready"]


def test_a_workload_that_is_still_being_updated_is_named_although_its_pods_are_ready() -> None:
    def etcd(updated: int) -> WorkloadView:
        return WorkloadView(namespace="etcd", kind="StatefulSet", name="etcd", replicas=3, updated=updated)

    assert problems(outputs(), view(*SERVING).model_copy(update={"workloads": (etcd(3),)}), NOW) == []
    found = problems(outputs(), view(*SERVING).model_copy(update={"workloads": (etcd(2),)}), NOW)
    assert found == ["StatefulSet etcd/etcd: 2 of 3 pods have the present template"]


def test_of_two_coordinators_one_stands_by_and_is_no_problem_while_the_other_is_ready() -> None:
    master, standby = (pod(name, app="mindie-ms-coordinator", ready=name == "a") for name in "ab")
    lone = pod("b", app="mindie-ms-coordinator", ready=False)

    assert problems(outputs(), view(*SERVING, master, standby), NOW) == []
    assert problems(outputs(), view(*SERVING, lone), NOW) == ["pod mindie/b is not Ready"]


def test_a_role_with_fewer_ready_pods_than_instances_is_named() -> None:
    found = problems(outputs(instances={"prefill": 1, "decode": 2}), view(*SERVING), NOW)

    assert found == ["role decode has 1 Ready pods of at least 2"]


def test_certificates_and_lists_are_named_fourteen_days_before_they_end() -> None:
    soon, not_yet = (NOW + dt.timedelta(days=13, hours=23)).isoformat(), (NOW + dt.timedelta(days=14)).isoformat()

    found = problems(outputs(certificates={"a": soon, "b": not_yet}, revocation_lists={"etcd": soon, "pd": not_yet}), view(*SERVING), NOW)

    assert found == [f"certificate a ends {soon}. Run `pulumi up`.", f"revocation list etcd ends {soon}. Run `pulumi up`."]


def test_the_page_shows_every_part_and_ends_with_what_is_wrong() -> None:
    etcd = (pod("etcd-0", app="etcd"), pod("etcd-1", app="etcd", ready=False))

    page = render(outputs(), view(*SERVING, *etcd), ["pod mindie/etcd-1 is not Ready"], "first line\nsecond line")

    assert "  node1  10.0.0.1  yes    0\n" in page
    assert "ETCD  1 of 2 members Ready" in page
    assert "ROLES  1 prefill, 1 decode. 1P:1D given." in page
    assert "REQUEST\n  first line\n  second line\n" in page
    assert page.endswith("PROBLEMS\n  pod mindie/etcd-1 is not Ready")


def test_columns_stand_under_their_titles() -> None:
    page = render(outputs(), view(pod("a-rather-long-name", role="decode"), pod("b")), [], "")

    title, first, second = page.split("PODS\n")[1].splitlines()[:3]
    assert title.index("node") == first.index("node1") == second.index("node1")
    assert page.endswith("No problems.")


def test_the_name_of_the_certificate_is_that_of_the_endpoint() -> None:
    assert outputs().server_name == "entry.mindie.svc.cluster.local"
