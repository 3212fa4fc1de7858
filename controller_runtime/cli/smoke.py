# SPDX-License-Identifier: Apache-2.0
"""`smoke`: proves that a stack answers, by sending one prompt as a user would.

Passed means: the Coordinator showed a certificate of our authority with the name that was dialled, the
answer is finished and not empty, and, with `--expect-trace`, it names one prefill and one decode pod.
Progress goes to standard error; a summary and, as the last line, one JSON object go to standard output.
Exit 0 passed, 1 not passed, 78 bad input.
"""

from __future__ import annotations

import json
import ssl
import sys
import time
from pathlib import Path
from typing import Annotated, Final

import httpx
import typer
from pydantic import ValidationError

from controller_runtime.api.base import WireModel
from controller_runtime.api.coordinator_api import CHAT_PATH
from controller_runtime.errors import ConfigError, TransportError
from controller_runtime.foundation.tls import TlsFiles, TlsIdentity

PAUSE_S: Final = 2.0
REPEAT_PROGRESS_S: Final = 15.0
BODY_SHOWN_CHARS: Final = 300
DEFAULT_PROMPT: Final = "Say in one sentence what a prefill server does."
EXIT_BAD_INPUT: Final = ConfigError.exit_code


class TracedServer(WireModel):
    """A Server named in an answer."""

    pod: str
    ip: str = ""
    id: int = 0


class Trace(WireModel):
    """Who prefilled and who decoded."""

    prefill: TracedServer
    decode: TracedServer


class Message(WireModel):
    """Text of an answer."""

    content: str


class Choice(WireModel):
    """One completion."""

    message: Message
    finish_reason: str | None = None


class Answer(WireModel):
    """The parts of a chat completion that count."""

    choices: tuple[Choice, ...]
    trace: Trace | None = None

    @property
    def text(self) -> str:
        """Text of the first completion."""
        return self.choices[0].message.content if self.choices else ""


class Verdict(WireModel):
    """Outcome of a run, printed as the last line. Times in seconds; `latency_s` is of the last attempt."""

    passed: bool
    endpoint: str
    attempts: int
    elapsed_s: float
    latency_s: float
    reason: str = ""
    text: str = ""
    finish_reason: str | None = None
    trace: Trace | None = None


def read_answer(status: int, body: bytes, *, expect_trace: bool) -> Answer:
    """Judge one HTTP answer.

    Raises:
        TransportError: another status than 200, no chat completion, empty or unfinished text, or a trace that is
            expected and missing or names one pod for both halves.
    """
    if status != 200:
        raise TransportError(f"status {status}: {body[:BODY_SHOWN_CHARS].decode(errors='replace')}")
    try:
        answer = Answer.model_validate_json(body)
    except ValidationError as err:
        raise TransportError(f"the answer is no chat completion ({err.error_count()} problems). Check what listens there.") from err
    if not answer.text.strip():
        raise TransportError("the answer has no text. Check the decode Server.")
    if not answer.choices[0].finish_reason:
        raise TransportError("the answer is not finished. Check the decode Server.")
    if expect_trace and answer.trace is None:
        raise TransportError("the answer names no Servers. Check that the simulated Coordinator answers.")
    if expect_trace and answer.trace is not None:
        prefill, decode = answer.trace.prefill.pod, answer.trace.decode.pod
        if not prefill or not decode or prefill == decode:
            raise TransportError(f"prefill by {prefill or 'nobody'}, decode by {decode or 'nobody'}: two different pods are expected.")
    return answer


