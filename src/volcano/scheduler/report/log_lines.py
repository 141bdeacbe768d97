"""Log lines of a cycle: pods placed and evicted, jobs that wait; a limited number however much was decided."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from volcano.base.log import Log
from volcano.model.decisions import Bind, Decision, Evict, RecordEvent
from volcano.model.job import Job

log = Log("cycle")

MOST_LINES = 20  # of one cycle; the rest is counted

POD_PLACED, JOB_PLACED = "pod placed", "job placed"
POD_EVICTED, JOB_UNSCHEDULABLE = "pod evicted", "job unschedulable"
Line = tuple[str, dict[str, Any]]


def log_cycle(decisions: Sequence[Decision], jobs: Mapping[str, Job], cycle: int) -> None:
    """Logs the decisions of one cycle."""
    lines = [*_placed(decisions, jobs), *_evicted(decisions, jobs), *_unschedulable(decisions)]
    for message, fields in lines[:MOST_LINES]:
        log.info(message, **fields, cycle=cycle)
    rest = [message for message, _ in lines[MOST_LINES:]]
    if rest:
        log.info(
            "log lines omitted",
            placed=rest.count(POD_PLACED) + rest.count(JOB_PLACED),
            evicted=rest.count(POD_EVICTED),
            unschedulable=rest.count(JOB_UNSCHEDULABLE),
            cycle=cycle,
        )


def _placed(decisions: Sequence[Decision], jobs: Mapping[str, Job]) -> Iterator[Line]:
    """One line per job."""
    gangs: dict[str, list[Bind]] = {}
    for decision in decisions:
        if type(decision) is Bind:
            gangs.setdefault(decision.job, []).append(decision)
    for uid, pods in gangs.items():
        nodes = dict.fromkeys(pod.node for pod in pods)
        if len(pods) == 1:
            yield POD_PLACED, {"pod": f"{pods[0].namespace}/{pods[0].name}", "node": pods[0].node}
        else:
            yield JOB_PLACED, {"job": _name(uid, jobs), "pods": len(pods), "nodes": len(nodes)}


def _evicted(decisions: Sequence[Decision], jobs: Mapping[str, Job]) -> Iterator[Line]:
    for decision in decisions:
        if type(decision) is Evict:
            pod = f"{decision.namespace}/{decision.name}"
            gains = {"for": _name(decision.on_behalf_of, jobs)} if decision.on_behalf_of else {}
            yield POD_EVICTED, {"pod": pod, "node": decision.node, "reason": decision.reason, **gains}


def _unschedulable(decisions: Sequence[Decision]) -> Iterator[Line]:
    for decision in decisions:
        if type(decision) is RecordEvent and decision.kind == "Warning":
            job = f"{decision.namespace}/{decision.name}"
            yield JOB_UNSCHEDULABLE, {"job": job, "reason": decision.message}


def _name(uid: str, jobs: Mapping[str, Job]) -> str:
    job = jobs.get(uid)
    return f"{job.namespace}/{job.name}" if job is not None else uid
