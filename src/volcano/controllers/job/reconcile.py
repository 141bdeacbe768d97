"""The writes that move a job towards its spec: a pure function of its observed state."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from volcano.base.clock import Instant
from volcano.controllers.job import dependencies
from volcano.controllers.job import status as statuses
from volcano.controllers.job.finished import Finished, gone, recorded_in, without_targets
from volcano.controllers.job.objects import delete, is_foreign, is_left_over, job_event
from volcano.controllers.job.observe import Observed
from volcano.controllers.job.phases import ENDS, TEARDOWNS, Keep, TearDown, next_phase
from volcano.controllers.job.plugin_objects import ensure, remove
from volcano.controllers.job.plugins.plugin import PluginError
from volcano.controllers.job.pod_cache import PodInfo
from volcano.controllers.job.podgroup import is_ready, is_stale, make_group, pending_condition, update_group
from volcano.controllers.job.pods import FORWARDING, pod_maker
from volcano.controllers.job.restart_targets import WHOLE_JOB, join_targets, pods_to_restart, select_pods
from volcano.controllers.job.status import (
    FINISHED_PODS,
    RESTART,
    Counts,
    Status,
    at_least,
    counted,
    transition,
)
from volcano.controllers.job.types import (
    FINISHED,
    POD_PHASES,
    STOPPED,
    STOPPING,
    TERMINATING,
    Action,
    Phase,
)
from volcano.controllers.job.volumes import claim, claim_name, fill_in, marks
from volcano.kube.api.kinds import JOB, PERSISTENT_VOLUME_CLAIM, POD, POD_GROUP
from volcano.kube.api.manifest import TERMINAL_PHASES, Key, Manifest, annotations_of, is_deleting
from volcano.kube.api.names import OUT_OF_SYNC
from volcano.kube.client.operations import Concurrent, Create, Delete, Operation, Patch
from volcano.kube.client.protocol import Options

Operations = list[Operation | Concurrent]


@dataclass(frozen=True, slots=True)
class ActionRequest:
    """An action with its targets and its cause."""

    action: Action = Action.SYNC
    targets: str = ""
    cause: str = ""
    of_lost_pod: bool = False  # a target was deleted already: the restart counts though it deletes nothing


def reconcile(seen: Observed, request: ActionRequest, now: Instant) -> Operations:
    """The writes that are due, in order; after them there is nothing left to write.

    Raises NotYet while content for a plugin is being generated.
    """
    phase = seen.status.phase
    teardown = TEARDOWNS.get((phase, request.action))
    if teardown is not None and (operations := _tear_down(seen, teardown, request, now)):
        return operations
    if phase in STOPPING | STOPPED:
        return _drain(seen, now)
    try:
        return _sync(seen, now)
    except PluginError as error:
        return _follow_pods(seen, ("PluginError", str(error)), now)


def as_pending(seen: Observed, since: Instant) -> Observed:
    """A job without a status, treated as pending; a controller that starts after a crash does the same."""
    status = replace(seen.status, min_available=seen.job.min_available, controlled=_controlled(seen))
    return replace(seen, status=transition(status, Phase.PENDING, seen.job, since), is_new=True)


def first_status(seen: Observed) -> Operations:
    """The first status of a job, ahead of its PodGroup."""
    return _status(seen, seen.status)


def waits_for_plugin(seen: Observed) -> bool:
    """Whether a plugin has to generate content, such as keys. Does not depend on how long that takes."""
    return any(present is None and extra.is_generated for extra, present in seen.plugin_objects)


# --- tear-down


def _tear_down(seen: Observed, teardown: TearDown, request: ActionRequest, now: Instant) -> Operations:
    """Writes what is to be deleted to the status before anything is deleted, so that a restarted controller
    continues."""
    targets = _targets(seen, request) if teardown.keep is Keep.OTHERS else ""
    if teardown.keep is Keep.OTHERS and not targets:
        return []
    status = seen.status
    if status.restart == WHOLE_JOB and teardown.keep is Keep.NOTHING:
        return []  # in progress already
    status = replace(status, retries=status.retries + teardown.counts_as_retry)
    controlled = {
        name: value
        for name, value in status.controlled.items()
        if name != RESTART and not name.startswith(FINISHED_PODS)
    }
    if teardown.keep is Keep.OTHERS:
        finished = without_targets(seen.job, seen.finished, targets)
        counts = _after_restart(seen, status, targets, finished)
        controlled |= {**recorded_in(finished), RESTART: targets}
        status = replace(status, controlled=controlled, counts=counts)
    else:
        last_try = status.retries >= seen.job.max_retry
        keep_over = teardown.keep is Keep.FINISHED or last_try
        if teardown.keep is Keep.NOTHING:
            controlled[RESTART] = WHOLE_JOB
        else:
            controlled |= recorded_in(seen.finished)
        counts = _after_tear_down(seen, keep_over=keep_over)
        status = replace(status, version=status.version + 1, controlled=controlled, counts=counts)
    status = transition(
        status, teardown.phase, seen.job, now, reason=str(request.action), message=request.cause
    )
    written = _status(seen, status)
    if not written:
        return []  # in progress already
    text = f"Start to execute action {request.action}" + (f": {request.cause}" if request.cause else "")
    occasion = f"{status.version}/{status.retries}/{targets}"
    return [*written, job_event(seen.manifest, "ExecuteAction", text, now, occasion=occasion)]


def _targets(seen: Observed, request: ActionRequest) -> str:
    """The targets of a restart, together with those of the one in progress; empty when they select no pod."""
    status = seen.status
    if status.phase is Phase.RESTARTING:
        if status.restart == WHOLE_JOB:
            return ""
        victims = [m for m in select_pods(seen.pod_cache, request.targets) if m.retry < status.retries]
        return join_targets((*status.restart.split(","), *request.targets.split(","))) if victims else ""
    concerned = request.of_lost_pod or any(select_pods(seen.pod_cache, request.targets))
    return request.targets if concerned else ""


def _after_restart(seen: Observed, status: Status, targets: str, finished: Finished) -> Counts:
    """The counts once the deletion of a restart's targets has been requested."""
    now = counted(seen.job, seen.pod_cache, {task: gone(task, finished, seen.pod_cache) for task in finished})
    total, tasks = dict(now.total), {task: dict(counts) for task, counts in now.tasks.items()}
    victims = {m.name: m for m in select_pods(seen.pod_cache, targets) if m.retry < status.retries}
    for info in victims.values():
        if info.task in tasks:
            total[info.state] -= 1
            tasks[info.task][info.state] -= 1
            total[TERMINATING] = total.get(TERMINATING, 0) + 1
    return Counts(total, tasks)


