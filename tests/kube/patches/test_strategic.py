"""Strategic merge patches do what a real API server does with them."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from volcano.kube.api import type_info
from volcano.kube.patches.patch import PatchError
from volcano.kube.patches.strategic import strategic_merge


def merged(current: Any, patch: Any) -> Any:
    before = copy.deepcopy((current, patch))
    result = strategic_merge(type_info.named("core.v1.Pod"), current, patch)
    assert (current, patch) == before
    return result


def containers(*items: Any) -> Any:
    return {"spec": {"containers": list(items)}}


@pytest.mark.parametrize(
    ("current", "patch", "expected"),
    [
        pytest.param(
            containers({"name": "a", "image": "1"}, {"name": "b"}),
            containers({"name": "a", "image": "2"}),
            containers({"name": "a", "image": "2"}, {"name": "b"}),
            id="elements merge by key",
        ),
        pytest.param(
            containers({"name": "a"}),
            containers({"name": "b", "image": None}),
            containers({"name": "b"}, {"name": "a"}),
            id="new elements come first, without nulls",
        ),
        pytest.param(
            containers({"name": "a"}, {"name": "b"}),
            containers({"name": "a", "$patch": "delete"}),
            containers({"name": "b"}),
            id="an element is deleted",
        ),
        pytest.param(
            containers({"name": "a"}, {"name": "b"}),
            containers({"name": "c"}, {"$patch": "replace"}),
            containers({"name": "c"}),
            id="a list is replaced",
        ),
        pytest.param(
            {"spec": {"nodeSelector": {"a": "1"}}},
            {"spec": {"nodeSelector": {"b": "2", "$patch": "replace"}}},
            {"spec": {"nodeSelector": {"b": "2"}}},
            id="an object is replaced",
        ),
        pytest.param(
            {"spec": {"nodeSelector": {"a": "1"}}},
            {"spec": {"nodeSelector": {"$patch": "delete"}}},
            {"spec": {"nodeSelector": {}}},
            id="an object is emptied",
        ),
        pytest.param(
            {"metadata": {"labels": {"a": "1", "b": "2"}}},
            {"metadata": {"labels": {"a": None, "c": "3"}}},
            {"metadata": {"labels": {"b": "2", "c": "3"}}},
            id="null removes",
        ),
        pytest.param(
            {"spec": {"tolerations": [{"key": "a"}]}},
            {"spec": {"tolerations": [{"key": "b"}]}},
            {"spec": {"tolerations": [{"key": "b"}]}},
            id="atomic lists are replaced",
        ),
        pytest.param(
            {"metadata": {"finalizers": ["a", "b"]}},
            {"metadata": {"finalizers": ["c"], "$deleteFromPrimitiveList/finalizers": ["a"]}},
            {"metadata": {"finalizers": ["c", "b"]}},
            id="lists of scalars merge and lose what is named",
        ),
        pytest.param(
            {"metadata": {"finalizers": ["a", "b", "z"]}},
            {"metadata": {"$setElementOrder/finalizers": ["b", "a"]}},
            {"metadata": {"finalizers": ["b", "a", "z"]}},
            id="order alone changes",
        ),
        pytest.param(
            containers({"name": "a"}, {"name": "x"}, {"name": "b"}),
            {
                "spec": {
                    "containers": [{"name": "c"}],
                    "$setElementOrder/containers": [{"name": "b"}, {"name": "c"}, {"name": "a"}],
                }
            },
            containers({"name": "x"}, {"name": "b"}, {"name": "c"}, {"name": "a"}),
            id="elements the patch does not name keep their place before those they preceded",
        ),
        pytest.param(
            containers({"name": "sidecar"}, {"name": "old"}),
            {
                "spec": {
                    "containers": [{"name": "new"}, {"name": "old", "$patch": "delete"}],
                    "$setElementOrder/containers": [{"name": "new"}],
                }
            },
            containers({"name": "sidecar"}, {"name": "new"}),
            id="a new element takes the place of a deleted one",
        ),
        pytest.param(
            {"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}},
            {
                "spec": {
                    "volumes": [
                        {"name": "v", "hostPath": {"path": "/x"}, "$retainKeys": ["name", "hostPath"]}
                    ]
                }
            },
            {"spec": {"volumes": [{"name": "v", "hostPath": {"path": "/x"}}]}},
            id="only retained keys stay",
        ),
        pytest.param(
            containers({"name": "a", "ports": [{"containerPort": 1, "name": "x"}, {"containerPort": 2}]}),
            containers({"name": "a", "ports": [{"containerPort": 1, "name": "y"}]}),
            containers({"name": "a", "ports": [{"containerPort": 1, "name": "y"}, {"containerPort": 2}]}),
            id="lists in lists merge by their own key",
        ),
        pytest.param({}, containers({"name": "a"}), containers({"name": "a"}), id="what was absent is added"),
        pytest.param(
            {"spec": {}}, containers({"name": "a", "$patch": "delete"}), containers(), id="nothing to delete"
        ),
    ],
)
def test_strategic_merge(current: Any, patch: Any, expected: Any) -> None:
    assert merged(current, patch) == expected


# Patches that kubectl's own code made between two pods, applied by it to one of them or to a third.
RECORDED = [
    json.loads(line) for line in (Path(__file__).parents[1] / "data/strategic.jsonl").read_text().splitlines()
]


@pytest.mark.parametrize("recorded", RECORDED)
def test_a_recorded_patch_does_what_it_did(recorded: Any) -> None:
    assert merged(recorded["current"], recorded["patch"]) == recorded["expected"]


@pytest.mark.parametrize(
    ("patch", "says"),
    [
        (containers({"image": "x"}), "merge key: name"),
        ({"spec": {"$patch": "sing"}}, "unknown patch type: sing"),
        (containers({"name": "a", "$patch": "merge"}), "unknown patch type: merge"),
        ({"spec": {"$setElementOrder/containers": "a"}}, "setElementOrder"),
        ({"spec": {"containers": [{"name": "b"}], "$setElementOrder/containers": [{"name": "a"}]}}, "order"),
        ({"spec": {"$retainKeys": ["containers"], "nodeName": "n"}}, "retainKeys"),
        ({"metadata": {"$deleteFromPrimitiveList/finalizers": "x"}}, "primitive list"),
        (containers({"name": ["a"]}), "must be a plain value"),
        ({"metadata": {"finalizers": [["f"]]}}, "plain values"),
    ],
)
def test_malformed_patches_are_refused(patch: Any, says: str) -> None:
    with pytest.raises(PatchError, match=says):
        merged(containers({"name": "a"}) | {"metadata": {"finalizers": ["f"]}}, patch)


def test_a_patch_must_be_an_object() -> None:
    with pytest.raises(PatchError, match="must be an object"):
        strategic_merge(type_info.named("core.v1.Pod"), {}, [])  # type: ignore[arg-type]
