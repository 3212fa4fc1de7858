# SPDX-License-Identifier: Apache-2.0
"""Check `ms_controller.json` and report every problem in one go.

Each problem is one sentence: file, JSON path, value, what is allowed, what to do.
Seed: controller manual, table 1; rules over several keys from its rate, listening and TLS rows.
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, Final, Literal, get_args, get_origin

from annotated_types import Ge, Le, MaxLen, MinLen
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from controller_runtime.api.ms_config import MANDATORY_LINKS, Ccae, DeployMode, MsControllerConfig, TlsLink
from controller_runtime.api.roles import GROUP_LIMIT, GROUP_LIMIT_MULTI_NODE, MAX_RATE
from controller_runtime.errors import ConfigError

MAX_HOST_CHARS: Final = 253
_SHOWN_VALUE_CHARS: Final = 60
_LABEL: Final = "[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_HOST_NAME: Final = re.compile(rf"{_LABEL}(\.{_LABEL})*\.?")


def parse(raw: Mapping[str, object], where: str) -> MsControllerConfig:
    """Validate a parsed `ms_controller.json`; `where` names the file in messages.

    Raises:
        ConfigError: with every problem found.
    """
    parts = read_parts(raw)
    found: list[str] = []
    config: MsControllerConfig | None = None
    try:
        config = MsControllerConfig.model_validate(parts)
    except ValidationError as error:
        found += [_field_problem(item["loc"], item["type"], item["input"]) for item in error.errors(include_url=False)]
    found += cross_field_problems(parts)
    if found or config is None:
        raise ConfigError([f"{where}: {problem}" for problem in found])
    return config


def read_parts(raw: Mapping[str, object]) -> dict[str, object]:
    """The parts of the file that are read at all, normalised.

    Files of a TLS link that is off, paths of a file that is not written, and CCAE settings that do not
    hold together are dropped; a recovery switch that is not a boolean is off.
    """
    parts = dict(raw)
    if "ccae" in parts and not _is_ccae_on(parts["ccae"]):
        del parts["ccae"]
    for key in ("process_manager", "cluster_status"):
        output = parts.get(key)
        if isinstance(output, dict) and output.get("to_file") is False:
            parts[key] = {"to_file": False}
    tls = parts.get("tls_config")
    if isinstance(tls, dict):
        parts["tls_config"] = {key: value for key, value in tls.items() if not _is_unread_tls_key(key, tls, "ccae" in parts)}
    switches = parts.get("fault_recovery_func_dict")
    if isinstance(switches, dict):
        parts["fault_recovery_func_dict"] = {str(name): value is True for name, value in switches.items()}
    return parts


def cross_field_problems(parts: Mapping[str, object]) -> list[str]:
    """Violations of rules over several keys; a key of the wrong type is left to the check of that key."""
    return [*_rate_problems(parts), *_address_problems(parts), *_path_problems(parts), *_tls_problems(parts), *_parallelism_problems(parts)]


def rate_problem(p_rate: int, d_rate: int, *, is_multi_node: bool) -> str | None:
    """What is wrong with this pair of rates, None when it is fine."""
    limit = GROUP_LIMIT_MULTI_NODE if is_multi_node else GROUP_LIMIT
    if (p_rate == 0) != (d_rate == 0):
        return f"default_p_rate is {p_rate} and default_d_rate is {d_rate}. Set both to zero (automatic) or both non-zero."
    if not is_multi_node and max(p_rate, d_rate) > MAX_RATE:
        return f"default_p_rate is {p_rate} and default_d_rate is {d_rate}, allowed 0-{MAX_RATE} each. Lower the larger one."
    if p_rate + d_rate > limit:
        return f"default_p_rate {p_rate} plus default_d_rate {d_rate} is more than {limit}. Lower one."
    return None


def address_problem(ip: str, *, allow_all_zero: bool) -> str | None:
    """What is wrong with a listening address, None when it is fine. Every spelling of the all-zero address counts."""
    try:
        address = ipaddress.ip_address(ip)
    except ValueError:
        return f"is {_shown(ip)}, which is neither an IPv4 nor an IPv6 address. Set the pod's address."
    if is_all_zero(address) and not allow_all_zero:
        return f"is {ip}, which listens on every network the pod has. Set one address, or allow_all_zero_ip_listening."
    return None


def host_problem(host: str) -> str | None:
    """What is wrong with the host name or address of a peer, None when it is fine."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        is_name = len(host) <= MAX_HOST_CHARS and _HOST_NAME.fullmatch(host) and not host.rstrip(".").rpartition(".")[2].isdecimal()
        return (
            None if is_name else f"is {_shown(host)}, which is neither a host name nor an IP address. Set the peer's DNS name or address."
        )
    return f"is {host}, which is no address of a peer. Set the peer's DNS name or address." if is_all_zero(address) else None


