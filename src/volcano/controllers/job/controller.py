"""The Job controller: watches jobs and their objects, and reconciles one job at a time."""

from collections.abc import Hashable, Iterable, Sequence

from volcano.base.clock import Instant, parse_timestamp
from volcano.base.log import Log
from volcano.base.metrics import CollectorRegistry
from volcano.controllers.expiry import TimesToLive
from volcano.controllers.job.commands import in_order, is_for_another, must_wait, target_of, wait_left
from volcano.controllers.job.finished import drop_recorded
from volcano.controllers.job.lost_pods import drop_handled_pods, find_lost_pods
from volcano.controllers.job.metrics import JobMetrics
from volcano.controllers.job.objects import delete, job_event, owning_job
from volcano.controllers.job.observe import Observed, compile_job, observe
from volcano.controllers.job.phases import TEARDOWNS
from volcano.controllers.job.plugins.keys import KeyPool
from volcano.controllers.job.plugins.plugin import KeySource, NotYet
from volcano.controllers.job.pod_cache import is_task_pod, pod_info_of
from volcano.controllers.job.podgroup import is_equivalent, phase_of
from volcano.controllers.job.policies import Trigger, most_severe, triggers
from volcano.controllers.job.reconcile import (
    CLOSED_STATES,
    ActionRequest,
    Operations,
    as_pending,
    first_status,
    queue_state,
    reconcile,
    waits_for_plugin,
)
from volcano.controllers.job.restart_targets import join_targets
from volcano.controllers.job.state import JobState, is_report, round_of
from volcano.controllers.job.status import parse_status
from volcano.controllers.job.timeouts import delete_expired, time_ahead, ttl_left
from volcano.controllers.job.types import Action, Phase, PolicyEvent, action_named
from volcano.controllers.job.walltime import (
    elapsed_text,
    enforced_walltime,
    warn_before_end,
    with_enforcement,
)
from volcano.kube.api import duration
from volcano.kube.api.errors import BadRequest, Conflict, Invalid
from volcano.kube.api.kinds import (
    COMMAND,
    CONFIG_MAP,
    EVENT,
    JOB,
    NETWORK_POLICY,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    POD_GROUP,
    PRIORITY_CLASS,
    QUEUE,
    SECRET,
    SERVICE,
)
from volcano.kube.api.manifest import Key, Manifest, annotations_of, is_deleting, key_of, labels_of, uid_of
from volcano.kube.api.names import DEFAULT_QUEUE, JOB_NAME, SCHEDULER_NAME
from volcano.kube.client.operations import Create, Delete, Get, Operation, Patch
from volcano.kube.client.protocol import Event, EventType, Watch
from volcano.kube.controllers.controller import Plan, Reconciler, WorkResult
from volcano.model.annotations.walltime import is_enforced
from volcano.model.job_dependencies import dependencies_of

log = Log("job")

# Invalid writes that are retried before the job is terminated.
MAX_REJECTIONS = 15
# Seconds after which a problem is checked again that no watched object can resolve.
PROBLEM_RECHECK_INTERVAL = 60.0
FOREIGN_RECHECK_INTERVAL = 10.0
# Seconds after which content generated for a plugin may be ready.
PLUGIN_RETRY_DELAY = 0.05


