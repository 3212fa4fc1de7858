# SPDX-License-Identifier: Apache-2.0
"""Nodes -> the fault message that ClusterD sends to Controllers.

A node that is not Ready is unhealthy as a whole. Device faults are put on a node by annotation, so a
rehearsal can raise and clear them with the cluster's own tools:

    kubectl annotate node n1 simulator.ascend-pd/npu-faults='[{"deviceId":"0","faultCodes":["4C1F8608"],"faultLevel":"UnHealthy"}]'
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from pydantic.alias_generators import to_camel

from controller_runtime.clusterd.proto.fault_pb2 import DeviceFaultInfo, FaultMsgSignal, NodeFaultInfo, SwitchFaultInfo
from controller_runtime.foundation.log import get_logger

FAULTS_ANNOTATION: Final = "simulator.ascend-pd/npu-faults"
UNHEALTHY: Final = "UnHealthy"
SUB_HEALTHY: Final = "SubHealthy"
SIGNAL_FAULT: Final = "fault"
SIGNAL_NORMAL: Final = "normal"

log = get_logger(__name__)


class SwitchFault(BaseModel):
    """A fault of one switch port."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True)

    fault_code: str
    switch_chip_id: str = ""
    switch_port_id: str = ""
    fault_time: str = ""
    fault_level: str = UNHEALTHY


class DeviceFault(BaseModel):
    """A fault of one NPU, as the annotation writes it."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True)

    device_id: str
    device_type: str = "npu"
    fault_codes: tuple[str, ...] = ()
    fault_level: str = UNHEALTHY
    fault_levels: tuple[str, ...] = ()
    switch_fault_infos: tuple[SwitchFault, ...] = ()


_FAULTS = TypeAdapter(tuple[DeviceFault, ...])


def fault_message(job_id: str, nodes: Iterable[Mapping[str, Any]]) -> FaultMsgSignal:
    """Describe all nodes that have a fault; signal `normal` when none has."""
    found = [info for node in sorted(nodes, key=lambda node: str(node["metadata"]["name"])) if (info := _node_fault(node)) is not None]
    return FaultMsgSignal(uuid=uuid.uuid4().hex, jobId=job_id, signalType=SIGNAL_FAULT if found else SIGNAL_NORMAL, nodeFaultInfo=found)


def is_same_fault(one: FaultMsgSignal | None, other: FaultMsgSignal) -> bool:
    """True when both say the same; the message id does not count."""
    return one is not None and one.signalType == other.signalType and list(one.nodeFaultInfo) == list(other.nodeFaultInfo)


def _node_fault(node: Mapping[str, Any]) -> NodeFaultInfo | None:
    devices = _device_faults(node)
    is_ready = any(
        condition.get("type") == "Ready" and condition.get("status") == "True" for condition in node.get("status", {}).get("conditions", ())
    )
    if is_ready and not devices:
        return None
    is_unhealthy = not is_ready or any(device.fault_level == UNHEALTHY for device in devices)
    return NodeFaultInfo(
        nodeName=node["metadata"]["name"],
        nodeIP=_address(node),
        faultLevel=UNHEALTHY if is_unhealthy else SUB_HEALTHY,
        faultDevice=[_device_info(device) for device in devices],
    )


def _device_faults(node: Mapping[str, Any]) -> tuple[DeviceFault, ...]:
    text = (node["metadata"].get("annotations") or {}).get(FAULTS_ANNOTATION)
    if not text:
        return ()
    try:
        return _FAULTS.validate_json(text)
    except ValidationError as err:
        log.warning("fault annotation ignored", node=node["metadata"]["name"], annotation=FAULTS_ANNOTATION, err=str(err))
        return ()


def _device_info(device: DeviceFault) -> DeviceFaultInfo:
    return DeviceFaultInfo(
        deviceId=device.device_id,
        deviceType=device.device_type,
        faultCodes=device.fault_codes,
        faultLevel=device.fault_level,
        faultLevels=device.fault_levels,
        switchFaultInfos=[
            SwitchFaultInfo(
                faultCode=one.fault_code,
                switchChipId=one.switch_chip_id,
                switchPortId=one.switch_port_id,
                faultTime=one.fault_time,
                faultLevel=one.fault_level,
            )
            for one in device.switch_fault_infos
        ],
    )


def _address(node: Mapping[str, Any]) -> str:
    addresses = node.get("status", {}).get("addresses", ())
    return next((str(address["address"]) for address in addresses if address.get("type") == "InternalIP"), "")
