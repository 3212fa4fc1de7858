# SPDX-License-Identifier: Apache-2.0
"""Alarm records, as they travel between Coordinator, node manager, Controller and CCAE.

A message is a JSON array of records.
Seed: controller manual, alarm interfaces; catalogue and ranges as the reference controller has them.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from controller_runtime.api.base import WireModel

NonEmpty = Annotated[str, Field(strict=True, min_length=1, max_length=4096)]
Millis = Annotated[int, Field(strict=True, ge=0)]


class AlarmId(StrEnum):
    """Catalogue of alarms and events."""

    CONTROLLER_PROMOTED = "0xFC001000"
    SERVICE_DEGRADED = "0xFC001001"
    INSTANCE_EXCEPTION = "0xFC001002"
    SERVER_EXCEPTION = "0xFC001003"
    COORDINATOR_EXCEPTION = "0xFC001004"
    COORDINATOR_CONGESTION = "0xFC001005"
    CLUSTER_CONNECTION = "0xFC001006"
    COORDINATOR_CONNECTION = "0xFC001007"
    ENGINE_FAULT = "0xFC001008"


class Alarm(WireModel):
    """One record. Times are milliseconds since the epoch."""

    category: Annotated[int, Field(strict=True, ge=1, le=7)]
    cleared: Annotated[int, Field(strict=True, ge=0, le=1)]
    clear_category: Annotated[int, Field(strict=True, ge=1, le=2, alias="clearCategory")]
    occur_utc: Annotated[Millis, Field(alias="occurUtc")]
    occur_time: Annotated[Millis, Field(alias="occurTime")]
    native_me_dn: Annotated[str, Field(alias="nativeMeDn")] = ""
    origin_system: Annotated[NonEmpty, Field(alias="originSystem")] = "MindIE"
    origin_system_name: Annotated[NonEmpty, Field(alias="originSystemName")] = "MindIE"
    origin_system_type: Annotated[NonEmpty, Field(alias="originSystemType")] = "MindIE"
    location: NonEmpty
    moi: NonEmpty
    event_type: Annotated[int, Field(strict=True, ge=1, le=21, alias="eventType")]
    alarm_id: Annotated[NonEmpty, Field(alias="alarmId")]
    alarm_name: Annotated[NonEmpty, Field(alias="alarmName")]
    severity: Annotated[int, Field(strict=True, ge=1, le=4)]
    probable_cause: Annotated[NonEmpty, Field(alias="probableCause")]
    reason_id: Annotated[int, Field(strict=True, alias="reasonId")]
    service_affected_type: Annotated[int, Field(strict=True, ge=0, le=1, alias="serviceAffectedType")]
    additional_information: Annotated[NonEmpty, Field(alias="additionalInformation")]
    match_key: Annotated[str, Field(alias="matchKey")] = ""
