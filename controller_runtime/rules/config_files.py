# SPDX-License-Identifier: Apache-2.0
"""Configuration inside ConfigMaps: every value with its place and key, whatever the format.

JSON and YAML are parsed, also JSON inside a value; other text is read line by line as `key = value` and as
command words. YAML is imported on first use: most configuration here is JSON, which needs no import.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

from controller_runtime.rules.certainty import NotKnown, NotKnownError
from controller_runtime.rules.objects import EMPTY, KubeObject, is_sequence, kind_of

_ASSIGNMENT: Final = re.compile(r"^\s*(?:export\s+)?([A-Za-z_][\w.\-]*)\s*[=:]\s*(.*?)\s*$")
_DATA: Final = ("data", "binaryData")


class Leaf(NamedTuple):
    """One value: `key` is that of the nearest mapping, also for items of a list."""

    place: str
    key: str
    value: object


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """One key of a ConfigMap. `tree` is the parsed document, None for text that is neither JSON nor YAML."""

    place: str
    name: str
    text: str
    tree: object

    def mappings(self) -> Iterator[tuple[str, KubeObject]]:
        """Every mapping of the document with its place, outer before inner."""
        return _mappings(self.tree, self.place)

    def leaves(self) -> Iterator[Leaf]:
        """Every scalar value of the document; of other text, the text itself when it is one line, and every assignment."""
        if self.tree is not None:
            yield from _leaves(self.tree, self.place, self.name)
            return
        lines = list(self.lines())
        if len(lines) == 1:
            yield Leaf(self.place, self.name, self.text)
        for place, line in lines:
            if (found := _ASSIGNMENT.match(line)) is not None:
                yield Leaf(place, found[1], found[2].strip("\"'"))

    def lines(self) -> Iterator[tuple[str, str]]:
        """Lines of the text with their places."""
        lines = self.text.splitlines()
        for number, line in enumerate(lines, 1):
            yield (f"{self.place} line {number}" if len(lines) > 1 else self.place), line


def config_files(obj: KubeObject) -> Iterator[ConfigFile]:
    """The files of a ConfigMap, known ones first. Raises NotKnownError at the end when one was not known."""
    if kind_of(obj) != "ConfigMap":
        return
    unknown: NotKnown | None = None
    for part in _DATA:
        files = obj.get(part)
        if isinstance(files, NotKnown):
            unknown = unknown or files
            continue
        for name, content in (files if isinstance(files, Mapping) else EMPTY).items():
            if isinstance(content, NotKnown):
                unknown = unknown or content
            elif isinstance(content, str):
                text = content if part == "data" else decoded(content)
                yield ConfigFile(f"{part}[{name}]", name, text, parse(text))
    if unknown is not None:
        raise NotKnownError(unknown)


def decoded(text: str) -> str:
    """Text behind base64, empty when there is none."""
    try:
        return base64.b64decode(text, validate=False).decode("utf-8", errors="replace")
    except (binascii.Error, ValueError):
        return ""


@lru_cache(maxsize=512)
def parse(text: str) -> object:
    """The document in a text: JSON of any kind, or YAML when it is a mapping or a list. None when it is neither."""
    if not text.strip():
        return None
    try:
        return json.loads(text)
    except ValueError:
        return _yaml(text) if "\n" in text or ":" in text else None


def _yaml(text: str) -> object:
    import yaml  # late: 40 ms that a stack with JSON configuration never pays

    try:
        documents = list(yaml.load_all(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
    except yaml.YAMLError:
        return None
    found = [document for document in documents if isinstance(document, (dict, list))]
    return None if not found else found[0] if len(documents) == 1 else found


def _mappings(node: object, place: str) -> Iterator[tuple[str, KubeObject]]:
    if isinstance(node, Mapping):
        yield place, node
        for key, value in node.items():
            yield from _mappings(value, f"{place}.{key}")
    elif is_sequence(node):
        for index, value in enumerate(node):
            yield from _mappings(value, f"{place}[{index}]")


def _leaves(node: object, place: str, key: str) -> Iterator[Leaf]:
    if isinstance(node, Mapping):
        for name, value in node.items():
            yield from _leaves(value, f"{place}.{name}", str(name))
    elif is_sequence(node):
        for index, value in enumerate(node):
            yield from _leaves(value, f"{place}[{index}]", key)
    elif isinstance(node, str) and node.lstrip()[:1] in ("{", "[") and isinstance(inner := parse(node), (dict, list)):
        yield from _leaves(inner, place, key)
    else:
        yield Leaf(place, key, node)
