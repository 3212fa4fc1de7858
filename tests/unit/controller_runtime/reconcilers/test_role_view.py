# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from controller_runtime.api.instance_set import InstanceSet
from controller_runtime.api.labels import APPLIED_HASH, INSTANCE_SET_NAME, SCHEDULING_STRATEGY, SERVICE_NAME
from controller_runtime.reconcilers.role_view import RoleView, controller_reference
from tests.support.infer import instance_set_object, role, stored


def test_v17_a_hand_written_instance_set_without_labels_is_named_after_itself_and_its_role() -> None:
    view = RoleView.of(InstanceSet.model_validate(stored(instance_set_object("mine", role("decode")))), {})

    assert (view.service, view.role) == ("mine", "decode")
    assert view.labels == {SERVICE_NAME: "mine", INSTANCE_SET_NAME: "decode", SCHEDULING_STRATEGY: "Parallel"}


def test_v17_the_owner_stands_in_for_a_missing_label() -> None:
    obj = stored(instance_set_object("x-0-decode", role("decode")))
    obj["metadata"]["ownerReferences"] = [controller_reference("InferService", "x-0", "u")]

    assert RoleView.of(InstanceSet.model_validate(obj), {}).service == "x-0"


def test_labels_win_over_names() -> None:
    labels = {SERVICE_NAME: "vllm-0", INSTANCE_SET_NAME: "prefill"}
    view = RoleView.of(InstanceSet.model_validate(stored(instance_set_object("other", role("decode"), labels))), {})

    assert (view.service, view.role) == ("vllm-0", "prefill")


def test_our_own_bookkeeping_is_not_handed_down() -> None:
    obj = stored(instance_set_object("x", role()))
    obj["metadata"]["annotations"] = {APPLIED_HASH: "0", "note": "n"}

    assert RoleView.of(InstanceSet.model_validate(obj), {}).annotations == {"note": "n"}
