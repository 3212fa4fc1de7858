# SPDX-License-Identifier: Apache-2.0
"""Users, roles and permissions of etcd; only user `root` may call these once authentication is on.

Users have no password: etcd takes the common name of the client's certificate as the user.
Seed: controller manual, etcd access control by certificate.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TypeVar

from grpclib.client import UnaryUnaryMethod

from controller_runtime.etcd.endpoints import Endpoints
from controller_runtime.etcd.errors import AlreadyThereError, EtcdCallError
from controller_runtime.etcd.proto import etcd_pb2 as pb
from controller_runtime.etcd.proto.etcd_grpc import AuthStub
from controller_runtime.etcd.values import prefix_end

Request = TypeVar("Request")
Reply = TypeVar("Reply")


class Auth:
    """The administration calls of one client. Creating what exists is not an error."""

    def __init__(self, endpoints: Endpoints, timeout_s: float) -> None:
        self._endpoints = endpoints
        self._timeout_s = timeout_s

    async def is_enabled(self) -> bool:
        """True when etcd asks for users."""
        return (await self._call(lambda auth: auth.AuthStatus, pb.AuthStatusRequest())).enabled

    async def enable(self) -> None:
        """Ask for users from now on; user `root` with role `root` must exist."""
        await self._call(lambda auth: auth.AuthEnable, pb.AuthEnableRequest())

    async def users(self) -> list[str]:
        """Return the names of all users."""
        return list((await self._call(lambda auth: auth.UserList, pb.AuthUserListRequest())).users)

    async def user_add(self, name: str) -> None:
        """Create a user without password."""
        request = pb.AuthUserAddRequest(name=name, options=pb.UserAddOptions(no_password=True))
        with contextlib.suppress(AlreadyThereError):
            await self._call(lambda auth: auth.UserAdd, request)

    async def user_roles(self, name: str) -> set[str]:
        """Return the roles of a user."""
        return set((await self._call(lambda auth: auth.UserGet, pb.AuthUserGetRequest(name=name))).roles)

    async def user_grant_role(self, user: str, role: str) -> None:
        """Give a role to a user."""
        await self._call(lambda auth: auth.UserGrantRole, pb.AuthUserGrantRoleRequest(user=user, role=role))

    async def user_revoke_role(self, user: str, role: str) -> None:
        """Take a role from a user."""
        await self._call(lambda auth: auth.UserRevokeRole, pb.AuthUserRevokeRoleRequest(name=user, role=role))

    async def roles(self) -> list[str]:
        """Return the names of all roles."""
        return list((await self._call(lambda auth: auth.RoleList, pb.AuthRoleListRequest())).roles)

    async def role_add(self, name: str) -> None:
        """Create a role without permissions."""
        with contextlib.suppress(AlreadyThereError):
            await self._call(lambda auth: auth.RoleAdd, pb.AuthRoleAddRequest(name=name))

    async def role_permissions(self, name: str) -> set[tuple[bytes, bytes, int]]:
        """Return (first key, range end, kind) of each permission of a role."""
        reply = await self._call(lambda auth: auth.RoleGet, pb.AuthRoleGetRequest(role=name))
        return {(permission.key, permission.range_end, permission.permType) for permission in reply.perm}

    async def role_grant_prefix(self, name: str, prefix: str) -> None:
        """Let a role read and write all keys with this prefix."""
        permission = pb.Permission(permType=pb.Permission.READWRITE, key=prefix.encode(), range_end=prefix_end(prefix))
        await self._call(lambda auth: auth.RoleGrantPermission, pb.AuthRoleGrantPermissionRequest(name=name, perm=permission))

    async def role_revoke(self, name: str, key: bytes, range_end: bytes) -> None:
        """Take a permission from a role; not an error when it is gone."""
        request = pb.AuthRoleRevokePermissionRequest(role=name, key=key, range_end=range_end)
        try:
            await self._call(lambda auth: auth.RoleRevokePermission, request)
        except EtcdCallError as error:
            if "permission is not granted" not in str(error):
                raise

    async def _call(self, method: Callable[[AuthStub], UnaryUnaryMethod[Request, Reply]], request: Request) -> Reply:
        return await self._endpoints.call(AuthStub, method, request, timeout_s=self._timeout_s)
