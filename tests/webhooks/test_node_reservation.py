"""NodeReservations that cannot work are refused."""

from typing import Any

import pytest

from tests.webhooks.reviews import found, review
from volcano.kube.api.kinds import NODE_RESERVATION

GOOD: dict[str, Any] = {
    "nodes": {"names": ["n1"]},
    "startTime": "2030-01-01T08:00:00Z",
    "endTime": "2030-01-01T09:00:00Z",
}


def problems(**changes: Any) -> dict[str, str]:
    manifest = {"metadata": {"name": "r"}, "spec": {**GOOD, **changes}}
    return found(review(NODE_RESERVATION, manifest))


def test_a_reservation_of_named_or_selected_nodes_is_accepted() -> None:
    assert problems() == {}
    assert problems(nodes={"selector": {"matchLabels": {"pool": "a"}}, "count": 2}, queue="default") == {}
    assert problems(leadTime="12h", nodes={"count": 3}) == {}


@pytest.mark.parametrize(
    ("changes", "field", "text"),
    [
        ({"endTime": "2030-01-01T08:00:00Z"}, "spec.endTime", "must be after startTime"),
        ({"startTime": "tomorrow"}, "spec.startTime", "must be a time such as"),
        ({"nodes": {}}, "spec.nodes", "must have names, a selector, or a count"),
        ({"nodes": {"count": 0}}, "spec.nodes.count", "at least 1"),
        ({"nodes": {"names": ["n1"], "count": 2}}, "spec.nodes.count", "leave it out"),
        ({"leadTime": "soon"}, "spec.leadTime", "invalid duration"),
        ({"queue": "ghost"}, "spec.queue", "'ghost' does not exist; the queues are: default, root"),
        (
            {"nodes": {"selector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}},
            "spec.nodes.selector",
            "Near",
        ),
    ],
)
def test_a_reservation_that_cannot_work_is_refused(changes: dict[str, Any], field: str, text: str) -> None:
    assert text in problems(**changes)[field]
