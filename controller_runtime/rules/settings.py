# SPDX-License-Identifier: Apache-2.0
"""Everything in an object that configures a process: one stream of (place, name, value).

Sources: container commands and arguments (`--name=value`, `--name value`, words of a shell line), environment
values, hosts of probes and hooks, and the files of ConfigMaps. Values of Secrets are never read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from controller_runtime.rules.certainty import NotKnown, NotKnownError, certain_first
from controller_runtime.rules.config_files import ConfigFile, config_files
from controller_runtime.rules.objects import KubeObject, get, label, mapping, sequence
from controller_runtime.rules.pods import Container, containers

_SHELL_WORD: Final = re.compile(r"""(?:[^\s"';|&]+|"[^"]*"|'[^']*')+""")
_HANDLERS: Final = (
    ("livenessProbe",),
    ("readinessProbe",),
    ("startupProbe",),
    ("lifecycle", "postStart"),
    ("lifecycle", "preStop"),
)


class Source(StrEnum):
    """Where a setting stands."""

    ARGUMENT = "argument"
    ENVIRONMENT = "environment"
    PROBE = "probe"
    FILE = "file"


class Setting(NamedTuple):
    """One configured value. `name` is empty for a bare word; `value` is True for a flag without one."""

    place: str
    name: str
    value: object
    source: Source


def settings(obj: KubeObject) -> Iterator[Setting]:
    """Every setting of an object, known ones first. Raises NotKnownError at the end when one was not known."""
    return certain_first(
        [
            certain_first(container_settings(container) for container in containers(obj)),
            certain_first(file_settings(file) for file in config_files(obj)),
        ]
    )


def container_settings(container: Container) -> Iterator[Setting]:
    """Settings of one container."""
    return certain_first([arguments(container), environment(container), _hosts(container)])


def arguments(container: Container) -> Iterator[Setting]:
    """Command, arguments and commands of probes and hooks."""
    lists = [("command",), ("args",), *((*handler, "exec", "command") for handler in _HANDLERS)]
    return certain_first(_words_of(container, path) for path in lists)


def environment(container: Container) -> Iterator[Setting]:
    """Environment entries with a literal value; those taken from elsewhere have none."""
    unknown: NotKnown | None = None
    for index, entry in enumerate(sequence(container.body, "env")):
        if isinstance(entry, Mapping) and entry.get("value") is not None:
            if isinstance(value := entry["value"], NotKnown):
                unknown = unknown or value
            else:
                yield Setting(f"{container.place}.env[{label(entry, index)}]", str(entry.get("name", "")), value, Source.ENVIRONMENT)
    if unknown is not None:
        raise NotKnownError(unknown)


def file_settings(file: ConfigFile) -> Iterator[Setting]:
    """Values of one configuration file; of text that is no document, its command words too."""
    for leaf in file.leaves():
        yield Setting(leaf.place, leaf.key, leaf.value, Source.FILE)
    if file.tree is None:
        for place, line in file.lines():
            if not line.lstrip().startswith("#"):
                yield from flags(((place, word) for word in shell_words(line)), Source.FILE)


def shell_words(line: str) -> list[str]:
    """Words of a shell line, quotes removed. Not a shell: expansions stay as written."""
    return [word.replace('"', "").replace("'", "") for word in _SHELL_WORD.findall(line)]


def flags(placed_words: Iterable[tuple[str, str]], source: Source) -> Iterator[Setting]:
    """Pair flags with their values: `--a=1`, `--a 1`, `a=1`, and bare words."""
    held: tuple[str, str] | None = None
    for place, word in placed_words:
        name, equals, value = word.partition("=")
        is_flag = word.startswith("-")
        if held is not None:
            yield Setting(*held, True, source) if is_flag else Setting(place, held[1], word, source)
            held = None
            if not is_flag:
                continue
        if is_flag and not equals:
            held = (place, word.lstrip("-"))
        elif equals:
            yield Setting(place, name.lstrip("-"), value, source)
        else:
            yield Setting(place, "", word, source)
    if held is not None:
        yield Setting(*held, True, source)


def _words_of(container: Container, path: tuple[str, ...]) -> Iterator[Setting]:
    place = ".".join((container.place, *path))
    unknown: list[NotKnownError] = []

    def words() -> Iterator[tuple[str, str]]:
        try:
            for index, word in enumerate(sequence(container.body, *path)):
                text = str(word)
                for part in shell_words(text) if any(space in text for space in " \n\t") else (text,):
                    yield f"{place}[{index}]", part
        except NotKnownError as err:
            unknown.append(err)

    yield from flags(words(), Source.ARGUMENT)
    if unknown:
        raise unknown[0]


def _hosts(container: Container) -> Iterator[Setting]:
    return certain_first(_host(container, (*handler, action)) for handler in _HANDLERS for action in ("httpGet", "tcpSocket"))


def _host(container: Container, path: tuple[str, ...]) -> Iterator[Setting]:
    if (host := get(mapping(container.body, *path), "host")) is not None:
        yield Setting(".".join((container.place, *path, "host")), "host", host, Source.PROBE)
