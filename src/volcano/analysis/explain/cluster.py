"""Explanation of a cluster: its waiting jobs by code, and by queue."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from volcano.analysis.explain.case import Case, shown_name, without_uninteresting
from volcano.analysis.explain.explanations import Quantities
from volcano.analysis.explain.sentences import meaning
from volcano.analysis.plan.changes import AddNode, JobFinishes
from volcano.analysis.rerun.pools import pools
from volcano.analysis.rerun.rerun import run, starts
from volcano.analysis.rerun.state import Change
from volcano.model.resources import PODS
from volcano.scheduler.engine.diagnosis.codes import Code

MOST_EXAMPLES = 3
MOST_RERUNS = 6  # to find the change that starts most jobs
CYCLES = 3  # of each re-run


@dataclass(frozen=True, slots=True)
class CodeCount:
    """Waiting jobs with one code."""

    code: str
    class_: str
    jobs: int
    meaning: str
    examples: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ClusterNodes:
    total: int
    usable: int


@dataclass(frozen=True, slots=True)
class ClusterJobs:
    total: int
    waiting: int


@dataclass(frozen=True, slots=True)
class QueueWaiting:
    queue: str
    waiting: int


@dataclass(frozen=True, slots=True)
class BestChange:
    """The one change that starts most of the waiting jobs."""

    change: str
    starts: int
    of: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterExplanation:
    """The waiting jobs of a cluster by code, and its resources."""

    KIND: ClassVar = "ClusterExplanation"
    nodes: ClusterNodes
    allocatable: Quantities
    free: Quantities
    jobs: ClusterJobs
    codes: tuple[CodeCount, ...]
    queues: tuple[QueueWaiting, ...]
    errors: tuple[str, ...]
    summary: str
    best_change: BestChange | None
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedWaiting:
    """The jobs that waited in a queue or the cluster after a cycle, by the record of cycles."""

    KIND: ClassVar = "ClusterExplanation"
    summary: str
    codes: tuple[CodeCount, ...]
    notes: tuple[str, ...]


def explain_cluster(case: Case) -> ClusterExplanation:
    """Waiting jobs by code, gravest class first, and the resources of the cluster."""
    snapshot = case.snapshot
    by_code: dict[str, list[str]] = {}
    for uid, diagnosis in case.diagnoses.items():
        by_code.setdefault(str(diagnosis.code), []).append(uid)
    codes = code_counts(by_code)
    queues = Counter(snapshot.jobs[uid].queue for uid in case.diagnoses if uid in snapshot.jobs)
    free = np.maximum(snapshot.allocatable - snapshot.used, 0.0).sum(axis=0)
    return ClusterExplanation(
        nodes=ClusterNodes(
            len(snapshot.nodes), sum(node.usable and not node.control_plane for node in snapshot.nodes)
        ),
        allocatable=without_uninteresting(case.amounts(snapshot.allocatable.sum(axis=0))),
        free=without_uninteresting(case.amounts(free)),
        jobs=ClusterJobs(sum(not job.group.implicit for job in snapshot.jobs.values()), len(case.diagnoses)),
        codes=codes,
        queues=tuple(QueueWaiting(name, count) for name, count in queues.most_common()),
        errors=tuple(case.outcome.errors),
        summary=_summary(codes),
        best_change=best_change(case),
        notes=case.notes,
    )


def code_counts(by_code: Mapping[str, Sequence[str]]) -> tuple[CodeCount, ...]:
    """Waiting jobs by code, gravest class first."""
    ranked = sorted(by_code.items(), key=lambda found: (Code(found[0]).rank, -len(found[1])))
    return tuple(
        CodeCount(
            code,
            str(Code(code).diagnosis_class),
            len(jobs),
            meaning(Code(code)),
            tuple(shown_name(uid) for uid in sorted(jobs)[:MOST_EXAMPLES]),
        )
        for code, jobs in ranked
    )


def best_change(case: Case, *, budget: int = MOST_RERUNS) -> BestChange | None:
    """The one change that starts most of the waiting jobs, verified by re-runs: a node more of a pool, or a job that
    finishes. None when no change that is tried starts any."""
    before = run(case.state, case.config, cycles=CYCLES)
    waiting = [uid for uid in case.diagnoses if uid in case.snapshot.jobs and not starts(before, uid)]
    if not waiting:
        return None
    holders = sorted(
        (job for job in case.snapshot.jobs.values() if job.allocated.any()),
        key=lambda job: -float(job.allocated[:PODS].sum()),
    )
    candidates: list[Change] = [AddNode(pool.name, pool.example) for pool in pools(case.snapshot)]
    candidates += [JobFinishes(job.uid) for job in holders]
    best: tuple[int, Change] | None = None
    for change in candidates[:budget]:
        after = run(case.state.changed([change]), case.config, cycles=CYCLES)
        started = sum(1 for uid in waiting if starts(after, uid))
        if started and (best is None or started > best[0]):
            best = (started, change)
    if best is None:
        return None
    return BestChange(shown_name(best[1].sentence()), best[0], len(waiting))


def _summary(codes: Sequence[CodeCount]) -> str:
    waiting = sum(each.jobs for each in codes)
    if not waiting:
        return "No job waits."
    classes = Counter[str]()
    for each in codes:
        classes[each.class_] += each.jobs
    parts = ", ".join(f"{count} {name}" for name, count in classes.items())
    return f"{waiting} {'job waits' if waiting == 1 else 'jobs wait'}: {parts}."
