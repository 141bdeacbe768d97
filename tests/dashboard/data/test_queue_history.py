"""Shares of queues over time."""

from tests.dashboard.data.builders import node, objects, queue
from volcano.dashboard.data.queue_history import MOST_LINES, queue_history, share_history
from volcano.dashboard.data.queues import QueueRow, queue_rows
from volcano.dashboard.samples import QueueSample, Sample

TOTAL = {"cpu": 10.0, "nvidia.com/gpu": 4.0}


def sample(at: float, **gpus: float) -> Sample:
    queues = {
        name: QueueSample({"nvidia.com/gpu": held, "cpu": 1.0}, {"nvidia.com/gpu": 2.0})
        for name, held in gpus.items()
    }
    return Sample(at, {}, TOTAL, queues)


def rows(*names: str) -> tuple[QueueRow, ...]:
    found = queue_rows(objects(NODE=[node("n", {"cpu": "10"})], QUEUE=[queue("root"), *map(queue, names)]))
    return tuple(row for row in found if row.name != "root")


def test_a_line_has_the_dominant_share_of_each_sample() -> None:
    found = share_history([sample(1.0, a=1, b=0), sample(2.0, a=4)], rows("a", "b"))
    assert found.lines == {"a": ((1000, 25.0), (2000, 100.0)), "b": ((1000, 10.0),)}
    assert found.sentence == "a 25 % to 100 %, b 10 % to 10 %"


def test_a_chart_has_a_line_for_the_largest_queues_only() -> None:
    names = [f"q{number}" for number in range(MOST_LINES + 3)]
    assert len(share_history([], rows(*names)).lines) == MOST_LINES


def test_the_history_of_a_queue_compares_allocated_and_deserved() -> None:
    found = queue_history([sample(1.0, a=1), sample(2.0, b=1)], "a", "nvidia.com/gpu")
    assert found.lines == {"gpu allocated": ((1000, 25.0),), "deserved by weight": ((1000, 50.0),)}


def test_samples_without_the_size_of_the_cluster_are_left_out() -> None:
    blind = Sample(1.0, {}, {}, {"a": QueueSample({"cpu": 1.0}, {})})
    assert share_history([blind], rows("a")).lines == {"a": ()}
    assert queue_history([blind], "a", "cpu").sentence == ""
