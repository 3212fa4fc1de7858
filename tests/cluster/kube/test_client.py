# SPDX-License-Identifier: Apache-2.0
"""The client's verbs against the real API server."""

from __future__ import annotations

import asyncio
import base64
import sys
from pathlib import Path

import pytest
import yaml

from controller_runtime.kube.client import KubeClient
from controller_runtime.kube.config import load_config
from controller_runtime.kube.errors import (
    AlreadyExistsError,
    ConflictError,
    ForbiddenError,
    GoneError,
    InvalidError,
    NotFoundError,
    UnauthorizedError,
)
from controller_runtime.kube.kind import CONFIG_MAP, DEPLOYMENT, NAMESPACE, Kind, uid_of
from tests.support.control_plane import ControlPlane, kubeconfig_bytes
from tests.support.eventually import eventually
from tests.support.objects import config_map, deployment

pytestmark = pytest.mark.cluster


def client_of(plane: ControlPlane, **options: object) -> KubeClient:
    return KubeClient(load_config(str(plane.kubeconfig)), **options)  # type: ignore[arg-type]  # options of the constructor


async def test_apply_without_force_is_refused_for_a_field_of_another_manager(
    client: KubeClient, control_plane: ControlPlane, namespace: str
) -> None:
    other = client_of(control_plane, field_manager="other")
    await other.apply(config_map(namespace, "shared", a="theirs", b="theirs"))

    with pytest.raises(ConflictError, match="other"):
        await client.apply(config_map(namespace, "shared", a="ours"), force=False)
    await other.close()


async def test_apply_with_force_takes_only_the_fields_it_names(client: KubeClient, control_plane: ControlPlane, namespace: str) -> None:
    other = client_of(control_plane, field_manager="other")
    await other.apply(config_map(namespace, "shared", a="theirs", b="theirs"))

    taken = await client.apply(config_map(namespace, "shared", a="ours", c="ours"))
    assert taken["data"] == {"a": "ours", "b": "theirs", "c": "ours"}

    dropped = await client.apply(config_map(namespace, "shared", a="ours"))
    assert dropped["data"] == {"a": "ours", "b": "theirs"}, "a field we no longer name is removed when it was ours alone"
    await other.close()


async def test_an_unchanged_apply_writes_nothing(client: KubeClient, namespace: str) -> None:
    first = await client.apply(config_map(namespace, "same", a="1"))
    second = await client.apply(config_map(namespace, "same", a="1"))

    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


async def test_apply_with_a_uid_never_recreates_a_deleted_object(client: KubeClient, namespace: str) -> None:
    obj = config_map(namespace, "gone", a="1")
    obj["metadata"]["uid"] = uid_of(await client.create(obj))
    await client.delete(CONFIG_MAP, "gone", namespace)

    with pytest.raises(ConflictError):
        await client.apply(obj)


async def test_status_and_spec_are_written_apart(client: KubeClient, namespace: str) -> None:
    created = await client.apply(deployment(namespace, "web", replicas=3))

    with_status = await client.apply_status({**created, "spec": {"replicas": 9}, "status": {"replicas": 3, "observedGeneration": 1}})
    assert with_status["spec"]["replicas"] == 3
    assert with_status["status"]["replicas"] == 3

    with_spec = await client.apply({**deployment(namespace, "web", replicas=5), "status": {"replicas": 7}})
    assert with_spec["spec"]["replicas"] == 5
    assert with_spec["status"]["replicas"] == 3

    patched = await client.patch(DEPLOYMENT, "web", namespace, {"status": {"replicas": 4}}, subresource="status")
    assert patched["status"]["replicas"] == 4


async def test_each_patch_type_reaches_the_server_as_what_it_is(client: KubeClient, namespace: str) -> None:
    await client.create(config_map(namespace, "p", a="1", b="1"))

    merged = await client.patch(CONFIG_MAP, "p", namespace, {"data": {"a": None, "c": "2"}})
    assert merged["data"] == {"b": "1", "c": "2"}
    by_operation = await client.patch(CONFIG_MAP, "p", namespace, [{"op": "replace", "path": "/data/b", "value": "3"}], "json")
    assert by_operation["data"] == {"b": "3", "c": "2"}
    strategic = await client.patch(CONFIG_MAP, "p", namespace, {"data": {"$patch": "replace", "d": "4"}}, "strategic")
    assert strategic["data"] == {"d": "4"}


