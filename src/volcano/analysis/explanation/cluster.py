"""Explanation of a cluster: its waiting jobs by code, and by queue."""

from collections import Counter

import numpy as np

from volcano.analysis.explanation.case import Case, Data, shown_name
from volcano.analysis.explanation.sentences import meaning
from volcano.scheduler.engine.diagnosis.codes import Code

MOST_EXAMPLES = 3


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
    usable = sum(1 for node in snapshot.nodes if node.usable)
    found: Data = {
        "kind": "ClusterExplanation",
        "nodes": {"total": len(snapshot.nodes), "usable": usable},
        "allocatable": case.amounts(snapshot.allocatable.sum(axis=0)),
        "free": case.amounts(np.maximum(snapshot.allocatable - snapshot.used, 0.0).sum(axis=0)),
        "jobs": {"total": len(snapshot.jobs), "waiting": len(case.diagnoses)},
        "codes": codes,
        "queues": [{"queue": name, "waiting": count} for name, count in queues.most_common()],
        "errors": list(case.outcome.errors),
    }
    found["verdict"] = _verdict(found)
    return found


def _verdict(found: Data) -> str:
    waiting = found["jobs"]["waiting"]
    if not waiting:
        return "No job waits."
    classes = Counter[str]()
    for each in found["codes"]:
        classes[each["class"]] += each["jobs"]
    parts = ", ".join(f"{count} {name}" for name, count in classes.items())
    return f"{waiting} {'job waits' if waiting == 1 else 'jobs wait'}: {parts}."
