"""Lifecycle policies: from the state of a job to the actions its policies ask for."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from volcano.controllers.job.pod_cache import PodCache, PodInfo
from volcano.controllers.job.restart_targets import render_target
from volcano.controllers.job.spec import Job, Policy, Task
from volcano.controllers.job.status import Status
from volcano.controllers.job.types import Action, Phase, PolicyEvent

# Of several actions that are due, the first in this order is executed.
SEVERITY = (
    Action.COMPLETE,
    Action.TERMINATE,
    Action.ABORT,
    Action.RESTART_JOB,
    Action.RESTART_TASK,
    Action.RESTART_PARTITION,
    Action.RESTART_POD,
)
_RESTARTS = frozenset(SEVERITY[3:])
_PER_POD = frozenset({Action.RESTART_POD, Action.RESTART_PARTITION})
_FAILURES = frozenset({PolicyEvent.POD_FAILED, PolicyEvent.POD_EVICTED, PolicyEvent.ANY})
_PENDING = frozenset({PolicyEvent.POD_PENDING, PolicyEvent.ANY})


@dataclass(frozen=True, slots=True)
class Trigger:
    """An occurrence that a policy matches."""

    action: Action
    event: str
    subject: str  # identifies the occurrence
    delay: float = 0.0
    stamp: float = 0.0  # wall time of the occurrence; 0 when unknown
    target: str = ""
    pod: str = ""  # with the exit code and the last line of a failed one
    lost: str = ""  # uid of the deleted pod


def matches(policy: Policy, event: str, exit_code: int = 0) -> bool:
    """Whether a policy matches an event or an exit code."""
    if event == PolicyEvent.POD_RUNNING:  # a time limit, which `*` does not mean
        return event in policy.events and policy.timeout is not None
    if event in policy.events or PolicyEvent.ANY in policy.events:
        # Every pod is pending at first: without a timeout the policy would apply to all of them.
        return event != PolicyEvent.POD_PENDING or policy.timeout is not None
    return bool(exit_code) and policy.exit_code == exit_code


def resolve(policies: Iterable[Policy], event: str, exit_code: int = 0) -> Policy | None:
    """The first policy that matches an event; a task's policies precede its job's."""
    return next((policy for policy in policies if matches(policy, event, exit_code)), None)


def triggers(
    job: Job, status: Status, pod_cache: PodCache, group_phase: str, gone: Mapping[str, int] | None = None
) -> Iterator[Trigger]:
    """All actions that are due now or after a timeout. `gone` are the numbers of pods by task that have succeeded and
    do not exist any more."""
    if status.phase not in (Phase.PENDING, Phase.RUNNING, Phase.RESTARTING):
        return
    for trigger in _all_triggers(job, status, pod_cache, group_phase, gone or {}):
        if trigger.action not in SEVERITY:
            continue
        # Other actions are delayed until the job has restarted, so that retries are counted correctly.
        if status.phase is not Phase.RESTARTING or trigger.action in _RESTARTS:
            yield trigger


def most_severe(due: Sequence[Trigger]) -> list[Trigger]:
    """The triggers of the action with the highest severity."""
    first = min((SEVERITY.index(trigger.action) for trigger in due), default=0)
    return [trigger for trigger in due if trigger.action is SEVERITY[first]]


def _all_triggers(
    job: Job, status: Status, pod_cache: PodCache, group_phase: str, gone: Mapping[str, int]
) -> Iterator[Trigger]:
    for task in job.tasks:
        policies = (*task.policies, *job.policies)
        if not policies:
            continue
        if any(policy.exit_code or policy.events & _FAILURES for policy in policies):
            yield from _failures(task, policies, status, pod_cache)
        if any(policy.timeout and policy.events & _PENDING for policy in policies):
            yield from _lasting(PolicyEvent.POD_PENDING, "Pending", task, policies, status, pod_cache)
        if any(policy.timeout and PolicyEvent.POD_RUNNING in policy.events for policy in policies):
            yield from _lasting(PolicyEvent.POD_RUNNING, "Running", task, policies, status, pod_cache)
        yield from _outcomes(job, task, policies, status, pod_cache, gone.get(task.name, 0))
    for info in pod_cache.lost.values():
        lost_from = job.task(info.task)
        if lost_from is not None and info.ordinal < lost_from.replicas and _counts(info, status):
            policy = resolve((*lost_from.policies, *job.policies), PolicyEvent.POD_EVICTED)
            if policy is not None:
                yield _pod_trigger(policy, PolicyEvent.POD_EVICTED, info, lost=info.uid)
    if group_phase == "Unknown" and status.phase is not Phase.RESTARTING:
        policy = resolve(job.policies, PolicyEvent.UNKNOWN)
        if policy is not None:
            yield Trigger(policy.action, PolicyEvent.UNKNOWN, "group/Unknown", policy.timeout or 0.0)


def _failures(
    task: Task, policies: Sequence[Policy], status: Status, pod_cache: PodCache
) -> Iterator[Trigger]:
    for info in pod_cache.within(task.name, "Failed"):
        if not _counts(info, status):
            continue
        if info.evicted:
            event, policy = PolicyEvent.POD_EVICTED, resolve(policies, PolicyEvent.POD_EVICTED)
        else:
            event, policy = PolicyEvent.POD_FAILED, resolve(policies, PolicyEvent.POD_FAILED, info.exit_code)
        if policy is not None:
            yield _pod_trigger(policy, event, info)


def _lasting(
    event: PolicyEvent,
    state: str,
    task: Task,
    policies: Sequence[Policy],
    status: Status,
    pod_cache: PodCache,
) -> Iterator[Trigger]:
    """Pods that are in a state; the policy's timeout says for how long they may be."""
    policy = resolve(policies, event)
    if policy is None:
        return
    for info in pod_cache.within(task.name, state):
        if _counts(info, status):
            yield _pod_trigger(policy, event, info)
            if policy.action not in _PER_POD:
                return  # the first has been in it longest


