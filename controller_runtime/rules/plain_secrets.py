# SPDX-License-Identifier: Apache-2.0
"""S21: secrets stand in Secrets.

Seed: deployment manual and controller manual, passphrases of certificates.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from controller_runtime.rules.certainty import NotKnown, NotKnownError, certain_first
from controller_runtime.rules.config_files import ConfigFile, config_files
from controller_runtime.rules.model import Finding, Severity, rule
from controller_runtime.rules.objects import EMPTY, KubeObject
from controller_runtime.rules.pods import pods
from controller_runtime.rules.secret_text import has_private_key, is_secret, secrets_in
from controller_runtime.rules.settings import Setting, settings


@rule(
    "S21",
    title="No secret in plain sight",
    reason="ConfigMaps, arguments, environment values and annotations are shown to everybody who may list them, and kept in histories.",
    control=("CIS 5.4.1", "NSA secrets"),
    remedy="Put it into a Secret and mount that as a file",
    severity=Severity.CRITICAL,
    each=lambda obj: (obj,),
)
def no_plain_secret(obj: KubeObject) -> Iterator[Finding]:
    """Looks into ConfigMaps, arguments, environment and annotations. Findings never show the value."""
    yield from certain_first(
        [
            certain_first(_setting(setting) for setting in settings(obj)),
            certain_first(_whole_file(file) for file in config_files(obj)),
            _annotations("metadata.annotations", obj.get("metadata")),
            certain_first(_annotations(f"{pod.metadata_place}.annotations", pod.metadata) for pod in pods(obj)),
        ]
    )


def _setting(setting: Setting) -> Iterator[Finding]:
    if is_secret(setting.name, setting.value):
        yield Finding(setting.place, f"holds a literal value for {setting.name}")
    elif isinstance(setting.value, str):
        for kind in secrets_in(setting.value):
            yield Finding(setting.place, f"holds {kind}")


def _whole_file(file: ConfigFile) -> Iterator[Finding]:
    if has_private_key(file.text):
        yield Finding(file.place, "holds a private key")


def _annotations(place: str, metadata: object) -> Iterator[Finding]:
    values = metadata.get("annotations") if isinstance(metadata, Mapping) else None
    if isinstance(values, NotKnown):
        raise NotKnownError(values)
    unknown: NotKnown | None = None
    for key, value in (values if isinstance(values, Mapping) else EMPTY).items():
        if isinstance(value, NotKnown):
            unknown = unknown or value
        elif is_secret(key, value):
            yield Finding(f"{place}[{key}]", f"holds a literal value for {key}")
        elif isinstance(value, str):
            for kind in secrets_in(value):
                yield Finding(f"{place}[{key}]", f"holds {kind}")
    if unknown is not None:
        raise NotKnownError(unknown)
