"""Jobs that do not exist yet: what admission and the controllers would make of their manifests."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from volcano.analysis.plan.changes import AddJob
from volcano.analysis.plan.plan import Subject
from volcano.analysis.rerun.expected_pods import as_created, pods_of
from volcano.analysis.rerun.state import ClusterState
from volcano.base.clock import timestamp
from volcano.controllers.job.min_resources import min_resources
from volcano.controllers.job.podgroup import make_group
from volcano.controllers.job.spec import SpecError, parse_job
from volcano.controllers.job.status import Status
from volcano.controllers.podgroup import PodGroupController
from volcano.kube.api import kinds
from volcano.kube.api.kinds import JOB, POD, POD_GROUP, PRIORITY_CLASS, QUEUE, Kind
from volcano.kube.api.manifest import Key, Manifest, annotations_of, key_of
from volcano.kube.api.names import GROUP_NAME, SCHEDULER_NAME
from volcano.kube.client.protocol import Event, EventType
from volcano.model.cluster import WATCHED
from volcano.model.job_cache import IMPLICIT
from volcano.model.pod_cache import DEFAULT_SCHEDULER
from volcano.webhooks.review import AdmissionOptions, AdmissionRequest
from volcano.webhooks.rules import mutate, validate

UID = "planned"
KINDS = kinds.by_gvk((*WATCHED, JOB))


class InvalidManifest(Exception):
    """A manifest that admission rejects, or that cannot be planned."""


@dataclass(frozen=True, slots=True)
class NewObjects:
    """The jobs of some manifests, the other objects that the scheduler reads, and those that it does not."""

    jobs: tuple[Subject, ...]
    others: tuple[Event, ...] = ()
    ignored: tuple[str, ...] = ()  # titles


@dataclass(slots=True)
class _Planner:
    """Expands manifests against a state."""

    state: ClusterState
    options: AdmissionOptions
    namespaces: Mapping[str, Manifest]
    serves_default: bool
    jobs: list[Subject] = field(default_factory=list)
    others: list[Event] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)
    queues: dict[str, Manifest] = field(default_factory=dict)
    existing: set[str] | None = None  # pods, once they are needed

    # -- lookups of admission ----------------------------------------------------------------------

    def find(self, kind: Kind, key: Key) -> Manifest | None:
        if kind == kinds.NAMESPACE:
            return self.namespaces.get(key.name)
        return self.queues.get(key.name) if kind == QUEUE else None

    def all(self, kind: Kind, namespace: str = "") -> list[Manifest]:
        return list(self.queues.values()) if kind == QUEUE else []

    def admitted(self, kind: Kind, manifest: Manifest) -> Manifest:
        """The manifest with defaults. Raises InvalidManifest as the server would reject it."""
        key = key_of(manifest)
        request = AdmissionRequest("CREATE", kind, key, manifest, None, self, self.options)
        made = mutate(request) or manifest
        request = AdmissionRequest("CREATE", kind, key, made, None, self, self.options)
        violations = validate(request)
        if violations:
            raise InvalidManifest(f"{kind.kind} {key} is invalid: {'; '.join(map(str, violations))}")
        return made

    # -- kinds -------------------------------------------------------------------------------------

    def add_job(self, manifest: Manifest) -> None:
        """A Job: the controller creates its PodGroup at once, and its pods when that is admitted."""
        made = self.admitted(JOB, _stamped(manifest, self.state.now))
        try:
            job = parse_job(made, scheduler_name=SCHEDULER_NAME)
        except SpecError as error:
            raise InvalidManifest(f"Job {key_of(manifest)} is invalid: {error}") from None
        least = min_resources(job, dict(self.state.snapshot().priorities))
        group = self.admitted(POD_GROUP, _stamped(make_group(job, Status(), least), self.state.now))
        pods = pods_of(job, self.state.priority, self.state.now)
        self._add(f"Job {job.key}", group, (), [self.admitted(POD, pod) for pod in pods])

    def add_group(self, manifest: Manifest, pods: Sequence[Manifest]) -> None:
        """A PodGroup with its pods, which exist at once."""
        group = self.admitted(POD_GROUP, _stamped(manifest, self.state.now))
        made = [self._pod(pod) for pod in pods]
        self._add(f"PodGroup {key_of(group)}", group, made, ())

    def add_pod(self, manifest: Manifest) -> None:
        """A pod without a PodGroup: the controller creates one for a pod of this scheduler."""
        pod = self._pod(manifest)
        scheduler = pod["spec"].get("schedulerName") or DEFAULT_SCHEDULER
        title = f"Pod {key_of(pod)}"
        if scheduler == SCHEDULER_NAME:
            built = PodGroupController().group_for(pod)
            group = self.admitted(POD_GROUP, _stamped(built, self.state.now))
            name = group["metadata"]["name"]
            notes = {**(pod["metadata"].get("annotations") or {}), GROUP_NAME: name}
            self._add(title, group, [{**pod, "metadata": {**pod["metadata"], "annotations": notes}}], ())
        elif self.serves_default and scheduler == DEFAULT_SCHEDULER:
            self._check_new(title, key_of(pod), [pod])
            change = AddJob(f"{key_of(pod)}{IMPLICIT}", ((POD, orjson.dumps(pod)),))
            self.jobs.append(Subject(change.job, title, change))
        else:
            raise InvalidManifest(
                f"{title} is for the scheduler {scheduler!r}; only pods of {SCHEDULER_NAME!r} can be planned"
            )

    def _pod(self, manifest: Manifest) -> Manifest:
        return as_created(self.admitted(POD, manifest), self.state.priority, self.state.now)

    def _add(
        self, title: str, group: Manifest, pods: Sequence[Manifest], to_come: Sequence[Manifest]
    ) -> None:
        key = key_of(group)
        self._check_new(title, key, (*pods, *to_come))
        objects = ((POD_GROUP, orjson.dumps(group)), *((POD, orjson.dumps(pod)) for pod in pods))
        change = AddJob(str(key), objects, tuple(orjson.dumps(pod) for pod in to_come))
        self.jobs.append(Subject(change.job, title, change))

    def _check_new(self, title: str, group: Key, pods: Sequence[Manifest]) -> None:
        """Rejects a job that exists: its pods would take the place of those that run."""
        if self.existing is None:
            snapshot = self.state.snapshot()
            self.existing = {task.key for row in snapshot.tasks_on for task in row.values()}
            self.existing |= {task.key for job in snapshot.jobs.values() for task in job.tasks.values()}
        taken = [f"pod {key_of(pod)}" for pod in pods if str(key_of(pod)) in self.existing]
        if self.state.group(str(group)) is not None:
            taken.insert(0, f"PodGroup {group}")
        if taken:
            raise InvalidManifest(
                f"{title}: {taken[0]} exists already; plan it with another name, or a job that exists with "
                "--from-running NAME --replicas N"
            )

    def add_other(self, manifest: Manifest) -> None:
        """An object that the scheduler reads, such as a queue in the same file."""
        kind = KINDS.get((manifest["apiVersion"], manifest["kind"]))
        if kind is None:
            self.ignored.append(f"{manifest['kind']} {manifest['metadata']['name']}")
            return
        made = manifest
        if kind == QUEUE:
            made = {**self.admitted(QUEUE, manifest), "status": {"state": "Open"}}
            self.queues[made["metadata"]["name"]] = made
        event = Event(EventType.ADDED, kind, self.state.decode(kind, orjson.dumps(made)))
        self.others.append(event)
        if kind in (QUEUE, PRIORITY_CLASS):  # what follows in the file may refer to it
            self.state = self.state.with_events((event,))


def new_objects(
    manifests: Sequence[Manifest],
    state: ClusterState,
    *,
    namespace: str,
    options: AdmissionOptions,
    namespaces: Mapping[str, Manifest] | None = None,
    serves_default: bool = False,
) -> NewObjects:
    """What creating some manifests would create. Raises InvalidManifest.

    `namespace` is that of manifests that name none; `namespaces` have annotations that admission reads.
    """
    planner = _Planner(state, options, namespaces or {}, serves_default)
    planner.queues = {name: _queue(state, name) for name in state.snapshot().queues}
    placed = [_in_namespace(manifest, namespace) for manifest in manifests]
    groups = {key_of(m) for m in placed if _is(m, POD_GROUP)}
    members: dict[Key, list[Manifest]] = {}
    for manifest in placed:
        if not any(_is(manifest, kind) for kind in (JOB, POD_GROUP, POD)):
            planner.add_other(manifest)
    for manifest in placed:
        if _is(manifest, POD) and (group := _group_of(manifest)) in groups:
            members.setdefault(group, []).append(manifest)
    for manifest in placed:
        if _is(manifest, JOB):
            planner.add_job(manifest)
        elif _is(manifest, POD_GROUP):
            planner.add_group(manifest, members.get(key_of(manifest), []))
        elif _is(manifest, POD) and _group_of(manifest) not in groups:
            planner.add_pod(manifest)
    return NewObjects(tuple(planner.jobs), tuple(planner.others), tuple(planner.ignored))


def _is(manifest: Manifest, kind: Kind) -> bool:
    return (manifest["apiVersion"], manifest["kind"]) == (kind.api_version, kind.kind)


def _group_of(pod: Manifest) -> Key:
    return Key(pod["metadata"]["namespace"], annotations_of(pod).get(GROUP_NAME, ""))


def _in_namespace(manifest: Manifest, namespace: str) -> Manifest:
    kind = KINDS.get((manifest["apiVersion"], manifest["kind"]))
    metadata = {**manifest["metadata"]}
    if kind is None or kind.namespaced:
        metadata["namespace"] = metadata.get("namespace") or namespace
    if not metadata.get("name"):
        metadata["name"] = f"{metadata['generateName']}{UID}"
    return {**manifest, "metadata": metadata}


def _stamped(manifest: Manifest, now: float) -> Manifest:
    """A manifest with what the API server sets when it is created."""
    metadata: dict[str, Any] = {**manifest["metadata"], "creationTimestamp": timestamp(now)}
    metadata["uid"] = UID if _is(manifest, JOB) else f"{UID}-{metadata['namespace']}-{metadata['name']}"
    metadata.pop("resourceVersion", None)
    return {
        **manifest,
        "metadata": metadata,
        "status": {"phase": "Pending"} if _is(manifest, POD_GROUP) else {},
    }


def _queue(state: ClusterState, name: str) -> Manifest:
    """What admission reads of a queue."""
    queue = state.snapshot().queues[name]
    return {
        "metadata": {"name": name},
        "spec": {"parent": queue.parent} if queue.parent else {},
        "status": {"state": queue.state},
    }
