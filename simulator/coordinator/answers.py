# SPDX-License-Identifier: Apache-2.0
"""Answers in the format of the question, whole or as server-sent events.

Every answer names the Servers that made it: field `trace` and headers `X-Prefill-Pod`, `X-Decode-Pod`.
"""

from __future__ import annotations

from typing import Any, Final

import orjson

from simulator.completion import count_tokens
from simulator.coordinator.inquiry import Inquiry, Style
from simulator.coordinator.relay import Progress, Trace

STREAM_END: Final = b"data: [DONE]\n\n"
PREFILL_HEADER: Final = "X-Prefill-Pod"
DECODE_HEADER: Final = "X-Decode-Pod"


def trace_headers(trace: Trace | None) -> dict[str, str]:
    """Headers that name both Servers; none before they are known."""
    return {} if trace is None else {PREFILL_HEADER: trace.prefill.pod, DECODE_HEADER: trace.decode.pod}


def whole_answer(request_id: str, model: str, created: int, inquiry: Inquiry, text: str, progress: Progress) -> dict[str, Any]:
    """Build a complete answer. `created` is in seconds since 1970."""
    tail = {"usage": _usage(inquiry, progress), "trace": _trace(progress)}
    head = {"id": request_id, "created": created, "model": model}
    match inquiry.style:
        case Style.CHAT:
            choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": progress.finish}
            return {**head, "object": "chat.completion", "choices": [choice], **tail}
        case Style.COMPLETIONS:
            choice = {"index": 0, "text": text, "finish_reason": progress.finish}
            return {**head, "object": "text_completion", "choices": [choice], **tail}
        case Style.INFER:
            return {"generated_text": text, "finish_reason": progress.finish, **tail}


def word_event(request_id: str, model: str, created: int, inquiry: Inquiry, text: str) -> bytes:
    """Build the event of one word, its leading space included."""
    return _event(_chunk(request_id, model, created, inquiry, text, None))


def last_event(request_id: str, model: str, created: int, inquiry: Inquiry, progress: Progress) -> bytes:
    """Build the event that ends a stream: finish reason, usage, trace."""
    chunk = _chunk(request_id, model, created, inquiry, "", progress.finish)
    return _event({**chunk, "usage": _usage(inquiry, progress), "trace": _trace(progress)})


def error_event(body: dict[str, Any]) -> bytes:
    """Build the event that tells that a stream broke off."""
    return _event(body)


def error_body(code: str, message: str, attempts: list[str] | None = None) -> dict[str, Any]:
    """Build the body of every answer that is not success."""
    error: dict[str, Any] = {"code": code, "message": message}
    return {"error": error | ({"attempts": attempts} if attempts else {})}


def _chunk(request_id: str, model: str, created: int, inquiry: Inquiry, text: str, finish: str | None) -> dict[str, Any]:
    head = {"id": request_id, "created": created, "model": model}
    match inquiry.style:
        case Style.CHAT:
            choice = {"index": 0, "delta": {"content": text}, "finish_reason": finish}
            return {**head, "object": "chat.completion.chunk", "choices": [choice]}
        case Style.COMPLETIONS:
            return {**head, "object": "text_completion", "choices": [{"index": 0, "text": text, "finish_reason": finish}]}
        case Style.INFER:
            return {"token": {"text": text}, "finish_reason": finish}


def _usage(inquiry: Inquiry, progress: Progress) -> dict[str, int]:
    prompt = count_tokens(inquiry.prompt)
    return {"prompt_tokens": prompt, "completion_tokens": progress.words, "total_tokens": prompt + progress.words}


def _trace(progress: Progress) -> dict[str, Any] | None:
    return None if progress.trace is None else progress.trace.model_dump()


def _event(body: dict[str, Any]) -> bytes:
    return b"data: " + orjson.dumps(body) + b"\n\n"
