"""Nodes that administrators reserved: for maintenance, for a queue, and until when jobs may use them."""

from typing import Any

import pytest

from tests.builders import START, job, metadata, node, queue
from tests.scenario import Result, cluster_of, schedule
from volcano.base.clock import timestamp
from volcano.kube.api.manifest import Manifest
from volcano.scheduler.snapshot_file import load, save

HOUR = 3600.0
PLUGINS = ("reservation", "gang", "predicates")


def window(start: float, end: float, **spec: Any) -> Manifest:
    """A NodeReservation, in hours from now."""
    times = {"startTime": timestamp(START + start * HOUR), "endTime": timestamp(START + end * HOUR)}
    return {
        "apiVersion": "reservation.volcano.sh/v1alpha1",
        "kind": "NodeReservation",
        "metadata": metadata("upgrade"),
        "spec": {"nodes": {"names": ["n1"]}, **times, **spec},
    }


def run(reservation: Manifest, *, walltime: str = "", in_queue: str = "default", nodes: int = 1) -> Result:
    annotations = {"volcano.sh/walltime": walltime} if walltime else {}
    return schedule(
        nodes=[node(f"n{i + 1}", labels={"pool": "a" if i < 2 else "b"}) for i in range(nodes)],
        queues=[queue("default"), queue("research"), queue("vision", parent="research")],
        jobs=[job("j", 1, queue=in_queue, group={"annotations": annotations})],
        others=[reservation],
        plugins=PLUGINS,
    )


@pytest.mark.parametrize(
    ("start", "end", "walltime", "placed"),
    [
        pytest.param(-1, 1, "", False, id="in the window"),
        pytest.param(-1, 1, "1m", False, id="in the window, however short"),
        pytest.param(-2, -1, "", True, id="after the window"),
        pytest.param(2, 3, "", False, id="it may run into the window"),
        pytest.param(2, 3, "1h", True, id="it ends before"),
        pytest.param(2, 3, "2h", True, id="it ends just before"),
        pytest.param(2, 3, "2h1m", False, id="it would run into the window"),
    ],
)
def test_a_job_is_placed_only_if_it_ends_before_the_window(
    start: float, end: float, walltime: str, placed: bool
) -> None:
    result = run(window(start, end), walltime=walltime)
    assert bool(result.bound()) is placed
    if not placed:
        assert "1 node(s) were reserved by upgrade" in result.condition("j")


@pytest.mark.parametrize(("lead", "placed"), [("1h", True), ("3h", False)])
def test_pods_without_a_walltime_are_kept_out_for_the_lead_time_only(lead: str, placed: bool) -> None:
    assert bool(run(window(2, 3, leadTime=lead)).bound()) is placed


@pytest.mark.parametrize(("in_queue", "placed"), [("default", False), ("research", True), ("vision", True)])
def test_the_queue_of_the_window_and_those_below_it_may_use_the_nodes(in_queue: str, placed: bool) -> None:
    assert bool(run(window(-1, 1, queue="research"), in_queue=in_queue).bound()) is placed


def test_other_nodes_are_used_meanwhile() -> None:
    assert run(window(-1, 1), nodes=2).bound() == {"j-worker-0": "n2"}


def test_nodes_are_selected_by_labels_and_counted_by_name() -> None:
    assert run(window(-1, 1, nodes={"selector": {"matchLabels": {"pool": "a"}}}), nodes=3).bound() == {
        "j-worker-0": "n3"
    }
    one = {"selector": {"matchLabels": {"pool": "a"}}, "count": 1}
    assert run(window(-1, 1, nodes=one), nodes=2).bound() == {"j-worker-0": "n2"}


def test_without_the_plugin_reservations_have_no_effect() -> None:
    result = schedule(nodes=[node("n1")], jobs=[job("j")], others=[window(-1, 1)], plugins=("gang",))
    assert result.bound() == {"j-worker-0": "n1"}


def test_a_cycle_is_due_when_a_window_begins() -> None:
    assert run(window(2, 3), walltime="1h").outcome.due == START + 2 * HOUR


def test_a_snapshot_file_has_the_reservations() -> None:
    selected = window(-1, 1, nodes={"selector": {"matchLabels": {"pool": "a"}}})
    snapshot = cluster_of(nodes=[node("n1")], others=[selected]).snapshot(START)
    again, _ = load(save(snapshot, ""))
    assert again.node_reservations == snapshot.node_reservations
    assert len(again.node_reservations) == 1
