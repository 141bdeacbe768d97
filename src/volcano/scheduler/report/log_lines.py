"""What the log says of a cycle: who was placed, who has to go, who waits and for what; few lines whatever happened."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from volcano.log import Log
from volcano.model.decisions import Bind, Decision, Evict, RecordEvent
from volcano.model.job import Job

log = Log("cycle")

MOST_LINES = 20  # of one cycle: a burst of thousands of jobs is told in numbers


def log_cycle(decisions: Sequence[Decision], jobs: Mapping[str, Job], cycle: int) -> None:
    """Writes the lines of one cycle."""
    lines = [*_placed(decisions, jobs), *_evicted(decisions, jobs), *_waiting(decisions)]
    for message, fields in lines[:MOST_LINES]:
        log.info(message, **fields, cycle=cycle)
    if len(lines) > MOST_LINES:
        log.info(
            "and more", **{what: _count(lines, what) for what in ("placed", "evicting", "waits")}, cycle=cycle
        )


def _placed(decisions: Sequence[Decision], jobs: Mapping[str, Job]) -> Iterator[tuple[str, dict[str, Any]]]:
    """A line for each gang that has a place now."""
    gangs: dict[str, list[Bind]] = {}
    for decision in decisions:
        if type(decision) is Bind:
            gangs.setdefault(decision.job, []).append(decision)
    for uid, pods in gangs.items():
        nodes = dict.fromkeys(pod.node for pod in pods)
        if len(pods) == 1:
            yield "placed", {"pod": f"{pods[0].namespace}/{pods[0].name}", "node": pods[0].node}
        else:
            yield "placed", {"job": _name(uid, jobs), "pods": len(pods), "nodes": len(nodes)}


def _evicted(decisions: Sequence[Decision], jobs: Mapping[str, Job]) -> Iterator[tuple[str, dict[str, Any]]]:
    for decision in decisions:
        if type(decision) is Evict:
            pod = f"{decision.namespace}/{decision.name}"
            gains = {"for": _name(decision.on_behalf_of, jobs)} if decision.on_behalf_of else {}
            yield "evicting", {"pod": pod, "node": decision.node, "reason": decision.reason, **gains}


def _waiting(decisions: Sequence[Decision]) -> Iterator[tuple[str, dict[str, Any]]]:
    for decision in decisions:
        if type(decision) is RecordEvent and decision.kind == "Warning":
            yield "waits", {"job": f"{decision.namespace}/{decision.name}", "reason": decision.message}


def _name(uid: str, jobs: Mapping[str, Job]) -> str:
    job = jobs.get(uid)
    return f"{job.namespace}/{job.name}" if job is not None else uid


def _count(lines: Sequence[tuple[str, dict[str, Any]]], what: str) -> int:
    return sum(message == what for message, _ in lines[MOST_LINES:])
