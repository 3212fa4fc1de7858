# SPDX-License-Identifier: Apache-2.0
"""Roles of Servers: who prefills, who decodes, and how far a Server has got in becoming that.

On the wire a role has three spellings: its letter's character code in files and Coordinator bodies,
a word in Server paths and replies, and the letter itself in messages.
Seed: controller manual, table 2 (`role`, `label`) and the Server's status and role interfaces.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import Final

GROUP_LIMIT: Final = 16
"""Most Servers of a group, which is also the most that two rates add up to."""
GROUP_LIMIT_MULTI_NODE: Final = 768
MAX_RATE: Final = GROUP_LIMIT - 1
"""Largest rate of one role: the other keeps one Server."""


class Role(IntEnum):
    """Role of a Server. The value is the character code files and Coordinators carry."""

    UNDEFINED = 85
    PREFILL = 80
    DECODE = 68
    FLEX = 70

    @property
    def letter(self) -> str:
        """`P`, `D`, `F` or `U`."""
        return chr(self.value)

    @property
    def word(self) -> CurrentRole:
        """The Server's word for it; an undefined role is `none`."""
        return _WORDS[self]

    @property
    def opposite(self) -> Role:
        """The role of this role's peers. A role without a fixed opposite is its own."""
        return {Role.PREFILL: Role.DECODE, Role.DECODE: Role.PREFILL}.get(self, self)


class CurrentRole(StrEnum):
    """What a Server says it is."""

    PREFILL = "prefill"
    DECODE = "decode"
    FLEX = "flex"
    NONE = "none"

    @property
    def role(self) -> Role:
        """The same as a `Role`."""
        return _ROLES[self]


class RoleState(StrEnum):
    """How far a Server has got in taking its role."""

    UNKNOWN = "RoleUnknown"
    SWITCHING = "RoleSwitching"
    READY = "RoleReady"


class Label(IntEnum):
    """May a Server change sides? Only the two static labels are in use."""

    PREFILL_PREFER = 0
    DECODE_PREFER = 1
    PREFILL_STATIC = 2
    DECODE_STATIC = 3
    FLEX_STATIC = 4

    @classmethod
    def of(cls, role: Role) -> Label:
        """The label a role implies."""
        return {Role.PREFILL: cls.PREFILL_STATIC, Role.DECODE: cls.DECODE_STATIC, Role.FLEX: cls.FLEX_STATIC}.get(role, cls.PREFILL_PREFER)


_WORDS = {
    Role.PREFILL: CurrentRole.PREFILL,
    Role.DECODE: CurrentRole.DECODE,
    Role.FLEX: CurrentRole.FLEX,
    Role.UNDEFINED: CurrentRole.NONE,
}
_ROLES = {word: role for role, word in _WORDS.items()}