def _after_tear_down(seen: Observed, *, keep_over: bool) -> Counts:
    """The counts once all deletions have been requested."""
    kept = TERMINAL_PHASES if keep_over else ()
    now = seen.counts if keep_over else counted(seen.job, seen.pod_cache)
    deleted = now.of(*(phase for phase in POD_PHASES if phase not in kept))
    total = {phase: now.of(phase) for phase in kept}
    tasks = {task: {phase: counts.get(phase, 0) for phase in kept} for task, counts in now.tasks.items()}
    return Counts({**total, TERMINATING: now.of(TERMINATING) + deleted}, tasks)


def _drain(seen: Observed, now: Instant) -> Operations:
    """Deletes what a stopping or stopped job still runs."""
    status, pod_cache = seen.status, seen.pod_cache
    operations: Operations = []
    if victims := list(pod_cache.in_states("Pending", "Running", "Unknown")):
        operations.append(_delete_all(seen, victims))
    if seen.group is not None and not is_deleting(seen.group):
        operations.append(delete(POD_GROUP, seen.group))
    if status.phase in FINISHED:
        for extra, present in seen.plugin_objects:
            operations += remove(extra, present, seen.job)
    if operations:
        return operations
    status = replace(status, counts=at_least(seen.counts, status.counts), controlled=_controlled(seen))
    if status.phase in ENDS and not pod_cache.alive():
        status = transition(
            status, ENDS[status.phase], seen.job, now, reason=status.reason, message=status.message
        )
    return _status(seen, status)


# --- synchronization


def _sync(seen: Observed, now: Instant) -> Operations:
    status = seen.status
    if status.phase is Phase.RESTARTING and (rest := _continue_restart(seen)):
        return rest
    if status.phase is Phase.RESTARTING and status.retries >= seen.job.max_retry:
        return _status(seen, _progressed(seen, replace(status, counts=seen.counts), now))
    if problem := _blocking_problem(seen):
        return _follow_pods(seen, problem, now)
    operations: Operations = [*_prepare(seen, now)]
    if operations:
        return operations
    group = list(_group(seen))
    operations += [*group, *_events(seen, now)]
    ready = is_ready(seen.group)
    reason, message = ("", "") if _had_problem(status) else (status.reason, status.message)
    if seen.stuck:
        reason, message = dependencies.FAILED, seen.stuck
        operations.append(job_event(seen.manifest, "DependencyFailed", message, now, warning=True))
    status = replace(
        status,
        counts=seen.counts if ready else status.counts,
        min_available=seen.job.min_available,
        controlled=_controlled(seen),
        reason=reason,
        message=message,
    )
    pods = list(_pods(seen)) if ready else []
    # The PodGroup of a new job is created before its first status is written, however many jobs are new: the job
    # starts sooner, and a job without a status is treated as pending.
    if not seen.is_new or not (group or pods):
        operations += _status(seen, _progressed(seen, status, now))
    return [*operations, *pods]