def _outcomes(
    job: Job, task: Task, policies: Sequence[Policy], status: Status, pod_cache: PodCache, gone: int
) -> Iterator[Trigger]:
    """TaskCompleted and TaskFailed."""
    if task.replicas == 0:
        return
    if pod_cache.count(task.name, "Succeeded") + gone >= task.replicas:
        policy = resolve(policies, PolicyEvent.TASK_COMPLETED)
        witness = _first(pod_cache.within(task.name, "Succeeded"), status) if policy else None
        if policy is not None and witness is not None:
            yield _pod_trigger(policy, PolicyEvent.TASK_COMPLETED, witness, subject=task.name)
    # A task that others depend on has failed, too, when it cannot become ready any more.
    has_failed = pod_cache.has_failed(task.name, task.replicas, task.minimum) and any(
        task.name in other.waits_for and not pod_cache.size(other.name) for other in job.tasks
    )
    if has_failed or (task.max_retry != -1 and pod_cache.restarts(task.name) >= task.max_retry):
        policy = resolve(policies, PolicyEvent.TASK_FAILED)
        restarted = (info for info in pod_cache.within(task.name, "Running", "Pending") if info.restarts)
        failed = pod_cache.within(task.name, "Failed") if has_failed else ()
        witness = _first((*failed, *restarted), status) if policy else None
        if policy is not None and witness is not None:
            yield _pod_trigger(policy, PolicyEvent.TASK_FAILED, witness, subject=task.name)


def _first(pods: Iterable[PodInfo], status: Status) -> PodInfo | None:
    return next((info for info in pods if _counts(info, status)), None)


def _counts(info: PodInfo, status: Status) -> bool:
    """Whether a pod's state counts: not from before a restart, and not caused by the controller.

    While a job restarts, only pods from before the restart count; new ones do afterwards.
    """
    if info.version < status.version or info.marked:
        return False
    return status.phase is not Phase.RESTARTING or info.retry < status.retries


def _pod_trigger(policy: Policy, event: str, info: PodInfo, *, subject: str = "", lost: str = "") -> Trigger:
    return Trigger(
        policy.action,
        event,
        f"{event}/{subject or info.uid}",
        policy.timeout or 0.0,
        0.0 if subject or lost else info.stamp,
        render_target(policy.action, info),
        info.failure(),
        lost,
    )
