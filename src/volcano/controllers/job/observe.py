"""The observed state of one job: its spec, status, PodGroup, pods and other objects."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from volcano.controllers.job.dependencies import unfulfilled
from volcano.controllers.job.finished import Finished, finished_pods, gone, reduced
from volcano.controllers.job.min_resources import min_resources
from volcano.controllers.job.objects import is_foreign, is_ours
from volcano.controllers.job.plugin_objects import PluginObject, plugin_objects_of
from volcano.controllers.job.plugins.loading import load_plugins
from volcano.controllers.job.plugins.plugin import KeySource, Plugin, PluginError
from volcano.controllers.job.pod_cache import PodCache, PodInfo
from volcano.controllers.job.podgroup import is_ready
from volcano.controllers.job.pods import pod_name
from volcano.controllers.job.spec import Job, SpecError, Task, parse_job
from volcano.controllers.job.status import Counts, Status, counted, parse_status
from volcano.controllers.job.types import POD_PHASES, STOPPED, STOPPING
from volcano.controllers.job.volumes import claim_name
from volcano.kube.api.kinds import PERSISTENT_VOLUME_CLAIM, POD, POD_GROUP, PRIORITY_CLASS, QUEUE
from volcano.kube.api.manifest import Key, Manifest, annotations_of, labels_of, uid_of, whole_number
from volcano.kube.api.names import MAX_RUNNING_PODS
from volcano.kube.informers.indexer import Indexer
from volcano.model.job_dependencies import dependencies_of


@dataclass(slots=True)
class CompiledJob:
    """A job's parsed spec with its plugins and their objects; compiled again only when the spec changes."""

    manifest: Manifest
    job: Job | None = None
    plugins: tuple[Plugin, ...] = ()
    plugin_objects: tuple[PluginObject, ...] = ()
    reason: str = ""  # reason and message of an error that keeps the job from being processed
    problem: str = ""
    least: dict[tuple[int, ...], Mapping[str, str]] = field(default_factory=dict)  # by priorities and sizes

    def fits(self, manifest: Manifest) -> bool:
        """Whether it was compiled from this version of the job."""
        known, new = self.manifest["metadata"], manifest["metadata"]
        if uid_of(self.manifest) != uid_of(manifest) or known.get("generation") != new.get("generation"):
            return False
        if labels_of(self.manifest) != labels_of(manifest) or annotations_of(self.manifest) != annotations_of(
            manifest
        ):
            return False
        return "generation" in new or self.manifest.get("spec") == manifest.get("spec")

    def min_resources(self, priorities: Mapping[str, int], gang: Job | None = None) -> Mapping[str, str]:
        """The resources of the smallest gang; those of the whole job are computed once for each order of priorities."""
        assert self.job is not None
        if gang is not None and gang is not self.job:
            return min_resources(gang, priorities)
        order = tuple(priorities.values())
        if order not in self.least:
            self.least[order] = min_resources(self.job, priorities)
        return self.least[order]


@dataclass(frozen=True, slots=True)
class Pods:
    """The pods to create and to delete."""

    missing: Mapping[str, tuple[int, ...]]  # by task, those that may be created now
    blockers: tuple[Manifest, ...] = ()  # pods with other owners that have the names of this job's pods
    surplus: tuple[PodInfo, ...] = ()


