# SPDX-License-Identifier: Apache-2.0
"""The store: changes, projection, indexes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from controller_runtime.kube.kind import Object
from controller_runtime.kube.store import Store


def obj(name: str, version: str = "1", uid: str = "", colour: str = "", namespace: str = "ns") -> Object:
    metadata = {"namespace": namespace, "name": name, "resourceVersion": version, "uid": uid or f"uid-{name}", "managedFields": ["much"]}
    return {"metadata": metadata, "spec": {"colour": colour, "unread": "x" * 100}}


def by_colour(item: Object) -> list[str]:
    return [item["spec"]["colour"]] if item["spec"]["colour"] else []


def names(objects: list[Object]) -> list[str]:
    return [item["metadata"]["name"] for item in objects]


def test_an_object_is_projected_before_it_is_stored() -> None:
    def keep_colour(item: Object) -> Object:
        return {"metadata": item["metadata"], "spec": {"colour": item["spec"]["colour"]}}

    store = Store(keep_colour, {"colour": by_colour})
    [(_, told)] = store.upsert(obj("a", colour="red"))

    stored = store.get("ns", "a")
    assert stored is told
    assert stored is not None
    assert stored["spec"] == {"colour": "red"}


def test_field_ownership_is_dropped_by_default() -> None:
    store = Store()
    store.upsert(obj("a"))

    stored = store.get("ns", "a")
    assert stored is not None
    assert "managedFields" not in stored["metadata"]


def test_the_same_version_is_no_change() -> None:
    store = Store()
    assert len(store.upsert(obj("a", "1"))) == 1
    assert store.upsert(obj("a", "1")) == []
    [(old, new)] = store.upsert(obj("a", "2"))
    assert old is not None
    assert new is not None
    assert (old["metadata"]["resourceVersion"], new["metadata"]["resourceVersion"]) == ("1", "2")


def test_a_reused_name_is_a_delete_and_an_add() -> None:
    store = Store()
    store.upsert(obj("a", "1", uid="first"))
    changes = store.upsert(obj("a", "2", uid="second"))

    assert [(old and old["metadata"]["uid"], new and new["metadata"]["uid"]) for old, new in changes] == [("first", None), (None, "second")]


def test_replace_derives_the_deletes_nobody_saw() -> None:
    store = Store()
    store.replace([obj("stays"), obj("changes"), obj("goes")])
    changes = store.replace([obj("stays"), obj("changes", "2"), obj("comes")])

    told = [(old and old["metadata"]["name"], new and new["metadata"]["name"]) for old, new in changes]
    assert told == [("changes", "changes"), (None, "comes"), ("goes", None)]
    assert names(store.all()) == ["changes", "comes", "stays"]


def test_removing_an_unknown_object_is_no_change() -> None:
    assert Store().remove("ns", "never") == []


def test_cluster_wide_objects_have_no_namespace() -> None:
    store = Store()
    node = {"metadata": {"name": "node-0", "uid": "u", "resourceVersion": "1"}}
    store.upsert(node)

    assert store.get(None, "node-0") == store.get("", "node-0") == node


operations = st.lists(
    st.tuples(
        st.sampled_from(["upsert", "remove", "replace"]), st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["", "red", "blue"])))
    ),
    max_size=20,
)


@given(operations)
def test_indexes_always_agree_with_a_full_scan(steps: list[tuple[str, list[tuple[str, str]]]]) -> None:
    store = Store(indexes={"colour": by_colour})
    version = 0
    for operation, what in steps:
        objects = []
        for name, colour in dict(what).items():
            version += 1
            objects.append(obj(name, str(version), colour=colour))
        if operation == "replace":
            store.replace(objects)
        for item in objects:
            if operation == "upsert":
                store.upsert(item)
            elif operation == "remove":
                store.remove("ns", item["metadata"]["name"])
        for colour in ("red", "blue"):
            assert store.by_index("colour", colour) == [item for item in store.all() if item["spec"]["colour"] == colour]
    assert store.by_index("colour", "never seen") == []
