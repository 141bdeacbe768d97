"""Sets of fields behave as sets, and format fields as in a real server's messages."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from volcano.kube.patches import fieldset
from volcano.kube.patches.fieldset import FieldSet, difference, intersection, union

PATHS = st.lists(
    st.lists(st.sampled_from(["f:a", "f:b", 'k:{"name":"x"}', 'v:"y"']), min_size=1, max_size=3), max_size=6
)


def tree(paths: list[list[str]]) -> FieldSet:
    """The set of exactly those paths."""
    result: FieldSet = {}
    for path in paths:
        node: FieldSet = {}
        for label in reversed(path):
            node = {label: node}
        result = union(result, node)
    return result


def members(fields: FieldSet) -> set[str]:
    return set(fieldset.paths(fields))


@settings(deadline=None)
@given(PATHS, PATHS)
def test_operations_are_those_of_sets(left: list[list[str]], right: list[list[str]]) -> None:
    a, b = tree(left), tree(right)
    assert members(union(a, b)) == members(a) | members(b)
    assert members(difference(a, b)) == members(a) - members(b)
    assert members(intersection(a, b)) == members(a) & members(b)
    assert difference(a, a) == {}
    assert union(a, a) == a


@settings(deadline=None)
@given(PATHS, PATHS)
def test_operations_change_nothing_given(left: list[list[str]], right: list[list[str]]) -> None:
    a, b = tree(left), tree(right)
    before = repr((a, b))
    union(a, b), difference(a, b), intersection(a, b)
    assert repr((a, b)) == before


def test_fields_are_named_as_in_messages() -> None:
    fields = {
        "f:spec": {
            "f:containers": {'k:{"name":"c"}': {".": {}, "f:image": {}}},
            "f:ports": {'k:{"containerPort":80,"protocol":"TCP"}': {}},
        },
        "f:metadata": {"f:finalizers": {'v:"x/y"': {}}, "f:labels": {"f:app.kubernetes.io/name": {}}},
    }
    assert list(fieldset.paths(fields)) == [
        '.metadata.finalizers[="x/y"]',
        ".metadata.labels.app.kubernetes.io/name",
        '.spec.containers[name="c"]',
        '.spec.containers[name="c"].image',
        '.spec.ports[containerPort=80,protocol="TCP"]',
    ]


def test_labels_hold_sorted_keys() -> None:
    assert (
        fieldset.key_element({"protocol": "TCP", "containerPort": 80})
        == 'k:{"containerPort":80,"protocol":"TCP"}'
    )
    assert fieldset.value_element("a") == 'v:"a"'


@pytest.mark.parametrize("fields", [[], {"a": {}}, {"f:a": 1}, {"x:a": {}}, {"k:[]": {}}, {"k:{": {}}])
def test_what_is_no_set_of_fields_is_refused(fields: Any) -> None:
    with pytest.raises(ValueError, match=r"label|object|list element|JSON|unexpected|EOF|input"):
        fieldset.check(fields)


def test_a_set_of_fields_passes() -> None:
    fieldset.check({"f:a": {".": {}, 'k:{"name":"x"}': {}, "v:1": {}, "i:0": {}}})