def _follow_pods(seen: Observed, problem: tuple[str, str], now: Instant) -> Operations:
    """Reports why nothing is created for the job. Its status follows the pods that it has: it may still end."""
    reason, message = problem
    counts = seen.counts if is_ready(seen.group) else seen.status.counts
    status = replace(seen.status, counts=counts, reason=reason, message=message)
    operations: Operations = [*_status(seen, _progressed(seen, status, now))]
    if seen.pods.surplus:
        operations.append(_delete_all(seen, seen.pods.surplus))
    return [*operations, job_event(seen.manifest, reason, message, now, warning=True)]


def _continue_restart(seen: Observed) -> Operations:
    """Deletes the pods that a restart in progress has yet to delete, then the PodGroup from before it."""
    operations: Operations = []
    if victims := pods_to_restart(seen.job, seen.status, seen.pod_cache):
        if seen.status.restart not in ("", WHOLE_JOB):
            # Marked, so that the deletion is not mistaken for an eviction, even by a controller that starts
            # meanwhile.
            unmarked = [info for info in victims if not info.marked]
            if unmarked:
                operations.append(Concurrent(tuple(_mark(seen, info) for info in unmarked)))
        operations.append(_delete_all(seen, victims))
    if seen.group is not None and is_stale(seen.group, seen.status) and not is_deleting(seen.group):
        operations.append(delete(POD_GROUP, seen.group))
    return operations


def _progressed(seen: Observed, status: Status, now: Instant) -> Status:
    """The status after the transition that its counts call for."""
    phase = next_phase(seen.job, status)
    if phase is status.phase:
        return status
    controlled = {name: value for name, value in status.controlled.items() if name != RESTART}
    if phase in FINISHED:
        controlled = {name: text for name, text in controlled.items() if not name.startswith(FINISHED_PODS)}
        status = replace(status, version=status.version + 1)
    reason, message = _failure_reason(seen, status, phase)
    return transition(
        replace(status, controlled=controlled), phase, seen.job, now, reason=reason, message=message
    )


def _failure_reason(seen: Observed, status: Status, phase: Phase) -> tuple[str, str]:
    """Reason and message of a failed job; empty for other phases."""
    if phase is not Phase.FAILED:
        return "", ""
    failed = sorted(seen.pod_cache.in_states("Failed"), key=lambda info: (info.stamp, info.name))
    first = f"; the first to fail was {failed[0].failure()}" if failed else ""
    if status.phase is Phase.RESTARTING:
        text = f"restarted {status.retries} times, and maxRetry is {seen.job.max_retry}{first}"
        return "RetriesExhausted", text
    succeeded, count = status.counts.of("Succeeded"), status.counts.of("Failed")
    text = f"all pods have ended: {succeeded} succeeded and {count} failed, too few succeeded{first}"
    return "PodsFailed", text


def _blocking_problem(seen: Observed) -> tuple[str, str] | None:
    """Reason and message of what keeps objects from being created for the job, if anything does."""
    if seen.problem:
        return seen.reason, seen.problem
    if seen.group is None and seen.dependency[0]:
        return seen.dependency
    if seen.queue is None:
        return (
            "QueueNotFound",
            f"queue {seen.job.queue!r} does not exist; create it, or name another in spec.queue",
        )
    state = queue_state(seen.queue)
    if state in CLOSED_STATES and seen.group is None:
        return "QueueNotOpen", f"queue {seen.job.queue!r} is {state}; open it, or name another in spec.queue"
    if (foreign := seen.foreign) is not None:
        extra, _ = foreign
        needed = f"plugin {extra.plugin.name} needs the {extra.kind.kind} {extra.key.name}"
        text = "which exists and is not of this job; delete it, or give the job another name"
        return "PluginError", f"{needed}, {text}"
    for position, volume in enumerate(seen.job.volumes):
        if volume.claim is None and not volume.claim_name:
            return (
                "PVCError",
                f"spec.volumes[{position}] needs volumeClaimName or volumeClaim; it has neither",
            )
        if volume.claim is None and volume.claim_name not in seen.claims:
            return "PVCError", f"spec.volumes[{position}]: claim {volume.claim_name!r} does not exist"
    return None


_PROBLEM_REASONS = frozenset(
    {
        "PluginError",
        "InvalidJob",
        "QueueNotFound",
        "QueueNotOpen",
        "PVCError",
        dependencies.PENDING,
        dependencies.NEVER,
        dependencies.FAILED,
    }
)
# States of a queue that rejects new PodGroups.
CLOSED_STATES = frozenset({"Closed", "Closing", "Unknown"})


def _had_problem(status: Status) -> bool:
    return status.reason in _PROBLEM_REASONS


