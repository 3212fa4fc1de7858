# SPDX-License-Identifier: Apache-2.0
"""S12: keys and certificates are named, and the key of an authority is in no Secret.

Blocks of files are recognised by their keys: the manual's `ca_cert`, `tls_cert`, `tls_key`, `tls_passwd`, and the
Server's `tlsCert`, `tlsPk`, `tlsCaPath` with their prefixes. Passphrase and revocation list may be empty.
Seed: controller manual, `*_tls_items`; deployment manual, certificates of the Server.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from controller_runtime.rules.certainty import certain_first
from controller_runtime.rules.config_files import ConfigFile, config_files, decoded
from controller_runtime.rules.model import Finding, Severity, rule
from controller_runtime.rules.objects import EMPTY, KubeObject, get, kind_of, label, sequence
from controller_runtime.rules.pods import Container, Pod, containers_of, pods
from controller_runtime.rules.secret_text import has_private_key

ITEM_KEYS: Final = ("ca_cert", "tls_cert", "tls_key")
PASSPHRASE: Final = "tls_passwd"
SERVER_FILES: Final = MappingProxyType(
    {
        "httpsEnabled": ("tlsCaPath", "tlsCaFile", "tlsCert", "tlsPk"),
        "interCommTLSEnabled": ("interCommTlsCaPath", "interCommTlsCaFiles", "interCommTlsCert", "interCommPk"),
        "interNodeTLSEnabled": ("interNodeTlsCaPath", "interNodeTlsCaFiles", "interNodeTlsCert", "interNodeTlsPk"),
    }
)
"""What a Server needs once a switch is on. The manual spells `CaFile` and `CaFiles`."""

_SERVER_PATH: Final = re.compile(r"(?:(?:management|metrics|interComm|interNode)?[tT]ls(?:CaPath|Cert|Pk|PkPwd)|interCommPk(?:Pwd)?)")
_SWITCH: Final = re.compile(r"(.+)_tls_enable")
_AUTHORITY_KEY: Final = re.compile(r"(?:.*[-_.])?ca[-_.]?(?:private[-_.]?)?key(?:[-_.]pem)?", re.IGNORECASE)


class TlsFile(NamedTuple):
    """A path to a key, a certificate or a passphrase that a configuration names."""

    place: str
    path: str


@rule(
    "S12",
    title="TLS files are named and no pod gets an authority's key",
    reason="A link without its files starts unprotected or not at all; whoever reads an authority's key can be every component.",
    control=("NSA secrets", "CIS 5.4.1"),
    remedy="Name ca_cert, tls_cert and tls_key of a mounted Secret that holds one identity; keep the authority's key outside the cluster",
    severity=Severity.CRITICAL,
    each=lambda obj: (obj,),
)
def tls_files(obj: KubeObject) -> Iterator[Finding]:
    """Three independent looks: at configuration, at Secrets, at what pods mount."""
    yield from certain_first(
        [
            certain_first(_empty_items(file) for file in config_files(obj)),
            _authority_key_in_secret(obj),
            certain_first(_authority_key_in_pod(pod) for pod in pods(obj)),
        ]
    )


def files_named_by(file: ConfigFile) -> Iterator[TlsFile]:
    """Every path to a key, certificate, authority or passphrase in a configuration file; empty ones are left out."""
    for place, block in file.mappings():
        for key, value in block.items():
            if (key in (*ITEM_KEYS, PASSPHRASE) or _SERVER_PATH.fullmatch(key)) and isinstance(value, str) and value:
                yield TlsFile(f"{place}.{key}", value)


def _empty_items(file: ConfigFile) -> Iterator[Finding]:
    for place, block in file.mappings():
        for key, value in block.items():
            if value is False:
                continue
            if (switch := _SWITCH.fullmatch(key)) is not None:
                items = block.get(f"{switch[1]}_tls_items")
                yield from _empty_keys(f"{place}.{switch[1]}_tls_items", items, ITEM_KEYS)
            elif key in SERVER_FILES:
                yield from _empty_keys(place, block, SERVER_FILES[key])
        if "tls_enable" in block and block["tls_enable"] is not False and "cert" in block:
            yield from _empty_keys(f"{place}.cert", block["cert"], ITEM_KEYS)


def _empty_keys(place: str, block: object, keys: tuple[str, ...]) -> Iterator[Finding]:
    found = block if isinstance(block, Mapping) else EMPTY
    empty = [key for key in keys if not found.get(key)]
    if empty:
        yield Finding(place, f"names no {', '.join(empty)}")


def _authority_key_in_secret(obj: KubeObject) -> Iterator[Finding]:
    """A value that is not known yet is left to the update: no preview can tell it, and its name has been judged."""
    if kind_of(obj) != "Secret":
        return
    for part in ("data", "stringData"):
        values = obj.get(part)
        for key, value in (values if isinstance(values, Mapping) else EMPTY).items():
            place = f"{part}[{key}]"
            if _AUTHORITY_KEY.fullmatch(key):
                yield Finding(place, "is named like the private key of an authority")
            elif (
                key.lower().startswith("ca")
                and isinstance(value, str)
                and has_private_key(value if part == "stringData" else decoded(value))
            ):
                yield Finding(place, "holds a private key beside an authority's certificate")


def _authority_key_in_pod(pod: Pod) -> Iterator[Finding]:
    yield from certain_first(
        [_authority_key_in_volumes(pod), certain_first(_authority_key_in_mounts(container) for container in containers_of(pod))]
    )


def _authority_key_in_volumes(pod: Pod) -> Iterator[Finding]:
    for index, volume in enumerate(sequence(pod.spec, "volumes")):
        sources = [get(volume, "secret"), *(get(source, "secret") for source in sequence(volume, "projected", "sources"))]
        for source in sources:
            for item in sequence(source, "items"):
                if _AUTHORITY_KEY.fullmatch(str(get(item, "key"))):
                    yield Finding(f"{pod.place}.volumes[{label(volume, index)}]", f"mounts {get(item, 'key')}, an authority's private key")


def _authority_key_in_mounts(container: Container) -> Iterator[Finding]:
    for index, mount in enumerate(sequence(container.body, "volumeMounts")):
        if _AUTHORITY_KEY.fullmatch(str(get(mount, "subPath") or "").rsplit("/", 1)[-1]):
            yield Finding(f"{container.place}.volumeMounts[{label(mount, index)}].subPath", "is an authority's private key")
    for index, entry in enumerate(sequence(container.body, "env")):
        if _AUTHORITY_KEY.fullmatch(str(get(entry, "valueFrom", "secretKeyRef", "key") or "")):
            yield Finding(f"{container.place}.env[{label(entry, index)}]", "is an authority's private key")
