"""Patches do what the RFCs say, and a difference turns one document into the other."""

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from volcano.kube.patches.patch import PatchError, diff, json_patch, merge_diff, merge_patch, same


@pytest.mark.parametrize(
    ("document", "operations", "expected"),
    [
        pytest.param({"a": 1}, [{"op": "add", "path": "/b", "value": 2}], {"a": 1, "b": 2}, id="add"),
        pytest.param([1, 3], [{"op": "add", "path": "/1", "value": 2}], [1, 2, 3], id="insert"),
        pytest.param([1], [{"op": "add", "path": "/-", "value": 2}], [1, 2], id="append"),
        pytest.param({"a": 1}, [{"op": "add", "path": "/a", "value": 2}], {"a": 2}, id="add replaces"),
        pytest.param({"a": {"b": 1}}, [{"op": "remove", "path": "/a/b"}], {"a": {}}, id="remove"),
        pytest.param([1, 2], [{"op": "remove", "path": "/0"}], [2], id="remove from a list"),
        pytest.param({"a": 1}, [{"op": "replace", "path": "/a", "value": None}], {"a": None}, id="replace"),
        pytest.param({"a": 1}, [{"op": "replace", "path": "", "value": [1]}], [1], id="whole document"),
        pytest.param({"a": 1}, [{"op": "move", "from": "/a", "path": "/b"}], {"b": 1}, id="move"),
        pytest.param(
            {"a": [1]}, [{"op": "copy", "from": "/a", "path": "/b"}], {"a": [1], "b": [1]}, id="copy"
        ),
        pytest.param({"a": 1}, [{"op": "test", "path": "/a", "value": 1}], {"a": 1}, id="test"),
        pytest.param({"a/b": {"~": 1}}, [{"op": "remove", "path": "/a~1b/~0"}], {"a/b": {}}, id="escapes"),
        pytest.param({"": 1}, [{"op": "remove", "path": "/"}], {}, id="the empty key"),
    ],
)
def test_json_patch_operations(document: Any, operations: list[Any], expected: Any) -> None:
    before = copy.deepcopy(document)
    assert json_patch(document, operations) == expected
    assert document == before


@pytest.mark.parametrize(
    ("document", "operation", "says"),
    [
        ({}, {"op": "remove", "path": "/a"}, "there is nothing at '/a'"),
        ({}, {"op": "replace", "path": "/a", "value": 1}, "there is nothing at '/a'"),
        ({}, {"op": "add", "path": "/a/b", "value": 1}, "there is nothing at '/a'"),
        ([1], {"op": "add", "path": "/3", "value": 1}, "beyond the end"),
        ([1], {"op": "remove", "path": "/01"}, "not an index"),
        ([1], {"op": "remove", "path": "/-"}, "not an index"),
        ({"a": 1}, {"op": "test", "path": "/a", "value": 2}, "not the one tested for"),
        ({"a": True}, {"op": "test", "path": "/a", "value": 1}, "not the one tested for"),
        ({"a": 1}, {"op": "add", "path": "/a/b", "value": 1}, "leads into a number"),
        ({"a": {}}, {"op": "move", "from": "/a", "path": "/a/b"}, "into itself"),
        ({}, {"op": "add", "path": "/a"}, "no value"),
        ({}, {"op": "sing", "path": "/a"}, "unknown operation 'sing'"),
        ({}, {"op": "add", "path": "a", "value": 1}, "not a JSON pointer"),
        ({}, {"op": "remove", "path": ""}, "cannot be removed"),
        ({}, "add", "an operation is an object"),
    ],
)
def test_json_patches_that_cannot_apply_say_why(document: Any, operation: Any, says: str) -> None:
    with pytest.raises(PatchError) as refusal:
        json_patch(document, [operation])
    assert says in str(refusal.value)


def test_a_json_patch_is_a_list() -> None:
    with pytest.raises(PatchError, match="list of operations, not an object"):
        json_patch({}, {"op": "add"})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("document", "patch", "expected"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": [1]}, {"a": [2]}, {"a": [2]}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": None}}, {"a": {"c": 2}}),
        ({"a": "b"}, ["c"], ["c"]),
        ({}, {"a": {"b": {"c": None}}}, {"a": {"b": {}}}),
        ([1], {"a": 1}, {"a": 1}),
    ],
)
def test_merge_patch(document: Any, patch: Any, expected: Any) -> None:
    assert merge_patch(document, patch) == expected


SCALARS = st.one_of(st.booleans(), st.integers(-3, 3), st.text("ab/~", max_size=2))
WITH_NULL = st.recursive(
    st.one_of(SCALARS, st.none()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text("ab/~", max_size=2), inner)),
    max_leaves=12,
)
WITHOUT_NULL = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text("ab", max_size=2), inner)),
    max_leaves=12,
)


@settings(deadline=None)
@given(WITH_NULL, WITH_NULL)
def test_the_difference_turns_one_document_into_the_other(before: Any, after: Any) -> None:
    assert same(json_patch(before, diff(before, after)), after)
    assert diff(before, before) == []


@settings(deadline=None)
@given(
    st.dictionaries(st.text("ab", max_size=2), WITHOUT_NULL),
    st.dictionaries(st.text("ab", max_size=2), WITHOUT_NULL),
)
def test_the_merge_difference_turns_one_document_into_the_other(before: Any, after: Any) -> None:
    patch = merge_diff(before, after)
    assert same(before if patch is None else merge_patch(before, patch), after)
    assert (patch is None) == same(before, after)