def _prepare(seen: Observed, now: Instant) -> Iterator[Operation]:
    """Writes that precede the PodGroup: the forwarding annotation, claims, and objects of plugins."""
    job = seen.job
    if _is_forwarded(seen) and annotations_of(seen.manifest).get(FORWARDING) != "true":
        yield Patch(JOB, job.key, {"metadata": {"annotations": {FORWARDING: "true"}}})
    for position in range(len(job.volumes)):
        wanted = claim(job, position)
        if wanted is not None and claim_name(job, position) not in seen.claims:
            yield Create(PERSISTENT_VOLUME_CLAIM, wanted, if_absent=True)
    if (named := fill_in(seen.manifest, job)) is not None:
        yield named
    for extra, present in seen.plugin_objects:
        content = seen.contents.get(extra.key)
        if (
            present is None
            and extra.is_generated
            and not content
            and any(seen.pod_cache.in_states("Running"))
        ):
            text = f"{extra.kind.kind} {extra.key.name} is created with new keys, but running pods have the old ones"
            yield job_event(seen.manifest, "KeysReplaced", text, now, warning=True)
        yield from ensure(extra, present, job, content)


def _group(seen: Observed) -> Iterator[Operation]:
    if seen.group is None:
        manifest = make_group(seen.job, seen.status, seen.min_resources, seen.gang)
        yield Create(POD_GROUP, manifest, if_absent=True)
    elif not is_deleting(seen.group):
        change = update_group(seen.group, seen.job, seen.status, seen.min_resources, seen.gang)
        if change is not None:
            yield change


def _events(seen: Observed, now: Instant) -> Iterator[Operation]:
    """Events beside the status."""
    job = seen.job
    for holder in seen.pods.blockers:
        if is_foreign(holder, job):
            name = holder["metadata"]["name"]
            text = f"pod {name} exists and is not of this job; it is created when that one is deleted"
            yield job_event(seen.manifest, "FailedCreate", text, now, warning=True)
            break
    for plugin in seen.plugins:
        if plugin.arguments.error:
            yield job_event(seen.manifest, "PluginError", plugin.arguments.error, now, warning=True)
    if (condition := pending_condition(seen.group)) is not None:
        text = (
            f"PodGroup {job.namespace}:{job.name} {str(condition.get('type', '')).lower()}, "
            f"reason: {condition.get('message', '')}"
        )
        yield job_event(seen.manifest, "PodGroupPending", text, now, warning=True)


def _pods(seen: Observed) -> Iterator[Operation | Concurrent]:
    """Creates missing pods, deletes surplus pods and those of a deleted job of the same name."""
    creates: list[Operation] = []
    for task in seen.job.tasks:
        if missing := seen.pods.missing.get(task.name):
            make = pod_maker(seen.job, task, seen.status, seen.plugins, forwarded=_is_forwarded(seen))
            creates += (Create(POD, make(index)) for index in missing)
    if creates:
        yield Concurrent(tuple(creates))
    if seen.pods.surplus:
        yield _delete_all(seen, seen.pods.surplus)
    for holder in seen.pods.blockers:
        if is_left_over(holder, seen.job) and not is_deleting(holder):
            yield delete(POD, holder)


# --- helpers


def queue_state(queue: Manifest) -> str:
    """The state of a queue; Open unless its status says otherwise."""
    return str((queue.get("status") or {}).get("state") or "Open")


def _is_forwarded(seen: Observed) -> bool:
    return bool(((seen.queue or {}).get("spec") or {}).get("extendClusters"))


def _controlled(seen: Observed) -> dict[str, str]:
    """`controlledResources` of the status: plugins, claims, finished pods, and the restart in progress."""
    restart = seen.status.controlled.get(RESTART)
    plugins = () if seen.status.phase in FINISHED else seen.plugins
    return {
        **{f"plugin-{plugin.name}": plugin.name for plugin in plugins if plugin.name != "hcclrank"},
        **dict(marks(seen.job, dict.fromkeys(seen.claims))),
        **(recorded_in(seen.finished) if seen.status.phase not in FINISHED else {}),
        **({RESTART: restart} if restart and seen.status.phase is Phase.RESTARTING else {}),
    }


def _status(seen: Observed, status: Status) -> Operations:
    if status == seen.status and not seen.is_new:
        return []
    write = statuses.write(seen.manifest, status)
    return [] if write is None else [write]


def _mark(seen: Observed, info: PodInfo) -> Patch:
    patch: Manifest = {"metadata": {"annotations": {OUT_OF_SYNC: "true"}}}
    return Patch(POD, Key(seen.job.namespace, info.name), patch, if_present=True)


def _delete_all(seen: Observed, pods: Iterable[PodInfo]) -> Concurrent:
    namespace = seen.job.namespace
    return Concurrent(
        tuple(Delete(POD, Key(namespace, info.name), Options(uid=info.uid), if_present=True) for info in pods)
    )