async def test_a_dry_run_leaves_nothing_behind(client: KubeClient, namespace: str) -> None:
    assert uid_of(await client.apply(config_map(namespace, "dry"), dry_run=True))
    with pytest.raises(NotFoundError):
        await client.get(CONFIG_MAP, "dry", namespace)


async def test_1200_objects_come_in_three_pages_of_one_version(control_plane: ControlPlane, client: KubeClient, namespace: str) -> None:
    names = iter(range(1200))

    async def create() -> None:
        for number in names:
            await client.create(config_map(namespace, f"cm-{number:04}"))

    await asyncio.gather(*(create() for _ in range(32)))
    counting = CountingLimiter()
    reader = client_of(control_plane, limiter=counting)

    items, version = await reader.list(CONFIG_MAP, namespace)

    assert [item["metadata"]["name"] for item in items] == [f"cm-{number:04}" for number in range(1200)]
    assert {(item["apiVersion"], item["kind"]) for item in items} == {("v1", "ConfigMap")}
    assert int(version) > 0
    assert counting.calls == 3
    await reader.close()


async def test_a_list_whose_continue_token_expires_is_still_complete(
    control_plane: ControlPlane, client: KubeClient, namespace: str
) -> None:
    for number in range(6):
        await client.create(config_map(namespace, f"cm-{number}"))
    expiring = ExpireBeforeSecondCall(control_plane)
    reader = client_of(control_plane, limiter=expiring)

    items, _ = await reader.list(CONFIG_MAP, namespace, page_size=2)

    assert [item["metadata"]["name"] for item in items] == [f"cm-{number}" for number in range(6)]
    assert expiring.calls == 3, "page one, the refused page two, everything at once"
    await reader.close()


async def test_a_watch_from_a_compacted_version_says_gone(control_plane: ControlPlane, client: KubeClient, namespace: str) -> None:
    old = await client.create(config_map(namespace, "old"))
    await client.create(config_map(namespace, "newer"))
    control_plane.compact()
    control_plane.restart_api_server()

    with pytest.raises(GoneError):
        async for _ in client.watch(CONFIG_MAP, namespace, resource_version=old["metadata"]["resourceVersion"], timeout_s=5):
            pass


async def test_delete_refuses_a_successor_of_the_same_name(client: KubeClient, namespace: str) -> None:
    first = await client.create(config_map(namespace, "reused"))
    await client.delete(CONFIG_MAP, "reused", namespace, uid=uid_of(first))
    second = await client.create(config_map(namespace, "reused"))

    with pytest.raises(ConflictError):
        await client.delete(CONFIG_MAP, "reused", namespace, uid=uid_of(first))
    with pytest.raises(ConflictError):
        await client.delete(CONFIG_MAP, "reused", namespace, resource_version=first["metadata"]["resourceVersion"])
    assert uid_of(await client.get(CONFIG_MAP, "reused", namespace)) == uid_of(second)


async def test_replace_with_an_old_version_is_a_conflict(client: KubeClient, namespace: str) -> None:
    old = await client.create(config_map(namespace, "r", a="1"))
    await client.replace({**old, "data": {"a": "2"}})

    with pytest.raises(ConflictError):
        await client.replace({**old, "data": {"a": "3"}})