class JobController(Reconciler[Key]):
    """Turns one manifest into a gang of pods, and restarts, completes and deletes it by policy."""

    name = "job-controller"
    watches: Sequence[Watch] = (
        Watch(JOB),
        Watch(POD, labels=JOB_NAME),
        Watch(POD_GROUP),
        Watch(COMMAND),
        Watch(QUEUE),
        Watch(PRIORITY_CLASS),
        Watch(PERSISTENT_VOLUME_CLAIM),
        Watch(SERVICE, labels=JOB_NAME),
        Watch(CONFIG_MAP, labels=JOB_NAME),
        Watch(SECRET, labels=JOB_NAME),
        Watch(NETWORK_POLICY, labels=JOB_NAME),
    )

    def __init__(
        self,
        *,
        scheduler_name: str = SCHEDULER_NAME,
        keys: KeySource | None = None,
        registry: CollectorRegistry | None = None,
        max_rejections: int = MAX_REJECTIONS,
        delete_finished: bool = True,
    ) -> None:
        super().__init__()
        self._scheduler_name = scheduler_name
        self._keys = keys or KeyPool()
        self._metrics = JobMetrics(registry if registry is not None else CollectorRegistry())
        self._max_rejections = max_rejections
        self._delete_finished = delete_finished
        self._times_to_live = TimesToLive()
        self._states: dict[str, JobState] = {}  # by the uid of the job
        self._uids: dict[Key, str] = {}  # of jobs that were reconciled
        self.indexer.add_index(COMMAND, "target", lambda command: filter(None, (target_of(command),)))
        self.indexer.add_index(
            JOB, "queue", lambda job: ((job.get("spec") or {}).get("queue") or DEFAULT_QUEUE,)
        )
        self.indexer.add_index(JOB, "claim", _claims)
        self.indexer.add_index(JOB, "dependency", _needed_jobs)

    # --- events

    def keys(self, event: Event) -> Iterable[Key]:
        manifest: Manifest = event.object
        key = key_of(manifest)
        if event.kind is JOB:
            return [key, *(key_of(job) for job in self.indexer.by_index(JOB, "dependency", key))]
        if event.kind is COMMAND:
            target = target_of(manifest)
            return (target,) if target else ()
        if event.kind is QUEUE:
            return [key_of(job) for job in self.indexer.by_index(JOB, "queue", key.name)]
        owner = owning_job(manifest)
        names = {owner[0]} if owner else {labels_of(manifest).get(JOB_NAME, "")} - {""}
        waiting = self.indexer.by_index(JOB, "claim", key) if event.kind is PERSISTENT_VOLUME_CLAIM else ()
        return [*(Key(key.namespace, name) for name in names), *(key_of(job) for job in waiting)]

    def on_event(self, event: Event) -> None:
        if event.kind is EVENT:
            return  # results of the controller's own writes, which are not cached
        if event.kind is SECRET and event.type is EventType.DELETED:
            self._keep_content(event.object)
        if event.kind is not POD and not self._is_irrelevant_change(event):
            super().on_event(event)
            return
        place = event.object_key()
        before = self.indexer.get(event.kind, place)
        if self.indexer.update(event, place, before) and event.kind is POD:
            after = None if event.type is EventType.DELETED else event.object
            if self._cache_pod(before, after):
                for manifest in filter(None, (before, after)):
                    for key in self.keys(Event(event.type, POD, manifest)):
                        self.enqueue(key)

    def _keep_content(self, deleted: Manifest) -> None:
        """Keeps the content of a Secret of a job, to create it again with the keys that running pods have."""
        owner = owning_job(deleted)
        state = self._states.get(owner[1]) if owner else None
        if state is not None:
            state.contents[key_of(deleted)] = dict(deleted.get("data") or {})

    def _is_irrelevant_change(self, event: Event) -> bool:
        """Whether a change of a queue or PodGroup concerns no job: most only change counts and times."""
        watched = event.kind is QUEUE or event.kind is POD_GROUP
        if not watched or event.type is EventType.DELETED:
            return False
        known = self.indexer.get(event.kind, key_of(event.object))
        if known is None or uid_of(known) != uid_of(event.object):
            return False
        if event.kind is QUEUE:
            return _relevant_state(known) == _relevant_state(event.object)
        return is_equivalent(known, event.object)

    def _cache_pod(self, before: Manifest | None, after: Manifest | None) -> bool:
        """Updates the pod cache of the pod's job; returns whether the job has to be reconciled."""
        if before is not None and (after is None or uid_of(before) != uid_of(after)):
            self._on_pod_deleted(before)
        if after is None or (owner := owning_job(after)) is None:
            return True
        pod_cache = self._states.setdefault(owner[1], JobState()).pod_cache
        info = pod_info_of(after)
        if not is_task_pod(info, owner[0]):
            return pod_cache.remove(info.name) is not None
        if pod_cache.pods.get(info.name) == info:
            return False
        pod_cache.put(info)
        return True

    def _on_pod_deleted(self, pod: Manifest) -> None:
        """Removes a pod from the cache; one that the controller did not delete is kept as lost until it is
        handled."""
        owner = owning_job(pod)
        state = self._states.get(owner[1]) if owner else None
        if owner is None or state is None:
            return
        info = state.pod_cache.remove(pod["metadata"]["name"])
        if state.compiled is None:
            if state.pod_cache.is_empty():
                del self._states[owner[1]]
        elif info is not None and not info.marked and not state.was_own_deletion(info.uid):
            kept = state.pod_cache.succeeded if info.state == "Succeeded" else state.pod_cache.lost
            kept[info.uid] = info

    # --- reconciling

    def reconcile(self, key: Key, now: Instant) -> Plan:
        manifest = self.indexer.get(JOB, key)
        self._forget_replaced(key, "" if manifest is None else uid_of(manifest))
        commands = in_order(self.indexer.by_index(COMMAND, "target", key))
        if manifest is None:
            return _wait_for_job(commands, now)
        if is_deleting(manifest):
            return Plan([delete(COMMAND, command) for command in commands])
        state = self._states.setdefault(uid_of(manifest), JobState())
        self._uids[key] = uid_of(manifest)
        is_first_look = state.compiled is None
        # A job that could not be compiled is compiled again: a plugin may have been installed meanwhile.
        if state.compiled is None or state.compiled.problem or not state.compiled.fits(manifest):
            state.compiled = compile_job(manifest, self._scheduler_name, self._keys)
        seen = observe(self.indexer, manifest, state.compiled, state.pod_cache, state.contents)
        if seen is None:
            return self._report_invalid(manifest, state, now)
        if seen.status.phase is Phase.NONE:
            state.first_seen = state.first_seen or now
            seen = as_pending(seen, state.first_seen)
        if is_first_look:
            find_lost_pods(seen)
        drop_recorded(seen.job, seen.status, state.pod_cache)
        plan = self._decide(seen, state, commands, now)
        operations = state.drop_recorded_events(plan.operations, now)
        state.record_deletions(operations)
        wait = state.counters_delay(operations, seen.status.phase, now)
        if wait is not None:
            return Plan((), wait if plan.requeue_after is None else min(wait, plan.requeue_after))
        return Plan(operations, plan.requeue_after, is_report(operations, first=seen.is_new))

    def _decide(self, seen: Observed, state: JobState, commands: Sequence[Manifest], now: Instant) -> Plan:
        operations: Operations = []
        left = ttl_left(seen.job, seen.status, self._times_to_live, now) if self._delete_finished else None
        if left is not None:
            if left <= 0:
                return Plan([delete_expired(seen.job, seen.manifest)])
            operations += time_ahead(seen.job, seen.manifest, seen.status, now)
        if state.rejection is not None:
            reason, message = state.rejection
            operations.append(job_event(seen.manifest, reason, message, now, warning=True))
            state.rejection = None
        if seen.is_new and (operations or waits_for_plugin(seen)):
            return Plan([*operations, *first_status(seen)])  # creating its PodGroup may take a while
        if commands and not must_wait(action_named(commands[0].get("action")), seen.status.phase):
            return Plan([*operations, *_execute_command(seen, state, commands[0], now)])
        request, waiting, wait = self._request(seen, state, now)
        operations += waiting
        try:
            operations += reconcile(seen, request, now)
        except NotYet:
            return Plan(operations, PLUGIN_RETRY_DELAY)
        recheck = PROBLEM_RECHECK_INTERVAL if seen.problem else None
        if (foreign := seen.foreign) is not None:
            # Objects without the job's label are not watched: its deletion is noticed by reading it.
            extra, present = foreign
            recheck = state.foreign_due - now.monotonic
            if recheck <= 0:
                state.foreign_due, recheck = (
                    now.monotonic + FOREIGN_RECHECK_INTERVAL,
                    FOREIGN_RECHECK_INTERVAL,
                )
                operations.append(Get(extra.kind, extra.key, uid_of(present)))
        again = [moment for moment in (left, wait, recheck) if moment is not None]
        return Plan(operations, min(again, default=None))

    def _request(
        self, seen: Observed, state: JobState, now: Instant
    ) -> tuple[ActionRequest, Operations, float | None]:
        """The action that policies ask for now, events about delayed actions, and the seconds until the next
        of them."""
        if 0 <= self._max_rejections < state.rejections:
            cause = "the retry limit was reached: the server keeps refusing what the job needs"
            return ActionRequest(Action.TERMINATE, cause=cause), [], None
        drop_handled_pods(seen, state)
        limit = enforced_walltime(seen.job, seen.queue)
        job = seen.job if limit is None else with_enforcement(seen.job, limit)
        times = state.timers.sort(
            triggers(job, seen.status, seen.pod_cache, phase_of(seen.group), seen.gone), now
        )
        warning, warn_after = (
            (None, None) if limit is None else warn_before_end(seen, limit, state.timers.started, now)
        )
        wait = min((left for left in (times.wait, warn_after) if left is not None), default=None)
        events: Operations = [
            job_event(
                seen.manifest,
                "ExecuteAction",
                f"Execute action {trigger.action} after {duration.format(trigger.delay)}",
                now,
                occasion=trigger.subject,
            )
            for trigger in times.new
        ]
        if warning is not None:
            events.append(warning)
        chosen = most_severe(times.due)
        if not chosen:
            return ActionRequest(), events, wait
        for trigger in chosen:
            if trigger.lost:
                state.handled[trigger.lost] = round_of(seen.status)
        request = ActionRequest(
            chosen[0].action,
            join_targets(t.target for t in chosen),
            elapsed_text(job, limit)
            if limit is not None and chosen[0].event == PolicyEvent.POD_RUNNING
            else _cause(chosen),
            of_lost_pod=any(t.lost for t in chosen),
        )
        return request, events, wait

    def _report_invalid(self, manifest: Manifest, state: JobState, now: Instant) -> Plan:
        """Reports on a job that its spec is invalid."""
        assert state.compiled is not None
        problem, reason = state.compiled.problem, state.compiled.reason
        wanted = {
            "phase": str(parse_status(manifest).phase or Phase.PENDING),
            "reason": reason,
            "message": problem,
        }
        known = (manifest.get("status") or {}).get("state") or {}
        operations: Operations = [job_event(manifest, reason, problem, now, warning=True)]
        if any(known.get(name) != value for name, value in wanted.items()):
            operations.insert(
                0, Patch(JOB, key_of(manifest), {"status": {"state": wanted}}, subresource="status")
            )
        return Plan(state.drop_recorded_events(operations, now))

    def _forget_replaced(self, key: Key, uid: str) -> None:
        """Drops the state of a job that was deleted or replaced by one of the same name."""
        known = self._uids.get(key)
        if known is not None and known != uid:
            self._metrics.forget(key)
            self._times_to_live.forget(known)
            del self._uids[key]
            state = self._states.get(known)
            if state is not None:
                state.pod_cache.lost.clear()
                state.pod_cache.succeeded.clear()
                state.compiled = None
                if state.pod_cache.is_empty():
                    del self._states[known]

    # --- results of writes

    def on_done(self, key: Key, done: WorkResult, now: Instant) -> None:
        manifest = self.indexer.get(JOB, key)
        state = self._states.get(uid_of(manifest)) if manifest is not None else None
        if state is not None:
            if done.error is None:
                state.rejections = 0
            else:
                state.rejections += isinstance(done.error, Invalid | BadRequest)
                state.rejection = _rejection(done)

    def on_written(self, operation: Operation, result: Manifest) -> None:
        if isinstance(operation, Get) and not result:
            known = self.indexer.get(operation.kind, operation.key)
            if known is not None and uid_of(known) == operation.uid:
                self.indexer.apply(Event(EventType.DELETED, operation.kind, known))
        if operation.kind is POD and isinstance(operation, Create):
            owner = owning_job(result)
            job = self.indexer.get(JOB, Key(operation.key.namespace, owner[0])) if owner else None
            if job is not None:
                self._metrics.pod_made((_created(result) - _created(job)) * 1000)
        elif operation.kind is JOB and isinstance(operation, Patch):
            phase = (((operation.patch or {}).get("status") or {}).get("state") or {}).get("phase")
            if phase:
                state = (result.get("status") or {}).get("state") or {}
                why = ": ".join(filter(None, (state.get("reason"), state.get("message"))))
                log.info(
                    "job phase changed", job=operation.key, phase=phase, **({"reason": why} if why else {})
                )
            queue = (result.get("spec") or {}).get("queue") or DEFAULT_QUEUE
            if phase == Phase.COMPLETED:
                self._metrics.completed(operation.key, queue)
            elif phase == Phase.FAILED:
                self._metrics.failed(operation.key, queue)