class Prober:
    """Sends one prompt until it is answered or the time is over."""

    def __init__(self, endpoint: str, tls_dir: Path, prompt: str, timeout_s: float, server_name: str | None, *, expect_trace: bool) -> None:
        self._url = endpoint.rstrip("/") + CHAT_PATH
        self._endpoint = endpoint
        self._tls_dir = tls_dir
        self._body = {"messages": [{"role": "user", "content": prompt}], "max_tokens": 16}
        self._timeout_s = timeout_s
        self._extensions = {"sni_hostname": server_name} if server_name else {}
        self._expect_trace = expect_trace
        self._told: tuple[str, float] = ("", 0.0)

    def run(self, wait_s: float) -> Verdict:
        """Try once, then again every `PAUSE_S` until `wait_s` after the start."""
        started = time.monotonic()
        attempts = 0
        while True:
            attempts += 1
            sent = time.monotonic()
            answer: Answer | None = None
            reason = ""
            try:
                answer = self._ask()
            except TransportError as err:
                reason = str(err)
            now = time.monotonic()
            if answer is None and now - started + PAUSE_S < wait_s:
                self._tell(reason, now - started, wait_s)
                time.sleep(PAUSE_S)
                continue
            return Verdict(
                passed=answer is not None,
                endpoint=self._endpoint,
                attempts=attempts,
                elapsed_s=round(now - started, 3),
                latency_s=round(now - sent, 3),
                reason=reason,
                text=answer.text if answer else "",
                finish_reason=answer.choices[0].finish_reason if answer else None,
                trace=answer.trace if answer else None,
            )

    def _ask(self) -> Answer:
        try:
            with httpx.Client(verify=self._context(), timeout=self._timeout_s, trust_env=False) as client:
                reply = client.post(self._url, json=self._body, extensions=self._extensions)
        except (httpx.HTTPError, OSError) as err:
            raise TransportError(f"{self._url}: {str(err) or type(err).__name__}") from err
        return read_answer(reply.status_code, reply.content, expect_trace=self._expect_trace)

    def _context(self) -> ssl.SSLContext:
        """Read the files anew for each attempt: a renewed Secret may arrive while we wait."""
        return TlsIdentity(TlsFiles.in_directory(self._tls_dir)).client_context(check_hostname=True)

    def _tell(self, reason: str, elapsed_s: float, wait_s: float) -> None:
        """Print progress when the reason changes, and now and then."""
        last_reason, last_at = self._told
        if reason == last_reason and elapsed_s - last_at < REPEAT_PROGRESS_S:
            return
        self._told = (reason, elapsed_s)
        print(f"smoke: not yet ({elapsed_s:.0f} of {wait_s:.0f} s): {reason}", file=sys.stderr, flush=True)


def summary(verdict: Verdict) -> str:
    """Say the outcome in words."""
    if not verdict.passed:
        return f"FAILED after {verdict.attempts} attempts in {verdict.elapsed_s:.1f} s: {verdict.reason}"
    lines = [f"PASSED in {verdict.latency_s:.2f} s (attempt {verdict.attempts}, {verdict.elapsed_s:.1f} s after the start)"]
    if verdict.trace:
        lines.append(f"  prefill  {verdict.trace.prefill.pod} ({verdict.trace.prefill.ip})")
        lines.append(f"  decode   {verdict.trace.decode.pod} ({verdict.trace.decode.ip})")
    return "\n".join([*lines, f"  text     {verdict.text}"])


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def smoke(
    endpoint: Annotated[str, typer.Option(envvar="SMOKE_ENDPOINT", help="Inference entry, https://host:port.")],
    tls_dir: Annotated[Path, typer.Option(envvar="SMOKE_TLS_DIR", help="ca.crt, tls.crt, tls.key, crl.pem.")] = Path("/mnt/tls/smoke"),
    prompt: Annotated[str, typer.Option(help="What to ask.")] = DEFAULT_PROMPT,
    expect_trace: Annotated[bool, typer.Option(help="The answer must name a prefill and a decode pod.")] = False,
    timeout_s: Annotated[float, typer.Option(min=0.1, help="Bound of one attempt.")] = 60.0,
    wait_s: Annotated[float, typer.Option(min=0.0, help="Keep trying this long; 0: one attempt.")] = 0.0,
    server_name: Annotated[
        str | None, typer.Option(envvar="SMOKE_SERVER_NAME", help="Name the certificate must carry, when dialling an address.")
    ] = None,
) -> None:
    """Send one prompt through the stack and say whether it was answered."""
    try:
        if not endpoint.startswith("https://"):
            raise ConfigError(f"--endpoint: {endpoint!r} is not https://host:port. The inference entry speaks mutual TLS only.")
        verdict = Prober(endpoint, tls_dir, prompt, timeout_s, server_name, expect_trace=expect_trace).run(wait_s)
    except ConfigError as err:
        for problem in err.problems:
            print(f"smoke: {problem}", file=sys.stderr)
        raise typer.Exit(EXIT_BAD_INPUT) from err
    print(summary(verdict))
    print(json.dumps(verdict.model_dump(exclude_none=True)))
    raise typer.Exit(0 if verdict.passed else 1)


def main() -> None:
    """Run the command line."""
    app()


if __name__ == "__main__":
    main()
