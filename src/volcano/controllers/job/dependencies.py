"""dependsOn: a task's pods are made once the tasks it waits for are ready."""

from volcano.controllers.job.roster import Roster
from volcano.controllers.job.spec import Job, Task


def may_start(job: Job, task: Task, roster: Roster) -> bool:
    """Whether the tasks that `task` waits for are ready: all of them, or one when it says that one suffices."""
    ready = [_is_ready(job, name, roster) for name in task.waits_for]
    if task.one_suffices and len(ready) > 1:
        return any(ready)
    return all(ready)


def _is_ready(job: Job, name: str, roster: Roster) -> bool:
    task = job.task(name)
    return task is None or roster.ready(name) >= task.minimum
