"""What nodes have left is what their tasks, taken one by one, leave them."""

from typing import Any

import numpy as np
import orjson
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import node, pod
from volcano.model.node_cache import NodeCache
from volcano.model.parse import Parser
from volcano.model.status import Status
from volcano.model.task import Task

PARSER = Parser()
NAMES = ("n1", "n2", "n3")
NODES = {name: PARSER.node(orjson.dumps(node(name, cpu=8))) for name in NAMES}
APART = {
    "affinity": {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "x"}}}
            ]
        }
    }
}
TASKS = {
    f"{name}-{number}": PARSER.pod(
        orjson.dumps(
            pod(
                f"{name}-{number}",
                cpu=number,
                node=name,
                phase="Running",
                deleting=number == 3,
                spec=APART if number == 2 else None,
            )
        )
    )
    for name in NAMES
    for number in (1, 2, 3)
}

STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["put", "remove", "free"]), st.sampled_from(NAMES)),
        st.tuples(st.sampled_from(["add", "discard"]), st.sampled_from(sorted(TASKS))),
        st.tuples(st.just("view"), st.just("")),
    ),
    max_size=25,
)


def expected(tasks: list[Task]) -> tuple[list[float], list[float], list[float]]:
    """Used, releasing and what scoring counts, added up one by one."""
    used, releasing, nonzero = np.zeros(3), np.zeros(3), np.zeros(2)
    for task in tasks:
        used += task.shape.request
        nonzero += task.shape.nonzero_request
        if task.status is Status.RELEASING:
            releasing += task.shape.request
    return list(used), list(releasing), list(nonzero)


@given(STEPS)
def test_whatever_comes_and_goes_nodes_are_used_by_the_tasks_on_them(steps: list[tuple[str, str]]) -> None:
    cache = NodeCache(PARSER.shapes.index)
    there: list[str] = []
    on: dict[str, Task] = {}
    for what, name in steps:
        match what:
            case "put":
                cache.put(NODES[name])
                there += [name] if name not in there else []
            case "remove":
                cache.remove(name)
                there = [other for other in there if other != name]
            case "add" if name not in on:
                on[name] = TASKS[name]
                cache.add(on[name])
            case "discard" if name in on:
                cache.discard(on.pop(name))
            case "free":
                assert (room := cache.free(name)) is None or room[0] == 8000 - used_on(on, name)
            case "view":
                check(cache, there, on)
    check(cache, there, on)


def used_on(on: dict[str, Task], node_name: str) -> float:
    return float(sum(task.shape.request[0] for task in on.values() if task.node == node_name))


def check(cache: NodeCache, there: list[str], on: dict[str, Task]) -> None:
    view: Any = cache.view()
    assert [found.name for found in view.nodes] == there
    assert view.pod_terms == any(task.shape.has_pod_terms for task in on.values() if task.node in there)
    for name in there:
        row, tasks = view.row_of[name], [task for task in on.values() if task.node == name]
        shown = (list(view.used[row]), list(view.releasing[row]), list(view.nonzero_used[row]))
        assert shown == expected(tasks)
        assert set(view.tasks_on[row]) == {task.uid for task in tasks}


def test_values_derived_from_nodes_are_kept_until_a_node_changes() -> None:
    cache = NodeCache(PARSER.shapes.index)
    cache.put(NODES["n1"])
    kept = cache.view().node_values
    kept["columns"] = "of one node"
    cache.add(TASKS["n1-1"])
    assert cache.view().node_values is kept, "a pod does not change a node"
    cache.put(NODES["n2"])
    assert cache.view().node_values == {}
    cache.view().node_values["columns"] = "of two nodes"
    cache.remove("n1")
    assert cache.view().node_values == {}
