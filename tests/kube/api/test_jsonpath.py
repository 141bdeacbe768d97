"""Printer columns find what kubectl's JSONPath finds."""

from typing import Any

import pytest

from volcano.kube.api.jsonpath import compile_path

OBJECT = {
    "status": {
        "state": {"phase": "Running"},
        "conditions": [
            {"type": "Ready", "status": "True", "n": 3},
            {"type": "Synced", "status": "False", "n": None},
        ],
    },
    "spec": {"x": {"a.b": 1}, "list": [{"b": 1}, {"b": 2}], "a.b": 7},
}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (".status.state.phase", ["Running"]),
        ("{.status.state.phase}", ["Running"]),
        ("$.status.state.phase", ["Running"]),
        ("status.state.phase", ["Running"]),
        (".spec.list[0].b", [1]),
        (".spec.list[-1].b", [2]),
        (".spec.list[*].b", [1, 2]),
        (".spec.list[0:1].b", [1]),
        (".spec.x['a.b']", [1]),
        (r".spec.a\.b", [7]),
        ('.status.conditions[?(@.type=="Ready")].status', ["True"]),
        (".status.conditions[?(@.type == 'Synced')].status", ["False"]),
        ('.status.conditions[?(@.type!="Ready")].status', ["False"]),
        (".status.conditions[?(@.n>2)].type", ["Ready"]),
        (".status.conditions[?(@.n)].type", ["Ready", "Synced"]),
        ("..phase", ["Running"]),
        ("{..b}", [1, 2]),
        ("$..conditions[*].status", ["True", "False"]),
        (".status..type", ["Ready", "Synced"]),
        (".spec..['a.b']", [7, 1]),
        ("..[?(@.b==2)]", [{"b": 2}]),
        (".status.state..", [{"phase": "Running"}, "Running"]),
        (".status.state..*", ["Running"]),
        (".spec.x..", [{"a.b": 1}]),
        ("..missing", []),
        (".spec.missing.deeper", []),
        (".spec.list[9].b", []),
        (".status.state[0]", []),
    ],
)
def test_paths_lead_where_kubectl_goes(path: str, expected: list[Any]) -> None:
    assert compile_path(path).find(OBJECT) == expected
    assert compile_path(path).first(OBJECT) == (expected[0] if expected else None)


@pytest.mark.parametrize("path", [".a[", ".a[?(@.b", "...a", ".a b", ".a[x]"])
def test_paths_that_are_not_understood_are_refused(path: str) -> None:
    with pytest.raises(ValueError, match="JSONPath"):
        compile_path(path)


def test_descent_goes_as_deep_as_there_is_something() -> None:
    deep: Any = {"end": True}
    for _ in range(5000):
        deep = {"down": [deep]}
    assert compile_path("..end").find(deep) == [True]
