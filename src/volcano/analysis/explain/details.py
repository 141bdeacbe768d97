"""Details of a job for `-v`: nodes, scores, victims, and what each plugin says."""

from collections.abc import Callable, Sequence

from volcano.analysis.explain.case import Case, shown_name, without_uninteresting
from volcano.analysis.explain.explanations import Detail, Details, NodeReason, NodeScore, PluginAnswer, Victim
from volcano.analysis.explain.nodes import ranking, reasons
from volcano.analysis.explain.steps import EVICTING, first_pending
from volcano.model.decisions import Evict
from volcano.model.job import Job
from volcano.model.status import EVICTABLE
from volcano.model.task import Task
from volcano.scheduler.engine.diagnosis import Rejection

SYSTEM_PRIORITY = 2_000_000_000  # of pods that the cluster itself needs
HAS_ROOM = "has room now"
MOST_NODES, MOST_SCORES, MOST_VICTIMS = 100, 20, 50


def details(case: Case, uid: str, parts: Sequence[str]) -> Details:
    """Rows for a job, by part."""
    job = case.snapshot.jobs.get(uid)
    return {part: tuple(DETAILS[part](case, job)) if job is not None else () for part in parts}


def _nodes(case: Case, job: Job) -> list[NodeReason]:
    task = first_pending(job)
    if task is None:
        return []
    session = case.session
    found = [
        NodeReason(
            session.nodes.name(row),
            reason or HAS_ROOM,
            without_uninteresting(case.amounts(session.nodes.idle[row].clip(0))),
        )
        for row, reason in enumerate(reasons(session, task, job.queue))
    ]
    return sorted(found, key=lambda each: (each.reason != HAS_ROOM, each.reason))[:MOST_NODES]


def _scores(case: Case, job: Job) -> list[NodeScore]:
    task = first_pending(job)
    if task is None:
        return []
    return list(ranking(case, case.session, task, job.queue))[:MOST_SCORES]


def _victims(case: Case, job: Job) -> list[Victim]:
    """Running pods that could be evicted for the job or not, and why."""
    chosen = {
        decision.task: decision.reason
        for decision in case.outcome.decisions
        if isinstance(decision, Evict) and decision.on_behalf_of == job.uid
    }
    found: list[Victim] = []
    for other in case.snapshot.jobs.values():
        if other.uid == job.uid or other.priority >= SYSTEM_PRIORITY:
            continue
        for status in EVICTABLE:
            for task in other.by_status.get(status, ()):
                why = (
                    f"evicted: {chosen[task.uid]}" if task.uid in chosen else _why_not(case, job, other, task)
                )
                name = shown_name(other.uid)
                found.append(Victim(task.key, name, other.queue, other.priority, task.node, why))
    found.sort(key=lambda each: (not each.why.startswith("evicted"), each.priority))
    return found[:MOST_VICTIMS]


def _why_not(case: Case, job: Job, other: Job, task: Task) -> str:
    """Why a pod of another job is not evicted for a job."""
    if not any(name in case.config.actions for name in EVICTING):
        return "the configuration has neither preempt nor reclaim"
    if other.queue != job.queue:
        reclaims = any("reclaim" in name for name in case.config.actions)
        return "queue within its share, or it would not help" if reclaims else "in another queue"
    if other.priority >= job.priority:
        return f"priority {other.priority} is not below {job.priority}"
    if task.preemptable is False:
        return "not preemptable"
    return "lower priority; not needed, protected, or of no use"


def _plugins(case: Case, job: Job) -> list[PluginAnswer]:
    """What each plugin says about the job: order, admission, limits."""
    policy, task, queue = case.session.policy, first_pending(job), case.session.queue(job)
    found: list[PluginAnswer] = []

    def ask(hook: str, *subject: object) -> None:
        for tier, hooks in enumerate(policy.hooks(hook).tiers):
            for plugin, method in hooks:
                answer = method(*subject)
                text = answer.message if isinstance(answer, Rejection) else str(answer)
                found.append(PluginAnswer(plugin, tier + 1, hook, text))

    ask("job_order", job)
    ask("queue_order", queue)
    ask("job_valid", job)
    ask("job_enqueueable", job)
    ask("overused", queue)
    if task is not None:
        ask("allocatable", queue, task, max(policy.job_short(job), 1))
        ask("why_not_allocatable", queue, task)
    return found


DETAILS: dict[str, Callable[[Case, Job], Sequence[Detail]]] = {
    "nodes": _nodes,
    "scores": _scores,
    "victims": _victims,
    "plugins": _plugins,
}
