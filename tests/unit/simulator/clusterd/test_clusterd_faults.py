# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from typing import Any

import pytest

from simulator.clusterd.faults import FAULTS_ANNOTATION, fault_message, is_same_fault

SWITCH = {"faultCode": "[0x08520003,na,L2,na]", "switchChipId": "1", "switchPortId": "2", "faultTime": "3"}


def node(name: str, *, ready: str = "True", faults: object = None) -> dict[str, Any]:
    text = faults if isinstance(faults, str) else json.dumps(faults)
    return {
        "metadata": {"name": name, "annotations": {FAULTS_ANNOTATION: text} if faults else {}},
        "status": {
            "conditions": [{"type": "MemoryPressure", "status": "False"}, {"type": "Ready", "status": ready}],
            "addresses": [{"type": "Hostname", "address": name}, {"type": "InternalIP", "address": f"10.0.0.{name[1:]}"}],
        },
    }


def test_healthy_nodes_are_a_normal_signal() -> None:
    message = fault_message("job", [node("n1"), node("n2")])

    assert (message.jobId, message.signalType, len(message.nodeFaultInfo)) == ("job", "normal", 0)


@pytest.mark.parametrize("ready", ["False", "Unknown"])
def test_a_node_that_is_not_ready_is_unhealthy_as_a_whole(ready: str) -> None:
    message = fault_message("job", [node("n2"), node("n1", ready=ready)])

    assert message.signalType == "fault"
    assert [(info.nodeName, info.nodeIP, info.faultLevel, len(info.faultDevice)) for info in message.nodeFaultInfo] == [
        ("n1", "10.0.0.1", "UnHealthy", 0)
    ]


def test_device_faults_come_from_the_annotation() -> None:
    fault = {"deviceId": "3", "faultCodes": ["4C1F8608"], "faultLevels": ["RestartNPU"], "switchFaultInfos": [SWITCH]}

    message = fault_message("job", [node("n1", faults=[fault])])

    device = message.nodeFaultInfo[0].faultDevice[0]
    assert message.nodeFaultInfo[0].faultLevel == "UnHealthy"
    assert (device.deviceId, list(device.faultCodes), list(device.faultLevels)) == ("3", ["4C1F8608"], ["RestartNPU"])
    assert (device.switchFaultInfos[0].faultCode, device.switchFaultInfos[0].switchPortId) == ("[0x08520003,na,L2,na]", "2")


def test_a_node_with_only_slight_device_faults_is_sub_healthy() -> None:
    message = fault_message("job", [node("n1", faults=[{"deviceId": "0", "faultLevel": "SubHealthy"}])])

    assert message.nodeFaultInfo[0].faultLevel == "SubHealthy"


@pytest.mark.parametrize("broken", ["{", '[{"noSuchKey": 1}]', '"text"'])
def test_an_annotation_that_is_no_fault_list_is_ignored(broken: str) -> None:
    assert fault_message("job", [node("n1", faults=broken)]).signalType == "normal"


def test_the_same_faults_are_recognised_although_each_message_has_its_own_id() -> None:
    first, second = (fault_message("job", [node("n1", ready="False")]) for _ in range(2))

    assert first.uuid != second.uuid
    assert is_same_fault(first, second)
    assert not is_same_fault(first, fault_message("job", [node("n1")]))
    assert not is_same_fault(None, first)
