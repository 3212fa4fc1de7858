# SPDX-License-Identifier: Apache-2.0
"""Who may read and write what in etcd, brought to a declared state.

One role per user, with the user's name; users without password (etcd takes the CN of the certificate). Running it again
changes nothing; a changed declaration is followed exactly: permissions and roles a declared user has beyond it are taken
away. Users that are not declared are left alone.
Seed: controller manual, etcd access control.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from controller_runtime.errors import ConfigError
from controller_runtime.etcd.auth import Auth
from controller_runtime.etcd.proto import etcd_pb2 as pb
from controller_runtime.etcd.values import prefix_end

ROOT = "root"
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_PREFIX = re.compile(r"(/[A-Za-z0-9._-]+)+/")


class Grant(NamedTuple):
    """`user` (a certificate's CN) may read and write all keys under each of `prefixes`, and no other."""

    user: str
    prefixes: tuple[str, ...]


def parse_grant(text: str) -> Grant:
    """Read `user=/prefix/,/prefix/`.

    Raises:
        ConfigError: not of that form, `root`, or a prefix that does not begin and end with `/` (it would cover neighbours).
    """
    user, equals, rest = text.partition("=")
    prefixes = tuple(rest.split(","))
    if not equals or not _NAME.fullmatch(user) or user == ROOT:
        raise ConfigError(f"grant {text!r}: user {user!r} is not allowed. Write user=/prefix/ with a user other than root.")
    for prefix in prefixes:
        if not _PREFIX.fullmatch(prefix):
            raise ConfigError(f"grant {text!r}: prefix {prefix!r} must begin and end with / and name a part. Write user=/prefix/.")
    return Grant(user, prefixes)


async def ensure_access(auth: Auth, grants: Sequence[Grant]) -> list[str]:
    """Bring users, roles and permissions to `grants` and switch authentication on. Returns what it changed, in order.

    Raises:
        EtcdDeniedError: authentication is on and our certificate's CN is not root.
        EtcdUnavailableError: no majority; whatever was done stays, run it again.
    """
    changes: list[str] = []
    users, roles = set(await auth.users()), set(await auth.roles())
    if ROOT not in users:
        await auth.user_add(ROOT)
        changes.append("user root added")
    if ROOT not in await auth.user_roles(ROOT):
        if ROOT not in roles:
            await auth.role_add(ROOT)
        await auth.user_grant_role(ROOT, ROOT)
        changes.append("user root got role root")
    for grant in grants:
        if grant.user not in roles:
            await auth.role_add(grant.user)
            changes.append(f"role {grant.user} added")
        changes += await _ensure_permissions(auth, grant)
        if grant.user not in users:
            await auth.user_add(grant.user)
            changes.append(f"user {grant.user} added")
        changes += await _ensure_role(auth, grant.user)
    if not await auth.is_enabled():
        await auth.enable()
        changes.append("authentication enabled")
    return changes


async def _ensure_permissions(auth: Auth, grant: Grant) -> list[str]:
    changes: list[str] = []
    held = await auth.role_permissions(grant.user)
    wanted = {(prefix.encode(), prefix_end(prefix), int(pb.Permission.READWRITE)): prefix for prefix in grant.prefixes}
    for permission, prefix in wanted.items():
        if permission not in held:
            await auth.role_grant_prefix(grant.user, prefix)
            changes.append(f"role {grant.user} may use {prefix}")
    ranges = {(key, end) for key, end, _ in wanted}
    for key, range_end, _ in held:
        if (key, range_end) not in ranges:
            await auth.role_revoke(grant.user, key, range_end)
            changes.append(f"role {grant.user} lost {key.decode(errors='replace')}")
    return changes


async def _ensure_role(auth: Auth, user: str) -> list[str]:
    changes: list[str] = []
    held = await auth.user_roles(user)
    if user not in held:
        await auth.user_grant_role(user, user)
        changes.append(f"user {user} got role {user}")
    for role in sorted(held - {user}):
        await auth.user_revoke_role(user, role)
        changes.append(f"user {user} lost role {role}")
    return changes
