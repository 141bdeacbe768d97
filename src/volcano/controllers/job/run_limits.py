"""Run limits: how long the pods of a job run at most, for the annotation of its PodGroup."""

from volcano.controllers.job.policies import resolve
from volcano.controllers.job.spec import Job
from volcano.controllers.job.types import Action, PolicyEvent
from volcano.kube import duration
from volcano.kube.names import WALLTIME
from volcano.model.annotations.walltime import annotated

_ENDING = frozenset((Action.TERMINATE, Action.COMPLETE, Action.ABORT))


def group_annotation(job: Job) -> dict[str, str]:
    """The annotation of the PodGroup: that of the job, or the timeout of a policy that ends the job earlier."""
    given, limit = annotated(job.annotations), policy_timeout(job)
    if limit is not None and (given is None or limit < given):
        return {WALLTIME: duration.format(limit)}
    return {} if given is None else {WALLTIME: job.annotations[WALLTIME]}


def policy_timeout(job: Job) -> float | None:
    """Seconds after the start of a pod when a policy ends the job; None without such a policy."""
    timeouts = [
        policy.timeout
        for task in job.tasks
        if task.replicas
        and (policy := resolve((*task.policies, *job.policies), PolicyEvent.POD_RUNNING)) is not None
        and policy.action in _ENDING
        and policy.timeout
    ]
    return min(timeouts, default=None)
