"""However an object is come by, it is what its bytes say."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.apiserver.registries import config_map
from volcano.apiserver.storage.content_cache import ContentCache
from volcano.apiserver.storage.decoded_cache import KEPT, LARGEST, decode
from volcano.apiserver.storage.store import Store
from volcano.kube.api.manifest import Key, Manifest

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(),
)
VALUES = st.recursive(SCALARS, lambda each: st.lists(each) | st.dictionaries(st.text(), each), max_leaves=8)
PARTS = st.dictionaries(st.text(max_size=4), VALUES, max_size=3)
OBJECTS = st.fixed_dictionaries(
    {
        "apiVersion": st.just("v1"),
        "kind": st.just("Pod"),
        "metadata": PARTS | st.fixed_dictionaries({"managedFields": st.lists(PARTS, max_size=2)}),
    },
    optional={"spec": PARTS, "status": PARTS, "data": PARTS},
)


@given(st.lists(OBJECTS, min_size=1, max_size=4))
def test_an_object_that_shares_its_spec_is_decoded_as_if_it_did_not(objects: list[Manifest]) -> None:
    specs: ContentCache[Any] = ContentCache()
    for manifest in [*objects, *objects]:
        data = orjson.dumps(manifest)
        decoded = decode(data, specs)
        assert decoded == orjson.loads(data)
        assert orjson.loads(orjson.dumps(decoded)) == orjson.loads(data)


def test_objects_with_specs_alike_share_one() -> None:
    specs: ContentCache[Any] = ContentCache()
    pods = [
        decode(
            orjson.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"a": [1]}}),
            specs,
        )
        for name in "ab"
    ]
    assert pods[0]["spec"] is pods[1]["spec"]


@pytest.mark.parametrize("size", [10, LARGEST], ids=["small", "too large to be kept decoded"])
def test_the_manifest_of_a_record_is_what_its_data_says(size: int) -> None:
    store = Store()
    written = [store.put("configmaps", config_map(f"m{n}", text="x" * size), None) for n in range(3)]
    for record in written:
        assert store.manifest(record) == orjson.loads(record.data)


def test_objects_written_long_ago_are_decoded_again() -> None:
    store = Store()
    first = store.put("configmaps", config_map("first", text="x"), None)
    for number in range(KEPT + 1):
        record = store.get("configmaps", Key("default", "other"))
        store.put("configmaps", config_map("other", text=str(number)), record)
    assert store.manifest(first) == orjson.loads(first.data)