_NO_PODS = Pods({})
_NO_CONTENTS: Mapping[Key, Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Observed:
    """One job and everything that belongs to it, as last seen."""

    manifest: Manifest
    job: Job
    status: Status
    pod_cache: PodCache
    group: Manifest | None
    min_resources: Mapping[str, str]
    queue: Manifest | None
    pods: Pods
    plugins: tuple[Plugin, ...] = ()
    plugin_objects: tuple[tuple[PluginObject, Manifest | None], ...] = ()
    claims: frozenset[str] = frozenset()
    reason: str = ""
    problem: str = ""
    is_new: bool = False  # it has no status yet
    dependency: tuple[str, str] = ("", "")  # reason and message while other jobs have to end first
    stuck: str = ""  # why a task cannot start any more
    finished: Finished = field(default_factory=dict)
    contents: Mapping[Key, Mapping[str, str]] = field(default_factory=dict)  # of Secrets that were deleted
    gang: Job | None = None  # the job with the pods that have to run together now

    @property
    def gone(self) -> dict[str, int]:
        """The numbers of pods by task that have succeeded and do not exist any more."""
        return {task: gone(task, self.finished, self.pod_cache) for task in self.finished}

    @property
    def counts(self) -> Counts:
        return counted(self.job, self.pod_cache, self.gone)

    @property
    def foreign(self) -> tuple[PluginObject, Manifest] | None:
        """The first object of another owner that has the name of one of a plugin."""
        return next(
            (
                (extra, present)
                for extra, present in self.plugin_objects
                if present is not None and is_foreign(present, self.job)
            ),
            None,
        )


def compile_job(manifest: Manifest, scheduler_name: str, keys: KeySource) -> CompiledJob:
    """Parses a job and loads its plugins; an invalid job is returned with the reason and the problem."""
    compiled = CompiledJob(manifest)
    try:
        compiled.job = parse_job(manifest, scheduler_name=scheduler_name)
        compiled.plugins = load_plugins(compiled.job.plugins or {}, keys)
        compiled.plugin_objects = plugin_objects_of(compiled.job, compiled.plugins)
        compiled.min_resources({})
    except PluginError as error:
        compiled.reason, compiled.problem = "PluginError", str(error)
    except (SpecError, ValueError) as error:
        compiled.reason, compiled.problem = "InvalidJob", str(error)
    return compiled


def observe(
    index: Indexer,
    manifest: Manifest,
    compiled: CompiledJob,
    pod_cache: PodCache,
    contents: Mapping[Key, Mapping[str, str]] = _NO_CONTENTS,
) -> Observed | None:
    """Collects the state of a job from the cache; None when its spec is invalid."""
    job, status = compiled.job, parse_status(manifest)
    if job is None:
        return None
    group = group_of(index, job)
    finished = finished_pods(job, status, pod_cache)
    gang = _startable(reduced(job, finished, pod_cache), job, pod_cache, finished)
    makes_pods = is_ready(group) and status.phase not in STOPPING | STOPPED
    pods = _pods(index, job, pod_cache, finished) if makes_pods else _NO_PODS
    return Observed(
        manifest=manifest,
        job=job,
        status=status,
        pod_cache=pod_cache,
        group=group,
        min_resources={} if compiled.problem else compiled.min_resources(_priorities(index, job), gang),
        queue=index.get(QUEUE, Key("", job.queue)),
        plugins=compiled.plugins,
        plugin_objects=tuple((extra, index.get(extra.kind, extra.key)) for extra in compiled.plugin_objects),
        claims=frozenset(_claims(index, job)),
        pods=pods,
        reason=compiled.reason,
        problem=compiled.problem,
        dependency=unfulfilled(index, job.namespace, dependencies_of(job.annotations)),
        stuck=_stuck_task(job, pod_cache),
        finished=finished,
        gang=gang,
        contents=contents,
    )


def group_of(index: Indexer, job: Job) -> Manifest | None:
    """The job's PodGroup, under its name or the one that old releases gave it."""
    for name in (job.group_name, job.name):
        group = index.get(POD_GROUP, Key(job.namespace, name))
        if group is not None and is_ours(group, job):
            return group
    return None


def _pods(index: Indexer, job: Job, pod_cache: PodCache, finished: Finished) -> Pods:
    """The pods to create and to delete."""
    missing: dict[str, tuple[int, ...]] = {}
    blockers: list[Manifest] = []
    surplus: list[PodInfo] = list(pod_cache.marked.values())
    for task in job.tasks:
        if pod_cache.is_complete(task.name, task.replicas):
            continue
        if pod_cache.has_more_than(task.name, task.replicas):
            pods = pod_cache.within(task.name, *POD_PHASES)
            surplus += [m for m in pods if m.ordinal >= task.replicas and not m.marked]
        if _may_start(job, task, pod_cache, finished):
            absent = _absent(index, job, task, pod_cache, blockers, finished)
            if absent:
                missing[task.name] = absent
    return Pods(_limited(job, missing, pod_cache), tuple(blockers), tuple(surplus))


def _limited(
    job: Job, missing: dict[str, tuple[int, ...]], pod_cache: PodCache
) -> dict[str, tuple[int, ...]]:
    """The missing pods that may be created now: at most as many run together as the job's annotation allows."""
    most = whole_number(job.annotations.get(MAX_RUNNING_PODS, ""))
    if not most:
        return missing
    room = max(most - sum(1 for _ in pod_cache.in_states("Pending", "Running", "Unknown")), 0)
    limited: dict[str, tuple[int, ...]] = {}
    for task, ordinals in missing.items():
        if room > 0:
            limited[task] = ordinals[:room]
            room -= len(limited[task])
    return limited


def _absent(
    index: Indexer, job: Job, task: Task, pod_cache: PodCache, blockers: list[Manifest], finished: Finished
) -> tuple[int, ...]:
    absent = []
    for ordinal in pod_cache.missing(task.name, task.replicas, finished.get(task.name, ())):
        holder = index.get(POD, Key(job.namespace, pod_name(job, task, ordinal)))
        if holder is None:
            absent.append(ordinal)
        else:
            blockers.append(holder)
    return tuple(absent)


def _claims(index: Indexer, job: Job) -> Iterator[str]:
    for position in range(len(job.volumes)):
        name = claim_name(job, position)
        if index.get(PERSISTENT_VOLUME_CLAIM, Key(job.namespace, name)) is not None:
            yield name


def _priorities(index: Indexer, job: Job) -> Mapping[str, int]:
    """The values of the priority classes that the tasks name."""
    names = dict.fromkeys(
        (task.template.get("spec") or {}).get("priorityClassName") or "" for task in job.tasks
    )
    classes = {name: index.get(PRIORITY_CLASS, Key("", name)) for name in names if name}
    return {name: (manifest or {}).get("value") or 0 for name, manifest in classes.items()}


def _may_start(job: Job, task: Task, pod_cache: PodCache, finished: Finished) -> bool:
    """Whether the tasks that `task` depends on are ready: all of them, or any of them if it says so."""
    ready = [_is_task_ready(job, name, pod_cache, finished) for name in task.waits_for]
    if task.one_suffices and len(ready) > 1:
        return any(ready)
    return all(ready)


def _startable(gang: Job, job: Job, pod_cache: PodCache, finished: Finished) -> Job:
    """The gang without tasks whose pods are not created yet because of their dependencies."""
    waiting = {
        task.name
        for task in job.tasks
        if task.waits_for
        and not pod_cache.size(task.name)
        and task.name not in finished
        and not _may_start(job, task, pod_cache, finished)
    }
    if not waiting:
        return gang
    tasks = tuple(task for task in gang.tasks if task.name not in waiting)
    later = sum(task.minimum for task in gang.tasks if task.name in waiting)
    minimum = sum(task.minimum for task in tasks)
    most = sum(task.replicas for task in tasks)
    least = max(min(gang.min_available - later, most), min(gang.min_available, minimum))
    return replace(gang, tasks=tasks, min_available=least)


def _stuck_task(job: Job, pod_cache: PodCache) -> str:
    """Why the first task that waits for failed ones never starts; empty if there is none."""
    for task in job.tasks:
        others = [other for name in task.waits_for if (other := job.task(name)) is not None]
        failed = [
            other for other in others if pod_cache.has_failed(other.name, other.replicas, other.minimum)
        ]
        enough = len(others) if task.one_suffices else 1
        if failed and len(failed) >= enough and not pod_cache.size(task.name):
            count = pod_cache.count(failed[0].name, "Failed")
            return (
                f"task {task.name} does not start: it depends on task {failed[0].name}, of which {count} of "
                f"{failed[0].replicas} pods have failed"
            )
    return ""


def _is_task_ready(job: Job, name: str, pod_cache: PodCache, finished: Finished) -> bool:
    task = job.task(name)
    return task is None or pod_cache.ready(name) + gone(name, finished, pod_cache) >= task.minimum
