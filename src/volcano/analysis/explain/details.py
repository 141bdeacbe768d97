"""Details of a job for `-v`: nodes, scores, victims, and what each plugin says."""

from collections.abc import Callable

from volcano.analysis.explain.case import Case, Data, shown_name, without_uninteresting
from volcano.analysis.explain.nodes import ranking, reasons
from volcano.analysis.explain.steps import EVICTING, first_pending
from volcano.model.decisions import Evict
from volcano.model.job import Job
from volcano.model.status import EVICTABLE
from volcano.scheduler.engine.diagnosis import Rejection

SYSTEM_PRIORITY = 2_000_000_000  # of pods that the cluster itself needs
MOST_NODES, MOST_SCORES, MOST_VICTIMS = 100, 20, 50


def details(case: Case, uid: str, part: str) -> list[Data]:
    """Rows of one part for a job."""
    job = case.snapshot.jobs.get(uid)
    return DETAILS[part](case, job) if job is not None else []


def _nodes(case: Case, job: Job) -> list[Data]:
    task = first_pending(job)
    if task is None:
        return []
    session = case.session
    found = [
        {
            "node": session.nodes.name(row),
            "reason": reason or "has room now",
            "free": without_uninteresting(case.amounts(session.nodes.idle[row].clip(0))),
        }
        for row, reason in enumerate(reasons(session, task, job.queue))
    ]
    return sorted(found, key=lambda each: (each["reason"] != "has room now", each["reason"]))[:MOST_NODES]


def _scores(case: Case, job: Job) -> list[Data]:
    task = first_pending(job)
    if task is None:
        return []
    return list(ranking(case, case.session, task, job.queue))[:MOST_SCORES]


def _victims(case: Case, job: Job) -> list[Data]:
    """Running pods that could be evicted for the job or not, and why."""
    chosen = {
        decision.task: decision.reason
        for decision in case.outcome.decisions
        if isinstance(decision, Evict) and decision.on_behalf_of == job.uid
    }
    evicts = any(name in case.config.actions for name in EVICTING)
    reclaims = any("reclaim" in name for name in case.config.actions)
    found: list[Data] = []
    for other in case.snapshot.jobs.values():
        if other.uid == job.uid or other.priority >= SYSTEM_PRIORITY:
            continue
        for status in EVICTABLE:
            for task in other.by_status.get(status, ()):
                if task.uid in chosen:
                    why = f"evicted: {chosen[task.uid]}"
                elif not evicts:
                    why = "the configuration has neither preempt nor reclaim"
                elif other.queue != job.queue:
                    why = "queue within its share, or it would not help" if reclaims else "in another queue"
                elif other.priority >= job.priority:
                    why = f"priority {other.priority} is not below {job.priority}"
                elif task.preemptable is False:
                    why = "not preemptable"
                else:
                    why = "lower priority; not needed, protected, or of no use"
                found.append(
                    {
                        "pod": task.key,
                        "job": shown_name(other.uid),
                        "queue": other.queue,
                        "priority": other.priority,
                        "node": task.node,
                        "why": why,
                    }
                )
    return sorted(found, key=lambda each: (not each["why"].startswith("evicted"), each["priority"]))[
        :MOST_VICTIMS
    ]


def _plugins(case: Case, job: Job) -> list[Data]:
    """What each plugin says about the job: order, admission, limits."""
    policy, task, queue = case.session.policy, first_pending(job), case.session.queue(job)
    found: list[Data] = []

    def ask(hook: str, *subject: object) -> None:
        for tier, hooks in enumerate(policy.hooks(hook).tiers):
            for plugin, method in hooks:
                answer = method(*subject)
                text = answer.message if isinstance(answer, Rejection) else str(answer)
                found.append({"plugin": plugin, "tier": tier + 1, "question": hook, "answer": text})

    ask("job_order", job)
    ask("queue_order", queue)
    ask("job_valid", job)
    ask("job_enqueueable", job)
    ask("overused", queue)
    if task is not None:
        ask("allocatable", queue, task, max(policy.job_short(job), 1))
        ask("why_not_allocatable", queue, task)
    return found


DETAILS: dict[str, Callable[[Case, Job], list[Data]]] = {
    "nodes": _nodes,
    "scores": _scores,
    "victims": _victims,
    "plugins": _plugins,
}
