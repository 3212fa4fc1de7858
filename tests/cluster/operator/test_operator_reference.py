# SPDX-License-Identifier: Apache-2.0
"""Our objects on a real API server beside those the reference operator made of the same sets.

Every difference is listed with its reason in tests/data/reference/differences.yaml; an unlisted one fails, and so does a
listed one that no longer occurs.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

import pytest

from controller_runtime.kube.errors import InvalidError, NotFoundError
from controller_runtime.kube.kind import CONFIG_MAP, HORIZONTAL_POD_AUTOSCALER, INFER_SERVICE_SET, POD_GROUP, Object, name_of
from tests.support import volcano
from tests.support.operator_run import CHILDREN, Cluster, running_operator
from tests.support.ready_pods import ReadyPods
from tests.support.recording_client import RecordingClient
from tests.support.reference import DATA, differences, input_of, listed, observed, without_uids

pytestmark = pytest.mark.cluster

VARIANTS = sorted(each.name for each in DATA.iterdir() if each.is_dir())
NEVER_READY = {"defaults"}
REFUSED = {"strategy-unknown"}
KINDS = (*CHILDREN, POD_GROUP, HORIZONTAL_POD_AUTOSCALER, CONFIG_MAP)
CLUSTER_S_OWN = {"kube-root-ca.crt"}


def test_there_are_nine_observations_and_every_entry_is_about_some_of_them() -> None:
    assert len(VARIANTS) == 9
    assert {variant for entry in listed() for variant in entry.variants} <= set(VARIANTS)
    assert not [entry for entry in listed() if not entry.variants or not entry.reason]


@contextlib.asynccontextmanager
async def what_it_needs(variant: str, cluster: Cluster) -> AsyncIterator[None]:
    if variant == "gang":
        async with volcano.installed(cluster.client):
            yield
    else:
        yield


async def made(variant: str, cluster: Cluster, operator_client: RecordingClient) -> list[Object]:
    """Everything that comes of a set, once the operator rests."""
    given = input_of(variant)
    async with what_it_needs(variant, cluster), running_operator(operator_client):
        if variant in REFUSED:
            with pytest.raises(InvalidError):
                await cluster.write(given)
        else:
            await cluster.write(given)
            await (cluster.until_blocked if variant in NEVER_READY else cluster.until_ready)(INFER_SERVICE_SET, name_of(given))
        await cluster.until_quiet(operator_client, 100)
        objects: list[Object] = []
        for kind in KINDS:
            with contextlib.suppress(NotFoundError):
                objects += (await cluster.client.list(kind, cluster.namespace))[0]
    return [each for each in objects if name_of(each) not in CLUSTER_S_OWN]


@pytest.mark.parametrize("variant", VARIANTS)
async def test_every_difference_from_the_reference_is_listed(
    cluster: Cluster, operator_client: RecordingClient, pods: ReadyPods, variant: str
) -> None:
    found = list(differences(observed(variant), without_uids(await made(variant, cluster, operator_client))))
    entries = [entry for entry in listed() if variant in entry.variants]

    unlisted = [each for each in found if not any(entry.explains(each) for entry in entries)]
    ended = [entry for entry in entries if not any(entry.explains(each) for each in found)]
    assert not unlisted, "\n".join(map(str, unlisted))
    assert not ended, "\n".join(map(str, ended))
