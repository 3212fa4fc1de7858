# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from lab import status
from lab.state import Lab


def test_a_lab_of_which_nothing_runs_still_tells_its_addresses(lab: Lab) -> None:
    found = status.lab_status(lab)

    assert found["dns"] == {"ip": "10.99.4.1", "port": 26453}
    assert found["api"] == {"ip": "10.99.4.1", "port": 26443}
    assert (found["pod_cidr"], found["node_cidr"]) == ("10.132.0.0/16", "10.99.4.0/24")
    assert [(machine["name"], machine["alive"], machine["ready"]) for machine in found["machines"]] == [
        ("cp", False, False),
        ("node1", False, False),
        ("node2", False, False),
    ]


def test_people_see_what_is_down_or_unplugged(lab: Lab) -> None:
    lines = status.status_lines(status.lab_status(lab))

    assert lines[-1].split() == ["node2", "10.99.4.12", "decode", "DOWN,", "NOT", "READY,", "cable", "pulled,", "8", "NPUs"]


def test_the_memory_of_the_whole_lab_is_summed() -> None:
    machines: list[status.MachineMemory] = [
        {"name": "cp", "anonymous_mib": 300.4, "resident_mib": {"etcd": 40.0, "kube-apiserver": 280.0}},
        {"name": "node1", "anonymous_mib": 50.3, "resident_mib": {}},
    ]

    lines = status.memory_lines(machines)

    assert lines[0].endswith("kube-apiserver 280, etcd 40")
    assert lines[-1] == "anonymous memory of the whole lab: 351 MiB"