def is_all_zero(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """True for 0.0.0.0, :: and ::ffff:0.0.0.0."""
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return address.is_unspecified or (mapped is not None and mapped.is_unspecified)


def _rate_problems(parts: Mapping[str, object]) -> Iterator[str]:
    rates = [rate for key in ("default_p_rate", "default_d_rate") if (rate := _rate(parts.get(key))) is not None]
    if len(rates) == 2 and (problem := rate_problem(*rates, is_multi_node=_is_multi_node(parts))):
        yield problem


def _address_problems(parts: Mapping[str, object]) -> Iterator[str]:
    server = parts.get("http_server")
    ip = server.get("ip") if isinstance(server, dict) else None
    if not isinstance(ip, str) or not 1 <= len(ip) <= 4096:
        return
    if problem := address_problem(ip, allow_all_zero=parts.get("allow_all_zero_ip_listening") is True):
        yield f"http_server.ip {problem}"


def _path_problems(parts: Mapping[str, object]) -> Iterator[str]:
    for key in ("process_manager", "cluster_status"):
        output = parts.get(key)
        if isinstance(output, dict) and output.get("to_file") is True and "file_path" not in output:
            yield f"{key}.file_path is missing while {key}.to_file is true. Add the path of the file to write."


def _tls_problems(parts: Mapping[str, object]) -> Iterator[str]:
    tls = parts.get("tls_config")
    if not isinstance(tls, dict):
        return
    links = (*MANDATORY_LINKS, TlsLink.CCAE) if "ccae" in parts else MANDATORY_LINKS
    for link in links:
        is_on = tls.get(f"{link}_tls_enable", True if link is TlsLink.CCAE else None) is True
        if is_on and tls.get(f"{link}_tls_items") is None:
            yield (
                f"tls_config.{link}_tls_items is missing while {link}_tls_enable is true. "
                "Add ca_cert, tls_cert, tls_key, tls_passwd and tls_crl."
            )


def _parallelism_problems(parts: Mapping[str, object]) -> Iterator[str]:
    multi_node = parts.get("multi_node_infer_config")
    if not isinstance(multi_node, dict) or multi_node.get("multi_node_infer_enable") is not True:
        return
    for side in ("p_node_config", "d_node_config"):
        node = multi_node.get(side)
        if not isinstance(node, dict):
            continue
        dp_size, cp_size = node.get("dp_size"), node.get("cp_size", 1)
        if type(dp_size) is int and type(cp_size) is int and dp_size > 1 and cp_size > 1:
            yield f"multi_node_infer_config.{side} has dp_size {dp_size} and cp_size {cp_size}; only one may exceed 1. Set the other to 1."


def _rate(value: object) -> int | None:
    return value if type(value) is int and 0 <= value < GROUP_LIMIT_MULTI_NODE else None


def _is_multi_node(parts: Mapping[str, object]) -> bool:
    multi_node = parts.get("multi_node_infer_config")
    return isinstance(multi_node, dict) and multi_node.get("multi_node_infer_enable") is True


def _is_ccae_on(value: object) -> bool:
    try:
        ccae = Ccae.model_validate(value)
    except ValidationError:
        return False
    return address_problem(ccae.ip, allow_all_zero=False) is None


def _is_unread_tls_key(key: str, tls: Mapping[str, object], has_ccae: bool) -> bool:
    if key.startswith(TlsLink.CCAE) and not has_ccae:
        return True
    return key.endswith("_tls_items") and tls.get(f"{key.removesuffix('_tls_items')}_tls_enable") is False


def _field_problem(loc: tuple[int | str, ...], kind: str, value: object) -> str:
    path = ".".join(str(part) for part in loc)
    allowed = _allowed(loc)
    if kind == "missing":
        return f"{path} is missing, allowed {allowed}. Add it."
    return f"{path} is {_shown(value)}, allowed {allowed}. Set an allowed value."


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _SHOWN_VALUE_CHARS else f"{text[:_SHOWN_VALUE_CHARS]}... ({len(text)} characters)"


def _allowed(loc: tuple[int | str, ...]) -> str:
    """Describe what the model accepts at this place."""
    model: type[BaseModel] = MsControllerConfig
    field: FieldInfo | None = None
    for part in loc:
        field = next((info for name, info in model.model_fields.items() if part in (name, info.alias)), None)
        inner = _model_of(field.annotation) if field else None
        if inner is None:
            break
        model = inner
    if field is None:
        return "as in the manual"
    return _describe(field.annotation, field.metadata)


def _describe(annotation: Any, metadata: list[Any]) -> str:
    if get_origin(annotation) is Literal:
        return " or ".join(json.dumps(value) for value in get_args(annotation))
    if isinstance(annotation, type) and issubclass(annotation, StrEnum):
        return " or ".join(json.dumps(value.value) for value in DeployMode)
    if annotation is bool:
        return "true or false"
    if annotation is int:
        low = next((item.ge for item in metadata if isinstance(item, Ge)), None)
        high = next((item.le for item in metadata if isinstance(item, Le)), None)
        return f"integer {low}-{high}"
    if _model_of(annotation) is not None:
        return "an object"
    low = next((item.min_length for item in metadata if isinstance(item, MinLen)), 0)
    high = next((item.max_length for item in metadata if isinstance(item, MaxLen)), 4096)
    return f"text of {low}-{high} characters"


def _model_of(annotation: Any) -> type[BaseModel] | None:
    candidates = (annotation, *get_args(annotation))
    return next((item for item in candidates if isinstance(item, type) and issubclass(item, BaseModel)), None)