def _execute_command(seen: Observed, state: JobState, command: Manifest, now: Instant) -> Operations:
    """Executes a command once and deletes it."""
    uid, name = uid_of(command), str(command.get("action", ""))
    if state.was_handled(uid, seen.status) or is_for_another(command, seen.job.uid):
        return [delete(COMMAND, command)]
    action = action_named(name)
    operations: Operations = []
    if (seen.status.phase, action) in TEARDOWNS:
        request = ActionRequest(action, cause=f"command {command['metadata']['name']}")
        operations = reconcile(seen, request, now)
        state.handled[uid] = round_of(seen.status)
    text = f"Start to execute command {name}, and clean it up to make sure executed not more than once."
    issued = job_event(seen.manifest, PolicyEvent.COMMAND_ISSUED, text, now, occasion=uid)
    return [*operations, issued, delete(COMMAND, command)]


def _wait_for_job(commands: Sequence[Manifest], now: Instant) -> Plan:
    """Deletes commands whose job does not exist, after a delay: the event of the job may be late."""
    late = list(wait_left(commands, now))
    waits = [left for _, left in late if left > 0]
    return Plan([delete(COMMAND, command) for command, left in late if left <= 0], min(waits, default=None))


def _cause(chosen: Sequence[Trigger]) -> str:
    """The cause of an action, for users."""
    first = chosen[0]
    about = f" of {first.pod}" if first.pod else ""
    more = f" and {len(chosen) - 1} more" if len(chosen) > 1 else ""
    return f"{first.event}{about}{more}"


