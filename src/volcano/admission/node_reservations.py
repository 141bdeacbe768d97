"""Validation of NodeReservations."""

from collections.abc import Iterable
from typing import Any

from volcano.admission.numbers import check_count, check_duration
from volcano.admission.review import AdmissionRequest, Violation
from volcano.clock import parse_timestamp
from volcano.kube import selectors
from volcano.kube.kinds import QUEUE
from volcano.kube.manifest import Key


def check_node_reservation(request: AdmissionRequest) -> Iterable[Violation]:
    """The end is after the start, nodes are given, and the queue exists."""
    assert request.new is not None
    spec = request.new.get("spec") or {}
    start, end = _moment(spec.get("startTime")), _moment(spec.get("endTime"))
    for name, moment in (("startTime", start), ("endTime", end)):
        if moment is None:
            text = f"must be a time such as 2026-03-01T08:00:00Z (it is {spec.get(name)!r})"
            yield Violation(f"spec.{name}", text)
    if start is not None and end is not None and end <= start:
        text = f"must be after startTime ({spec['endTime']} is not after {spec['startTime']})"
        yield Violation("spec.endTime", text)
    yield from check_duration(spec.get("leadTime"), "spec.leadTime")
    yield from _check_nodes(spec.get("nodes") or {})
    queue = spec.get("queue")
    if queue and request.lookup.find(QUEUE, Key("", queue)) is None:
        known = ", ".join(sorted(other["metadata"]["name"] for other in request.lookup.all(QUEUE))) or "none"
        yield Violation("spec.queue", f"queue {queue!r} does not exist; the queues are: {known}")


def _check_nodes(nodes: dict[str, Any]) -> Iterable[Violation]:
    selector, count = nodes.get("selector"), nodes.get("count")
    if not nodes.get("names") and selector is None and count is None:
        yield Violation("spec.nodes", "must have names, a selector, or a count")
    yield from check_count(nodes, "count", "spec.nodes.count", "'count' must be at least 1", least=1)
    if nodes.get("names") and count is not None and selector is None:
        yield Violation("spec.nodes.count", "counts nodes of a selector; leave it out with names alone")
    if selector is not None:
        try:
            selectors.from_object(selector)
        except ValueError as error:
            yield Violation("spec.nodes.selector", str(error))


def _moment(text: Any) -> float | None:
    try:
        return parse_timestamp(text) if isinstance(text, str) else None
    except ValueError:
        return None
