# SPDX-License-Identifier: Apache-2.0
"""What simulated Coordinators and Servers say to each other on the data and KV ports.

    Coordinator -> prefill Server  POST /v1/prefill   one JSON reply with a KV reference
    Coordinator -> decode Server   POST /v1/decode    one JSON line for each step, the last one with `finish`
    decode Server -> prefill Server POST /v1/link     keeps a link alive and says whether both ends want it
    decode Server -> prefill Server POST /v1/kv       the KV bytes, once

The real engine's protocol is closed; this one is ours and only spoken inside the simulator.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field

from controller_runtime.api.base import Model
from controller_runtime.api.server_api import NodeId

PREFILL_PATH: Final = "/v1/prefill"
DECODE_PATH: Final = "/v1/decode"
LINK_PATH: Final = "/v1/link"
KV_PATH: Final = "/v1/kv"

MAX_PROMPT_CHARS: Final = 4 * 1024 * 1024

Prompt = Annotated[str, Field(max_length=MAX_PROMPT_CHARS)]
Tokens = Annotated[int, Field(ge=1, le=65536)]


class ServerName(Model):
    """Who did the work: an entry of a trace."""

    pod: str
    ip: str
    id: NodeId


class PrefillRequest(Model):
    """Ask a prefill Server to compute the KV bytes of a prompt for one decode Server."""

    request_id: str
    prompt: Prompt
    decode_id: NodeId


class PrefillReply(Model):
    """Where the KV bytes wait. They never pass through the Coordinator."""

    reference: str
    prompt_tokens: int
    server: ServerName


class DecodeRequest(Model):
    """Ask a decode Server to fetch the KV bytes and produce the words."""

    request_id: str
    prompt: Prompt
    reference: str
    prefill_id: NodeId
    max_tokens: Tokens


class DecodeLine(Model):
    """One line of a decode reply. First `server`, then `word`s, at the end `finish` or `error`."""

    server: ServerName | None = None
    word: str | None = None
    finish: str | None = None
    error: Refusal | None = None


class LinkRequest(Model):
    """A decode Server's knock."""

    decode_id: NodeId
    prefill_id: NodeId


class KvRequest(Model):
    """A decode Server fetches what a reference stands for."""

    decode_id: NodeId
    reference: str


class Reason(StrEnum):
    """Why a Server refuses. The Coordinator tries another pair for all but `bad_request`."""

    BAD_REQUEST = "bad_request"
    WRONG_ROLE = "wrong_role"
    NO_LINK = "no_link"
    UNKNOWN_REFERENCE = "unknown_reference"
    FULL = "full"
    PAUSED = "paused"
    STOPPING = "stopping"
    ENGINE_FAULT = "engine_fault"


class Refusal(Model):
    """Body of every answer that is not success."""

    reason: Reason
    message: str


DecodeLine.model_rebuild()
