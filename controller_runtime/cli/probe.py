# SPDX-License-Identifier: Apache-2.0
"""`probe`: the exec probe of ports that speak mutual TLS. Exit 0 when the answer is HTTP 200, else 1 and one line why.

The kubelet runs it every few seconds in every pod, so it costs one interpreter start: standard library only, nothing of this
project imported, HTTP reduced to a request line and a status line. One attempt, bounded as a whole; it reads no rank table.
Seed: controller manual, probes; deployment manual, health interfaces.
"""

from __future__ import annotations

import os
import socket
import ssl
import sys
import time

DEFAULT_TLS_DIR = "/mnt/tls/probe"
DEFAULT_TIMEOUT_S = 3.0
USAGE = "usage: probe --port N --path /P [--host IP] [--timeout-s S] [--tls-dir DIR] [--plain]"
_MAX_STATUS_LINE_BYTES = 4096


class ProbeError(Exception):
    """Why the probe fails, in one line."""


def main() -> None:
    """Entry point."""
    try:
        probe(sys.argv[1:])
    except ProbeError as error:
        sys.stderr.write(f"probe: {error}\n")
        sys.exit(1)


def probe(arguments: list[str]) -> None:
    """Ask once.

    Raises:
        ProbeError: wrong arguments, no connection, TLS refused, no answer in time, or a status other than 200.
    """
    options = _parse(arguments)
    host = options.get("host") or os.environ.get("POD_IP") or ""
    if not host:
        raise ProbeError("no address: set POD_IP or pass --host")
    try:
        port, timeout_s = int(options["port"]), float(options.get("timeout-s", DEFAULT_TIMEOUT_S))
        path = options["path"]
    except (KeyError, ValueError):
        raise ProbeError(USAGE) from None
    if not path.startswith("/") or not path.isprintable() or " " in path:
        raise ProbeError(USAGE)
    where = f"{host}:{port}{path}"
    try:
        context = None if "plain" in options else _context(options.get("tls-dir", DEFAULT_TLS_DIR))
        status = _ask(host, port, path, context, time.monotonic() + timeout_s)
    except ssl.SSLError as error:
        reason = getattr(error, "verify_message", "") or error.reason or error
        raise ProbeError(f"{where}: TLS failed: {reason}") from None
    except TimeoutError:
        raise ProbeError(f"{where}: no answer in {timeout_s:g} s") from None
    except OSError as error:
        raise ProbeError(f"{error.filename or where}: {error.strerror or error}") from None
    if status != "200":
        raise ProbeError(f"{where}: status {status}")


def _parse(arguments: list[str]) -> dict[str, str]:
    options: dict[str, str] = {}
    rest = list(arguments)
    while rest:
        name, equals, value = rest.pop(0).partition("=")
        if name == "--plain" and not equals:
            options["plain"] = ""
            continue
        if name not in ("--port", "--path", "--host", "--timeout-s", "--tls-dir") or not (equals or rest):
            raise ProbeError(USAGE)
        options[name[2:]] = value if equals else rest.pop(0)
    return options


def _context(directory: str) -> ssl.SSLContext:
    """Mutual TLS 1.3 with the revocation list; no name check, because the pod asks itself by address."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    for name in ("ca.crt", "crl.pem", "tls.crt", "tls.key"):
        os.stat(os.path.join(directory, name))
    context.load_verify_locations(cafile=os.path.join(directory, "ca.crt"))
    context.load_verify_locations(cafile=os.path.join(directory, "crl.pem"))
    context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    context.load_cert_chain(os.path.join(directory, "tls.crt"), os.path.join(directory, "tls.key"), password=lambda: b"")
    return context


def _ask(host: str, port: int, path: str, context: ssl.SSLContext | None, end: float) -> str:
    """Send one GET and return the status code as text."""
    link = socket.create_connection((host, port), timeout=_left_s(end))
    try:
        if context is not None:
            link.settimeout(_left_s(end))
            link = context.wrap_socket(link)
        link.settimeout(_left_s(end))
        link.sendall(f"GET {path} HTTP/1.1\r\nHost: {_authority(host, port)}\r\nConnection: close\r\n\r\n".encode())
        answer = b""
        while b"\r\n" not in answer and len(answer) < _MAX_STATUS_LINE_BYTES:
            link.settimeout(_left_s(end))
            chunk = link.recv(_MAX_STATUS_LINE_BYTES)
            if not chunk:
                raise ProbeError(f"{host}:{port}{path}: closed without an answer; a TLS server does that to a client it refuses")
            answer += chunk
    finally:
        link.close()
    words = answer.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
    if len(words) < 2 or not words[0].startswith("HTTP/1."):
        raise ProbeError(f"{host}:{port}{path}: not HTTP")
    return words[1]


def _authority(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _left_s(end: float) -> float:
    left_s = end - time.monotonic()
    if left_s <= 0:
        raise TimeoutError
    return left_s


if __name__ == "__main__":
    main()
