# SPDX-License-Identifier: Apache-2.0
"""The three request formats users send, read into one `Inquiry`.

POST /v1/chat/completions   OpenAI chat
POST /v1/completions        OpenAI completions
POST /infer                 MindIE's own
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field

from controller_runtime.api.base import Model, WireModel
from controller_runtime.api.coordinator_api import CHAT_PATH

COMPLETIONS_PATH: Final = "/v1/completions"
INFER_PATH: Final = "/infer"
DEFAULT_MAX_TOKENS: Final = 16

MaxTokens = Annotated[int, Field(ge=1, le=65536)]


class Style(StrEnum):
    """Format of request and answer."""

    CHAT = CHAT_PATH
    COMPLETIONS = COMPLETIONS_PATH
    INFER = INFER_PATH


class Inquiry(Model):
    """What a user wants, whatever the format."""

    style: Style
    prompt: str
    max_tokens: int
    is_stream: bool


class TextPart(WireModel):
    """One piece of a message."""

    text: str = ""


class Message(WireModel):
    """One turn of a chat."""

    role: str
    content: str | tuple[TextPart, ...]

    @property
    def text(self) -> str:
        """Its whole text."""
        return self.content if isinstance(self.content, str) else "".join(part.text for part in self.content)


class ChatBody(WireModel):
    """Body of a chat request."""

    messages: Annotated[tuple[Message, ...], Field(min_length=1)]
    max_tokens: MaxTokens = DEFAULT_MAX_TOKENS
    stream: bool = False


class CompletionsBody(WireModel):
    """Body of a completions request."""

    prompt: Annotated[str, Field(min_length=1)]
    max_tokens: MaxTokens = DEFAULT_MAX_TOKENS
    stream: bool = False


class InferParameters(WireModel):
    """Generation settings of MindIE's own format."""

    max_new_tokens: MaxTokens = DEFAULT_MAX_TOKENS


class InferBody(WireModel):
    """Body of MindIE's own format."""

    inputs: Annotated[str, Field(min_length=1)]
    parameters: InferParameters = InferParameters()
    stream: bool = False


def read_inquiry(style: Style, body: bytes) -> Inquiry:
    """Parse a body. A chat becomes the prompt `role: text`, one line per message.

    Raises:
        pydantic.ValidationError: not JSON, or not this format.
    """
    match style:
        case Style.CHAT:
            chat = ChatBody.model_validate_json(body)
            prompt = "\n".join(f"{message.role}: {message.text}" for message in chat.messages)
            return Inquiry(style=style, prompt=prompt, max_tokens=chat.max_tokens, is_stream=chat.stream)
        case Style.COMPLETIONS:
            plain = CompletionsBody.model_validate_json(body)
            return Inquiry(style=style, prompt=plain.prompt, max_tokens=plain.max_tokens, is_stream=plain.stream)
        case Style.INFER:
            own = InferBody.model_validate_json(body)
            return Inquiry(style=style, prompt=own.inputs, max_tokens=own.parameters.max_new_tokens, is_stream=own.stream)