async def test_refusals_have_the_class_of_their_reason(
    client: KubeClient, control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    await client.create(config_map(namespace, "taken"))
    with pytest.raises(AlreadyExistsError, match="taken"):
        await client.create(config_map(namespace, "taken"))
    with pytest.raises(InvalidError, match="Not_A_Name"):
        await client.create(config_map(namespace, "Not_A_Name"))
    with pytest.raises(NotFoundError):
        await client.list(Kind("example.com", "v1", "Nothing", "nothings"))
    stranger_file = tmp_path / "stranger"
    stranger_file.write_bytes(control_plane.kubeconfig_for("stranger"))
    stranger = KubeClient(load_config(str(stranger_file)))
    with pytest.raises(ForbiddenError, match="stranger"):
        await stranger.get(NAMESPACE, namespace)
    await stranger.close()


async def test_a_rotated_token_is_read_again_when_the_old_one_is_refused(
    client: KubeClient, control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    token_file, kubeconfig = tmp_path / "token", tmp_path / "kubeconfig"
    token_file.write_text("expired")
    kubeconfig.write_bytes(kubeconfig_bytes(control_plane.url, control_plane.ca_file, {"tokenFile": "token"}))
    pod_like = KubeClient(load_config(str(kubeconfig)))
    with pytest.raises(UnauthorizedError):
        await pod_like.get(NAMESPACE, namespace)

    token_file.write_text(await service_account_token(client, namespace))

    assert (await pod_like.get(NAMESPACE, namespace))["metadata"]["name"] == namespace
    await pod_like.close()


async def test_a_token_from_an_exec_plugin_opens_the_door(
    client: KubeClient, control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    token_file = tmp_path / "token"
    token_file.write_text(await service_account_token(client, namespace))
    plugin = tmp_path / "plugin.py"
    plugin.write_text(
        "import json, os, pathlib\n"
        "asked = json.loads(os.environ['KUBERNETES_EXEC_INFO'])\n"
        "token = pathlib.Path(os.environ['TOKEN_FILE']).read_text()\n"
        "print(json.dumps({'apiVersion': asked['apiVersion'], 'kind': 'ExecCredential', 'status': {'token': token}}))\n"
    )
    user: dict[str, object] = {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": sys.executable,
            "args": [str(plugin)],
            "env": [{"name": "TOKEN_FILE", "value": str(token_file)}],
            "interactiveMode": "Never",
        }
    }
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_bytes(kubeconfig_bytes(control_plane.url, control_plane.ca_file, user))
    by_plugin = KubeClient(load_config(str(kubeconfig)))

    assert (await by_plugin.get(NAMESPACE, namespace))["metadata"]["name"] == namespace
    await by_plugin.close()


async def test_certificates_embedded_as_data_work_like_files(control_plane: ControlPlane, namespace: str, tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(with_embedded_files(control_plane.kubeconfig))
    embedded = KubeClient(load_config(str(kubeconfig)))

    assert (await embedded.get(NAMESPACE, namespace))["metadata"]["name"] == namespace
    await embedded.close()


def with_embedded_files(kubeconfig: Path) -> str:
    document = yaml.safe_load(kubeconfig.read_bytes())
    cluster, user = document["clusters"][0]["cluster"], document["users"][0]["user"]
    for section, key in ((cluster, "certificate-authority"), (user, "client-certificate"), (user, "client-key")):
        section[f"{key}-data"] = base64.b64encode(Path(section.pop(key)).read_bytes()).decode()
    return str(yaml.safe_dump(document))


async def service_account_token(client: KubeClient, namespace: str) -> str:
    """A token of a service account that may do everything, once the authorizer knows."""
    await client.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"namespace": namespace, "name": "reader"}})
    await client.create(
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": f"reader-{namespace}"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "namespace": namespace, "name": "reader"}],
        }
    )
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": f"system:serviceaccount:{namespace}:reader", "resourceAttributes": {"verb": "get", "resource": "namespaces"}},
    }

    async def is_allowed() -> bool:
        answer = await client.call("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
        return bool(answer["status"]["allowed"])

    await eventually(is_allowed, "the service account is allowed to read namespaces")
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 600}}
    answer = await client.call("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts/reader/token", request)
    return str(answer["status"]["token"])


class CountingLimiter:
    def __init__(self) -> None:
        self.calls = 0

    async def acquire(self) -> None:
        self.calls += 1


class ExpireBeforeSecondCall(CountingLimiter):
    """Compacts etcd and empties the server's watch cache between the first and the second page."""

    def __init__(self, plane: ControlPlane) -> None:
        super().__init__()
        self._plane = plane

    async def acquire(self) -> None:
        await super().acquire()
        if self.calls == 2:
            client = client_of(self._plane)
            await client.create(config_map("default", "moves-the-revision"))
            await client.close()
            self._plane.compact()
            self._plane.restart_api_server()
