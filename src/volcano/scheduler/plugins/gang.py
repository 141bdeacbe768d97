"""gang: a job runs with at least its minimum of members, roles and resources, or not at all."""

from collections import Counter
from collections.abc import Sequence

import msgspec

from volcano.kube.api.names import DEPENDS_ON
from volcano.model.job import Job, SubJob
from volcano.model.resources import STEP
from volcano.model.status import READY, VALID, Status
from volcano.model.task import Task
from volcano.scheduler.engine.answers import EvictionContext, Vote
from volcano.scheduler.engine.diagnosis import Rejection
from volcano.scheduler.engine.diagnosis.codes import Code
from volcano.scheduler.engine.plugin import Plugin
from volcano.scheduler.engine.surplus import Surplus, role_minimums

PIPELINED = READY | {Status.PIPELINED}


class Gang(Plugin):
    """Starts a job only with its minimum of tasks; evictions never bring a job below it."""

    depends_on_preemptor = False

    def job_valid(self, job: Job) -> Rejection | None:
        tally = self.ledger.tally(job)
        if any(tally.count_role(role, VALID) < least for role, least in role_minimums(job).items()):
            text = f"Not enough valid pods of each task for gang-scheduling{self._missing_pods(job)}"
            return Rejection(text, Code.WAITING_FOR_PODS)
        if job.group.sub_groups and not self._sub_groups_exist(job):
            return Rejection(
                "Not enough valid subGroups of each task for gang-scheduling", Code.WAITING_FOR_PODS
            )
        valid = tally.count(VALID)
        if valid < job.min_available:
            return Rejection(
                f"Not enough valid tasks for gang-scheduling, valid: {valid}, min: {job.min_available}"
                f"{self._missing_pods(job)}",
                Code.WAITING_FOR_PODS,
                need=job.min_available,
                have=valid,
            )
        return None

    def _missing_pods(self, job: Job) -> str:
        """`; worker has 0 of 2 pods, it depends on master`: the roles with too few pods, and why if that is known."""
        tally, waits = self.ledger.tally(job), _dependencies(job)
        missing = []
        for role, least in job.group.min_task_member.items():
            valid = tally.count_role(role, VALID)
            if valid < least:
                why = f", it depends on {' and '.join(waits[role])}" if waits.get(role) else ""
                missing.append(f"; {role} has {valid} of {least} pods{why}")
        return "".join(missing)

    def _sub_groups_exist(self, job: Job) -> bool:
        existing = Counter(sub_job.policy for sub_job in job.sub_jobs.values())
        return all(existing[policy.name] >= policy.min_groups for policy in job.group.sub_groups)

    # -- readiness -------------------------------------------------------------------------------------------

    def job_short(self, job: Job) -> int:
        tally, group = self.ledger.tally(job), job.group
        short = max(0, group.min_member - tally.ready)
        if group.min_task_member:
            short = max(short, self._roles_short(job))
        if group.sub_groups:
            short = max(short, self._sub_groups_short(job))
        if short or group.min_resources is None:
            return short
        return int(self._resources_short(job))

    def sub_job_short(self, sub_job: SubJob) -> int:
        return self._members_short(sub_job, READY)

    def job_pipelined(self, job: Job) -> Vote:
        tally = self.ledger.tally(job)
        complete = (
            self._members_short(job, PIPELINED) == 0
            and all(tally.count_role(role, PIPELINED) >= least for role, least in role_minimums(job).items())
            and self._enough_sub_groups(job, PIPELINED)
        )
        return Vote.PERMIT if complete and not self._resources_short(job) else Vote.REJECT

    def job_starving(self, job: Job) -> int:
        tally = self.ledger.tally(job)
        return max(0, job.min_available - tally.ready - tally.counts[Status.PIPELINED])

    def _members_short(self, job: Job | SubJob, statuses: frozenset[Status]) -> int:
        return max(0, job.min_available - self.ledger.tally(job).count(statuses))

    def _roles_short(self, job: Job) -> int:
        tally = self.ledger.tally(job)
        return sum(
            max(0, least - tally.count_role(role, READY)) for role, least in role_minimums(job).items()
        )

    def _sub_groups_short(self, job: Job) -> int:
        """Returns the smallest number of tasks that makes enough sub-groups of every policy ready."""
        short = 0
        for policy in job.group.sub_groups:
            lacking = sorted(
                self.sub_job_short(sub_job)
                for sub_job in job.sub_jobs.values()
                if sub_job.policy == policy.name
            )
            short += max(sum(lacking[: policy.min_groups]), policy.min_groups > len(lacking))
        return short

    def _enough_sub_groups(self, job: Job, statuses: frozenset[Status]) -> bool:
        complete = Counter(
            sub_job.policy for sub_job in job.sub_jobs.values() if self._members_short(sub_job, statuses) == 0
        )
        return all(complete[policy.name] >= policy.min_groups for policy in job.group.sub_groups)

    def _resources_short(self, job: Job) -> bool:
        """Reports whether a job that is about to start holds less of its minResources than its tasks can reach.

        After the start only the number of members counts.
        """
        if job.group.min_resources is None:
            return False
        if sum(job.count(status) for status in READY) >= max(job.min_available, 1):
            return False
        within_reach = job.min_resources.clip(max=job.requested - job.gated)
        return bool((self.ledger.allocated(job) + STEP < within_reach).any())

    # -- order -----------------------------------------------------------------------------------------------

    def job_order(self, job: Job) -> bool:
        """Jobs below their minimum go before jobs that already run."""
        return self.job_short(job) == 0

    def sub_job_order(self, sub_job: SubJob) -> bool:
        return self.sub_job_short(sub_job) == 0

    # -- victims ---------------------------------------------------------------------------------------------

    def preemptable(self, context: EvictionContext, candidates: Sequence[Task]) -> Sequence[Task]:
        """Members beyond a gang's minimum; all members in the round that may break gangs."""
        return candidates if context.break_gangs else self._surplus(candidates)

    reclaimable = preemptable

    def unified_evictable(self, context: EvictionContext, candidates: Sequence[Task]) -> Sequence[Task]:
        """The gang actions evaluate whole gangs themselves."""
        return candidates

    def _surplus(self, candidates: Sequence[Task]) -> list[Task]:
        """Returns the candidates, in order, whose eviction leaves every job and role its minimum."""
        surplus, jobs = Surplus(self.ledger), self.snapshot.jobs
        return [task for task in candidates if (job := jobs.get(task.job)) is None or surplus.take(job, task)]


def _dependencies(job: Job) -> dict[str, list[str]]:
    """Tasks by the task whose pods are created only when they run."""
    try:
        return msgspec.json.decode(job.group.annotations.get(DEPENDS_ON) or "{}", type=dict[str, list[str]])
    except msgspec.MsgspecError:
        return {}
