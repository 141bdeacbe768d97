"""Surplus members of gangs: those that a job can lose without falling below a minimum."""

from volcano.model.job import Job
from volcano.model.status import READY
from volcano.model.task import Task
from volcano.scheduler.engine.ledger_view import LedgerView


class Surplus:
    """Counts down, task by task, the members that jobs and roles have beyond their minimums."""

    __slots__ = ("_ledger", "_members", "_roles")

    def __init__(self, ledger: LedgerView) -> None:
        self._ledger = ledger
        self._members: dict[str, int] = {}
        self._roles: dict[tuple[str, str], int] = {}

    def members(self, job: Job) -> int:
        """Members that the job has beyond its own minimum, without those taken."""
        members = self._members.get(job.uid)
        if members is None:
            members = self._members[job.uid] = self._ledger.ready(job) - job.min_available
        return members

    def has(self, job: Job, task: Task) -> bool:
        """Reports whether the job keeps its minimums without this task, in addition to those taken."""
        if self.members(job) <= 0:
            return False
        return not job.group.min_task_member or self._in_role(job, task) > 0

    def take(self, job: Job, task: Task) -> bool:
        """As `has`, and counts the task if so."""
        uid = job.uid
        members = self._members.get(uid)
        if members is None:
            members = self.members(job)
        if members <= 0:
            return False
        if job.group.min_task_member:
            in_role = self._in_role(job, task)
            if in_role <= 0:
                return False
            self._roles[uid, task.role] = in_role - 1
        self._members[uid] = members - 1
        return True

    def _in_role(self, job: Job, task: Task) -> int:
        """Members that the job has beyond the minimum of the task's role."""
        role = (job.uid, task.role)
        found = self._roles.get(role)
        if found is None:
            least = role_minimums(job).get(task.role, 0)
            found = self._roles[role] = self._ledger.tally(job).count_role(task.role, READY) - least
        return found


def role_minimums(job: Job) -> dict[str, int]:
    """Returns the minimum of each role; empty when the job's own minimum is smaller than their sum."""
    if not job.group.min_task_member:
        return {}
    minimums = {role: least for role, least in job.group.min_task_member.items() if least > 0}
    return minimums if sum(minimums.values()) <= job.min_available else {}