def _rejection(done: WorkResult) -> tuple[str, str] | None:
    """The event that reports a rejected write; None when users need not know of it."""
    operation = done.failed
    assert done.error is not None
    assert operation is not None
    if operation.kind is POD_GROUP and isinstance(operation, Create | Patch):
        return "PodGroupError", f"PodGroup {operation.key}: {done.error.message}"
    if operation.kind is PERSISTENT_VOLUME_CLAIM:
        return "PVCError", f"claim {operation.key}: {done.error.message}"
    if operation.kind is JOB and isinstance(operation, Patch) and not isinstance(done.error, Conflict):
        return "JobStatusError", f"job {operation.key}: {done.error.message}"
    if isinstance(operation, Delete) and operation.kind is not COMMAND:
        text = f"Error deleting {operation.kind.singular} {operation.key.name}: {done.error.message}"
        return "FailedDelete", text
    if isinstance(operation, Create):
        text = f"Error creating {operation.kind.singular} {operation.key.name}: {done.error.message}"
        return "FailedCreate", text
    return None


def _needed_jobs(job: Manifest) -> Iterable[Key]:
    """The jobs that have to end before a job starts."""
    namespace = key_of(job).namespace
    return [Key(namespace, needed.name) for needed in dependencies_of(annotations_of(job))]


def _claims(job: Manifest) -> Iterable[Hashable]:
    namespace = job["metadata"].get("namespace", "")
    volumes = (job.get("spec") or {}).get("volumes") or ()
    return {Key(namespace, volume.get("volumeClaimName") or "") for volume in volumes}


def _relevant_state(queue: Manifest) -> tuple[bool, bool, bool]:
    """The part of a queue that its jobs depend on: whether they are forwarded, whether it is closed, and whether it
    enforces walltimes."""
    return (
        bool((queue.get("spec") or {}).get("extendClusters")),
        queue_state(queue) in CLOSED_STATES,
        is_enforced(annotations_of(queue)),
    )


def _created(manifest: Manifest) -> float:
    stamp = manifest["metadata"].get("creationTimestamp")
    return parse_timestamp(stamp) if stamp else 0.0
