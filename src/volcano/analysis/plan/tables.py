"""Tables and texts of plans, for commands and pages."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from volcano.analysis.plan.config_plan import ConfigPlan, PlannedQueue
from volcano.analysis.plan.plan import PlannedJob
from volcano.views.columns import Column

STARTS, NOT_NOW = "would start now", "would not start now"
UNCHANGED = "changes nothing now: shares, jobs and pods stay as they are."


# -- jobs --------------------------------------------------------------------------------------------------


def outcome(job: PlannedJob) -> str:
    """How many pods are placed, or why the job would not start."""
    if job.why_not is not None:
        return job.why_not.reason
    placed = sum(len(each.pods) for each in job.placements)
    running = f", {job.running} run already" if job.running else ""
    suffice = "1 suffices" if job.min_available <= 1 else f"{job.min_available} suffice"
    some = "" if placed + job.running >= job.pods else f" ({suffice})"
    return f"{placed} of {pods_text(job.pods)} placed{running}{some}"


def preempting_sentence(job: PlannedJob) -> str:
    """That evictions would start a job which does not start without them; "" if they would not."""
    if job.why_not is None or job.why_not.victims_if_allowed is None:
        return ""
    return f"It would start if the scheduler evicted {pods_text(len(job.why_not.victims_if_allowed))}"


class Share(NamedTuple):
    """One resource of the queue."""

    resource: str
    before: str
    after: str
    deserved: str
    limit: str


def shares(job: PlannedJob) -> list[Share]:
    """The resources that the queue holds before or afterwards."""
    before, after = job.queue_share.before, job.queue_share.afterwards
    return [
        Share(
            name,
            before.allocated.get(name, "0"),
            after.allocated.get(name, "0"),
            after.deserved.get(name, "-"),
            after.capability.get(name, "-"),
        )
        for name in dict.fromkeys((*after.allocated, *before.allocated))
    ]


def pods_text(number: int) -> str:
    return "1 pod" if number == 1 else f"{number} pods"


def pod_names(pods: Sequence[str]) -> str:
    """`train-worker-[0-3,8]`, or the names where they do not differ by a number at the end."""
    stems = {pod.rpartition("-")[0] for pod in pods}
    numbers = [pod.rpartition("-")[2] for pod in pods]
    if len(pods) == 1 or len(stems) > 1 or not all(number.isdecimal() for number in numbers):
        return ", ".join(pods)
    return f"{stems.pop()}-[{','.join(_ranges(sorted(map(int, numbers))))}]"


def _ranges(numbers: Sequence[int]) -> Iterator[str]:
    first = last = numbers[0]
    for number in (*numbers[1:], None):
        if number == last + 1:
            last = number
            continue
        yield str(first) if first == last else f"{first}-{last}"
        if number is not None:
            first = last = number


PLACED = (
    Column("Node", lambda row: row.node),
    Column("Task", lambda row: row.task or "-"),
    Column("Pods", lambda row: str(len(row.pods))),
    Column("Names", lambda row: pod_names(row.pods), sentence=True),
)
VICTIMS = (
    Column("Pod", lambda row: row.pod),
    Column("Job", lambda row: row.job),
    Column("Node", lambda row: row.node),
    Column("By", lambda row: row.action),
)
SHARES = (
    Column("Resource", lambda row: row.resource),
    Column("Before", lambda row: row.before),
    Column("Afterwards", lambda row: row.after),
    Column("Deserved", lambda row: row.deserved),
    Column("Limit", lambda row: row.limit),
)

# -- configurations ----------------------------------------------------------------------------------------


class ChangedShare(NamedTuple):
    """A resource of a queue that the configuration changes."""

    queue: str
    resource: str
    deserved: str
    deserved_after: str
    allocated: str
    allocated_after: str


class Section(NamedTuple):
    """One table with its title."""

    title: str
    columns: Sequence[Column]
    rows: Sequence[Any]


def sections(plan: ConfigPlan) -> list[Section]:
    """The tables that have rows."""
    changed = [row for queue in plan.queues for row in _changed(queue)]
    found = (
        Section("Shares that change", CHANGED_SHARES, changed),
        Section("Jobs that would start", JOB_STARTS, plan.starting),
        Section("Jobs that would start now, but not with it", JOB_STARTS, plan.not_starting),
        Section("Pods that would be evicted", EVICTIONS, plan.evicted),
    )
    return [section for section in found if section.rows]


def waiting_sentence(plan: ConfigPlan) -> str:
    """How many jobs wait in any case; "" if none does."""
    jobs = "1 job waits" if plan.waiting == 1 else f"{plan.waiting} jobs wait"
    return f"{jobs} with both configurations." if plan.waiting else ""


def _changed(queue: PlannedQueue) -> Iterator[ChangedShare]:
    """The resources of a queue that change."""
    deserved, allocated = queue.deserved, queue.allocated
    for name in dict.fromkeys((*deserved.before, *deserved.afterwards, *allocated.afterwards)):
        row = ChangedShare(
            queue.queue,
            name,
            deserved.before.get(name, "-"),
            deserved.afterwards.get(name, "-"),
            allocated.before.get(name, "0"),
            allocated.afterwards.get(name, "0"),
        )
        if row.deserved != row.deserved_after or row.allocated != row.allocated_after:
            yield row


CHANGED_SHARES = (
    Column("Queue", lambda row: row.queue),
    Column("Resource", lambda row: row.resource),
    Column("Deserved", lambda row: row.deserved),
    Column("New", lambda row: row.deserved_after),
    Column("Allocated", lambda row: row.allocated),
    Column("Afterwards", lambda row: row.allocated_after),
)
JOB_STARTS = (
    Column("Job", lambda row: row.job),
    Column("Queue", lambda row: row.queue),
    Column("Also now", lambda row: "yes" if row.anyway else "no"),
)
EVICTIONS = (
    Column("Pod", lambda row: row.pod),
    Column("Job", lambda row: row.job),
    Column("By", lambda row: row.action),
    Column("For", lambda row: row.on_behalf_of or "-"),
    Column("Also now", lambda row: "yes" if row.anyway else "no"),
)
