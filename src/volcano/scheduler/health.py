"""Health of the scheduler: what stops it from scheduling, and what concerns parts of the work only."""

from collections.abc import Callable, Mapping

from volcano.scheduler.loop import Scheduler
from volcano.scheduler.report.summary import skipped_jobs

# Each returns a message, or an empty text.
SchedulerCheck = Callable[[Scheduler], str]

ERRORS: Mapping[str, SchedulerCheck] = {
    "config": lambda scheduler: scheduler.source.error if scheduler.source.current is None else "",
    "plugins": lambda scheduler: "; ".join(scheduler.cycles.last_outcome.errors),
}
WARNINGS: Mapping[str, SchedulerCheck] = {
    "config": lambda scheduler: scheduler.source.warning,
    "metrics": lambda scheduler: scheduler.inputs.load.problem,
    "jobs": lambda scheduler: skipped_jobs(scheduler.cycles.last_outcome.faults),
}
