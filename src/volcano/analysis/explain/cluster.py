"""Explanation of a cluster: its waiting jobs by code, and by queue."""

from collections import Counter

import numpy as np

from volcano.analysis.explain.case import Case, Data, shown_name, without_uninteresting
from volcano.analysis.explain.sentences import meaning
from volcano.analysis.plan.changes import AddNode, Change, JobFinishes
from volcano.analysis.rerun.pools import pools
from volcano.analysis.rerun.rerun import run, starts
from volcano.model.resources import PODS
from volcano.scheduler.engine.diagnosis.codes import Code

MOST_EXAMPLES = 3
MOST_RERUNS = 6  # to find the change that starts most jobs
CYCLES = 3  # of each re-run


def explain_cluster(case: Case) -> Data:
    """Waiting jobs by code, gravest class first, and the resources of the cluster."""
    snapshot = case.snapshot
    by_code: dict[Code, list[str]] = {}
    for uid, diagnosis in case.diagnoses.items():
        by_code.setdefault(diagnosis.code, []).append(uid)
    codes = [
        {
            "code": str(code),
            "class": str(code.diagnosis_class),
            "jobs": len(jobs),
            "meaning": meaning(code),
            "examples": [shown_name(uid) for uid in sorted(jobs)[:MOST_EXAMPLES]],
        }
        for code, jobs in sorted(by_code.items(), key=lambda found: (found[0].rank, -len(found[1])))
    ]
    queues = Counter(snapshot.jobs[uid].queue for uid in case.diagnoses if uid in snapshot.jobs)
    total = sum(1 for job in snapshot.jobs.values() if not job.group.implicit)
    usable = sum(1 for node in snapshot.nodes if node.usable and not node.control_plane)
    found: Data = {
        "kind": "ClusterExplanation",
        "nodes": {"total": len(snapshot.nodes), "usable": usable},
        "allocatable": without_uninteresting(case.amounts(snapshot.allocatable.sum(axis=0))),
        "free": without_uninteresting(
            case.amounts(np.maximum(snapshot.allocatable - snapshot.used, 0.0).sum(axis=0))
        ),
        "jobs": {"total": total, "waiting": len(case.diagnoses)},
        "codes": codes,
        "queues": [{"queue": name, "waiting": count} for name, count in queues.most_common()],
        "errors": list(case.outcome.errors),
    }
    found["summary"] = _summary(found)
    return found


def best_change(case: Case, *, budget: int = MOST_RERUNS) -> Data | None:
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
    return {"change": shown_name(best[1].sentence()), "starts": best[0], "of": len(waiting)}


def _summary(found: Data) -> str:
    waiting = found["jobs"]["waiting"]
    if not waiting:
        return "No job waits."
    classes = Counter[str]()
    for each in found["codes"]:
        classes[each["class"]] += each["jobs"]
    parts = ", ".join(f"{count} {name}" for name, count in classes.items())
    return f"{waiting} {'job waits' if waiting == 1 else 'jobs wait'}: {parts}."
