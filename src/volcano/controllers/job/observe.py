"""Everything the controller has to know to decide about one job, gathered in one place."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from volcano.controllers.job.dependencies import may_start
from volcano.controllers.job.extras import Extra, extras_of
from volcano.controllers.job.ownership import is_ours
from volcano.controllers.job.plugins.plugin import KeySource, Plugin, PluginError, load_plugins
from volcano.controllers.job.podgroup import is_ready
from volcano.controllers.job.pods import pod_name
from volcano.controllers.job.quota_requests import min_resources
from volcano.controllers.job.roster import Member, Roster
from volcano.controllers.job.spec import Job, SpecError, Task, parse_job
from volcano.controllers.job.status import Status, parse_status
from volcano.controllers.job.terms import POD_PHASES, STOPPED, STOPPING
from volcano.controllers.job.volumes import claim_name
from volcano.kube.indexer import Indexer
from volcano.kube.kinds import PERSISTENT_VOLUME_CLAIM, POD, POD_GROUP, PRIORITY_CLASS, QUEUE
from volcano.kube.manifest import Key, Manifest, annotations_of, labels_of, uid_of


@dataclass(slots=True)
class Blueprint:
    """A job's spec worked out; made again only when the spec changes."""

    manifest: Manifest
    job: Job | None = None
    plugins: tuple[Plugin, ...] = ()
    extras: tuple[Extra, ...] = ()
    reason: str = ""  # why nothing can be done for it, if so
    problem: str = ""
    least: dict[tuple[int, ...], Mapping[str, str]] = field(default_factory=dict)

    def fits(self, manifest: Manifest) -> bool:
        """Whether this still describes the job."""
        known, new = self.manifest["metadata"], manifest["metadata"]
        if uid_of(self.manifest) != uid_of(manifest) or known.get("generation") != new.get("generation"):
            return False
        if labels_of(self.manifest) != labels_of(manifest) or annotations_of(self.manifest) != annotations_of(
            manifest
        ):
            return False
        return "generation" in new or self.manifest.get("spec") == manifest.get("spec")

    def min_resources(self, priorities: Mapping[str, int]) -> Mapping[str, str]:
        """What the least gang needs; worked out once for each order of priorities."""
        assert self.job is not None
        order = tuple(priorities.values())
        if order not in self.least:
            self.least[order] = min_resources(self.job, priorities)
        return self.least[order]


@dataclass(frozen=True, slots=True)
class Pods:
    """What is to be done about a job's pods."""

    missing: Mapping[str, tuple[int, ...]]  # by task, those that may be made now
    blockers: tuple[Manifest, ...] = ()  # pods of others that hold the names of ours
    surplus: tuple[Member, ...] = ()


_NO_PODS = Pods({})


@dataclass(frozen=True, slots=True)
class Observed:
    """One job and all that belongs to it, as last seen."""

    manifest: Manifest
    job: Job
    status: Status
    roster: Roster
    group: Manifest | None
    min_resources: Mapping[str, str]
    queue: Manifest | None
    pods: Pods
    plugins: tuple[Plugin, ...] = ()
    extras: tuple[tuple[Extra, Manifest | None], ...] = ()
    claims: frozenset[str] = frozenset()
    reason: str = ""
    problem: str = ""
    is_new: bool = False  # nothing has been written about it yet


def draw(manifest: Manifest, scheduler_name: str, keys: KeySource) -> Blueprint:
    """Works a job's spec out; a job that cannot be worked on gets a blueprint that says why."""
    blueprint = Blueprint(manifest)
    try:
        blueprint.job = parse_job(manifest, scheduler_name=scheduler_name)
        blueprint.plugins = load_plugins(blueprint.job.plugins or {}, keys)
        blueprint.extras = extras_of(blueprint.job, blueprint.plugins)
        blueprint.min_resources({})
    except PluginError as error:
        blueprint.reason, blueprint.problem = "PluginError", str(error)
    except (SpecError, ValueError) as error:
        blueprint.reason, blueprint.problem = "InvalidJob", str(error)
    return blueprint


def observe(index: Indexer, manifest: Manifest, blueprint: Blueprint, roster: Roster) -> Observed | None:
    """Gathers what is known about a job; None when its spec cannot be read at all."""
    job, status = blueprint.job, parse_status(manifest)
    if job is None:
        return None
    group = group_of(index, job)
    makes_pods = is_ready(group) and status.phase not in STOPPING | STOPPED
    pods = _pods(index, job, roster) if makes_pods else _NO_PODS
    return Observed(
        manifest=manifest,
        job=job,
        status=status,
        roster=roster,
        group=group,
        min_resources={} if blueprint.problem else blueprint.min_resources(_priorities(index, job)),
        queue=index.get(QUEUE, Key("", job.queue)),
        plugins=blueprint.plugins,
        extras=tuple((extra, index.get(extra.kind, extra.key)) for extra in blueprint.extras),
        claims=frozenset(_claims(index, job)),
        pods=pods,
        reason=blueprint.reason,
        problem=blueprint.problem,
    )


def group_of(index: Indexer, job: Job) -> Manifest | None:
    """The job's PodGroup, under its name or under the one it had in old releases."""
    for name in (job.group_name, job.name):
        group = index.get(POD_GROUP, Key(job.namespace, name))
        if group is not None and is_ours(group, job):
            return group
    return None


def _pods(index: Indexer, job: Job, roster: Roster) -> Pods:
    """Which pods are to be made and which to go."""
    missing: dict[str, tuple[int, ...]] = {}
    blockers: list[Manifest] = []
    surplus: list[Member] = list(roster.marked.values())
    for task in job.tasks:
        if roster.is_complete(task.name, task.replicas):
            continue
        if roster.has_more_than(task.name, task.replicas):
            members = roster.within(task.name, *POD_PHASES)
            surplus += [m for m in members if m.ordinal >= task.replicas and not m.marked]
        if may_start(job, task, roster):
            absent = _absent(index, job, task, roster, blockers)
            if absent:
                missing[task.name] = absent
    return Pods(missing, tuple(blockers), tuple(surplus))


def _absent(
    index: Indexer, job: Job, task: Task, roster: Roster, blockers: list[Manifest]
) -> tuple[int, ...]:
    absent = []
    for ordinal in roster.missing(task.name, task.replicas):
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
    """The values of the priority classes that the tasks' templates name."""
    names = dict.fromkeys(
        (task.template.get("spec") or {}).get("priorityClassName") or "" for task in job.tasks
    )
    found = {name: index.get(PRIORITY_CLASS, Key("", name)) for name in names if name}
    return {name: (manifest or {}).get("value") or 0 for name, manifest in found.items()}
