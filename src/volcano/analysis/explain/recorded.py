"""Explanations of the past: what the record of cycles has about jobs, pods and evictions."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from volcano.analysis.explain.cluster import RecordedWaiting, code_counts
from volcano.analysis.explain.explanations import (
    INLINE,
    Eviction,
    NodeScore,
    RecordedDiagnosis,
    RecordedJob,
    RecordedPlacement,
    RecordedPod,
)
from volcano.analysis.explain.sentences import meaning
from volcano.base.clock import timestamp
from volcano.scheduler.engine.diagnosis.codes import Code
from volcano.scheduler.history.queries import CycleList, Entries, Entry, OneCycle
from volcano.scheduler.history.records import Evicted, Scores

DONE = {"placed": "was placed", "evicted": "lost pods"}


@dataclass(frozen=True, slots=True)
class CycleExplanation:
    """One cycle, or the list of cycles, as the scheduler has recorded them."""

    KIND: ClassVar = "CycleExplanation"
    record: CycleList | OneCycle = field(metadata=INLINE)


def recorded_job(job: str, group: str, answer: Entries) -> RecordedJob:
    """A job ("namespace/name") at the end of a cycle; `group` is its PodGroup."""
    waiting, name = answer.diagnosis, job.partition("/")[2]
    last = answer.entries[-1].what if answer.entries else ""
    summary = f"{name} {DONE.get(last, 'did not wait, or is not in the record')}."
    return RecordedJob(
        job=job,
        pod_group=group,
        state="past" if waiting is None else "waiting",
        queue="" if waiting is None else waiting.queue,
        summary=summary if waiting is None else f"{name} waited: {meaning(Code(waiting.code))}",
        diagnosis=None if waiting is None else RecordedDiagnosis.of(waiting),
        history=tuple(answer.entries),
        notes=("from the record of cycles; nodes, position and changes are known for the present only",),
    )


def recorded_pod(pod: str, entries: Sequence[Entry], *, everything: bool = False) -> RecordedPod:
    """A pod ("namespace/name") about which there are entries; with `everything`, it is said when scores are missing."""
    last = entries[-1]
    done = "was evicted" if last.what == "evicted" else f"was placed {last.text}"
    placed = next((entry for entry in reversed(entries) if entry.what == "placed"), None)
    scores = placed.scores if placed is not None else None
    return RecordedPod(
        pod=pod,
        node=placed.text.removeprefix("on ") if placed is not None and scores is not None else "",
        summary=f"{pod.partition('/')[2]} {done} in cycle {last.number}, {timestamp(last.at)}.",
        placement=_placement(pod, placed.number, scores)
        if placed is not None and scores is not None
        else None,
        evictions=evictions(entries),
        history=tuple(entries),
        notes=("the record of cycles has no scores for this pod",) if everything and scores is None else (),
    )


def _placement(pod: str, cycle: int, scores: Scores) -> RecordedPlacement:
    """The nodes that were compared when the pod was placed, or the first of the pods like it in that cycle."""
    basis = f"recorded in cycle {cycle}"
    if scores.pod != pod:
        basis += f" for {scores.pod}, the first pod like it, which got {scores.nodes[0].node}"
    ranked = enumerate(sorted(scores.nodes, key=lambda each: -each.score), 1)
    ranking = tuple(NodeScore(each.node, each.score, each.plugins, place=place) for place, each in ranked)
    return RecordedPlacement(scores.feasible, basis, ranking)


def recorded_waiting(answer: OneCycle, queue: str = "") -> RecordedWaiting:
    """The jobs that waited in a queue or in the cluster at the end of a cycle."""
    by_code: dict[str, list[str]] = {}
    for each in answer.diagnoses:
        if not queue or each.queue == queue:
            by_code.setdefault(each.code, []).append(each.job)
    count = sum(map(len, by_code.values()))
    where = f" in queue {queue}" if queue else ""
    return RecordedWaiting(
        summary=f"{count} {'job' if count == 1 else 'jobs'} waited{where} after cycle {answer.asked}.",
        codes=code_counts(by_code),
        notes=("from the record of cycles",),
    )


def evictions(entries: Iterable[Entry]) -> tuple[Eviction, ...]:
    """The evictions among entries of the record."""
    return tuple(
        eviction(each.number, each.at, each.eviction) for each in entries if each.eviction is not None
    )


def eviction(cycle: int, at: float, victim: Evicted) -> Eviction:
    """By which job, by which policy, and why this pod."""
    if "preempt" in victim.action:
        why = (
            f"preempted by {victim.beneficiary}, whose priority {victim.beneficiary_priority} is above "
            f"{victim.priority}, in queue {victim.queue}; of the pods that may be evicted, those that are served "
            "last go first."
        )
    elif "reclaim" in victim.action:
        why = (
            f"reclaimed by {victim.beneficiary} of queue {victim.beneficiary_queue}, which holds less than it "
            f"deserves; queue {victim.queue} held more than it deserves."
        )
    else:
        why = f"selected by the action {victim.action}, for no other job."
    return Eviction(cycle, at, why, victim)
