"""The spec of a job, parsed once, with the defaults of admission."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from volcano.base.clock import parse_timestamp
from volcano.controllers.job.types import EVENT_ALIASES, Action, action_named
from volcano.kube.api import duration
from volcano.kube.api.kinds import JOB
from volcano.kube.api.manifest import Key, Manifest, annotations_of, key_of, labels_of, uid_of
from volcano.kube.api.names import DEFAULT_QUEUE

DEFAULT_RETRIES = 3
# Plugins that require others.
IMPLIED_PLUGINS = {
    "tensorflow": ("svc",),
    "pytorch": ("svc",),
    "ray": ("svc",),
    "mpi": ("svc", "ssh"),
}


class SpecError(ValueError):
    """An invalid job; the text names the field, what is wrong and what would be right."""


@dataclass(frozen=True, slots=True)
class Policy:
    """A lifecycle policy: on one of these events, or on this exit code, take this action, after `timeout`
    seconds if any."""

    action: Action
    events: frozenset[str] = frozenset()
    exit_code: int | None = None
    timeout: float | None = None


@dataclass(frozen=True, slots=True)
class Partitioning:
    """Sub-groups of equal size that a task's pods are divided into."""

    total: int
    size: int
    minimum: int
    topology: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Task:
    """A task: pods of one template."""

    name: str
    replicas: int
    minimum: int
    template: Mapping[str, Any]
    policies: tuple[Policy, ...] = ()
    numa_policy: str = ""
    max_retry: int = DEFAULT_RETRIES
    waits_for: tuple[str, ...] = ()
    one_suffices: bool = False
    partitions: Partitioning | None = None


@dataclass(frozen=True, slots=True)
class Volume:
    """A claim mounted into every pod: an existing one by name, or one to be created."""

    path: str
    claim_name: str = ""
    claim: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """The spec of a job."""

    key: Key
    uid: str
    created: float
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    scheduler_name: str
    queue: str
    min_available: int
    max_retry: int
    tasks: tuple[Task, ...]
    policies: tuple[Policy, ...] = ()
    plugins: Mapping[str, tuple[str, ...]] | None = None
    volumes: tuple[Volume, ...] = ()
    min_success: int | None = None
    ttl: int | None = None
    priority_class: str = ""
    topology: Mapping[str, Any] | None = None

    @property
    def name(self) -> str:
        return self.key.name

    @property
    def namespace(self) -> str:
        return self.key.namespace

    @property
    def replicas(self) -> int:
        return sum(task.replicas for task in self.tasks)

    @property
    def group_name(self) -> str:
        """The name of the job's PodGroup."""
        return f"{self.key.name}-{self.uid}"

    def task(self, name: str) -> Task | None:
        return next((task for task in self.tasks if task.name == name), None)

    def owner_reference(self) -> Manifest:
        """The owner reference of the job's objects."""
        return {
            "apiVersion": JOB.api_version,
            "kind": JOB.kind,
            "name": self.key.name,
            "uid": self.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }


def parse_job(manifest: Mapping[str, Any], *, scheduler_name: str) -> Job:
    """Parses a job. Raises SpecError."""
    spec = manifest.get("spec") or {}
    tasks = tuple(
        _task(raw, f"spec.tasks[{i}]", i) for i, raw in enumerate(_list(spec, "tasks", "spec.tasks"))
    )
    _check_tasks(tasks)
    stamp = manifest["metadata"].get("creationTimestamp")
    minimum = _number(spec, "minAvailable", "spec.minAvailable")
    return Job(
        key=key_of(manifest),
        uid=uid_of(manifest),
        created=parse_timestamp(stamp) if stamp else 0.0,
        labels=labels_of(manifest),
        annotations=annotations_of(manifest),
        scheduler_name=spec.get("schedulerName") or scheduler_name,
        queue=spec.get("queue") or DEFAULT_QUEUE,
        min_available=sum(task.minimum for task in tasks) if minimum is None else minimum,
        max_retry=_number(spec, "maxRetry", "spec.maxRetry") or DEFAULT_RETRIES,
        tasks=tasks,
        policies=_policies(spec, "spec.policies"),
        plugins=_plugins(spec),
        volumes=tuple(_volumes(spec)),
        min_success=_number(spec, "minSuccess", "spec.minSuccess"),
        ttl=_number(spec, "ttlSecondsAfterFinished", "spec.ttlSecondsAfterFinished"),
        priority_class=spec.get("priorityClassName") or "",
        topology=spec.get("networkTopology"),
    )


def _task(raw: Mapping[str, Any], where: str, position: int) -> Task:
    if not isinstance(raw, Mapping):
        raise SpecError(f"{where} must be an object, not {raw!r}")
    replicas = _number(raw, "replicas", f"{where}.replicas") or 0
    partitions = _partitioning(raw.get("partitionPolicy"), f"{where}.partitionPolicy")
    minimum = _number(raw, "minAvailable", f"{where}.minAvailable")
    if minimum is None:
        minimum = partitions.minimum * partitions.size if partitions and partitions.minimum else replicas
    waits = raw.get("dependsOn") or {}
    template = raw.get("template") or {}
    if not isinstance(template, Mapping):
        raise SpecError(f"{where}.template must be a pod template, not {template!r}")
    return Task(
        name=raw.get("name") or f"default{position}",
        replicas=replicas,
        minimum=minimum,
        template=template,
        policies=_policies(raw, f"{where}.policies"),
        numa_policy=raw.get("topologyPolicy") or "",
        max_retry=_number(raw, "maxRetry", f"{where}.maxRetry", least=-1) or DEFAULT_RETRIES,
        waits_for=tuple(waits.get("name") or ()),
        one_suffices=waits.get("iteration") == "any",
        partitions=partitions,
    )


def _partitioning(raw: Mapping[str, Any] | None, where: str) -> Partitioning | None:
    if not raw:
        return None
    return Partitioning(
        _number(raw, "totalPartitions", f"{where}.totalPartitions") or 0,
        _number(raw, "partitionSize", f"{where}.partitionSize") or 0,
        _number(raw, "minPartitions", f"{where}.minPartitions") or 0,
        raw.get("networkTopology"),
    )


def _policies(raw: Mapping[str, Any], where: str) -> tuple[Policy, ...]:
    return tuple(
        _policy(policy, f"{where}[{i}]") for i, policy in enumerate(_list(raw, "policies", where, least=0))
    )


def _policy(raw: Mapping[str, Any], where: str) -> Policy:
    events = {*(raw.get("events") or ()), *filter(None, (raw.get("event"),))}
    timeout = raw.get("timeout")
    try:
        seconds = None if timeout in (None, "") else duration.parse(str(timeout))
    except ValueError as error:
        raise SpecError(f"{where}.timeout: {error}") from None
    return Policy(
        action_named(raw.get("action")),
        frozenset(EVENT_ALIASES.get(event, event) for event in events),
        _number(raw, "exitCode", f"{where}.exitCode", least=None),
        seconds or None,
    )


def _plugins(spec: Mapping[str, Any]) -> Mapping[str, tuple[str, ...]]:
    """The plugins by name, including those that others require."""
    raw = spec.get("plugins") or {}
    if not isinstance(raw, Mapping):
        raise SpecError(f"spec.plugins must map plugin names to lists of arguments, not be {raw!r}")
    plugins = {name: tuple(str(argument) for argument in arguments or ()) for name, arguments in raw.items()}
    for name in raw:
        for implied in IMPLIED_PLUGINS.get(name, ()):
            plugins.setdefault(implied, ())
    return plugins


def _volumes(spec: Mapping[str, Any]) -> Sequence[Volume]:
    return [
        Volume(raw.get("mountPath") or "", raw.get("volumeClaimName") or "", raw.get("volumeClaim"))
        for raw in _list(spec, "volumes", "spec.volumes", least=0)
    ]


def _check_tasks(tasks: Sequence[Task]) -> None:
    names = [task.name for task in tasks]
    for name in names:
        if names.count(name) > 1:
            raise SpecError(f"spec.tasks: two tasks are named {name!r}; each needs a name of its own")
    graph = {task.name: task.waits_for for task in tasks}
    for name, waits in graph.items():
        for other in waits:
            if other not in graph:
                raise SpecError(
                    f"spec.tasks: {name!r} depends on {other!r}, which is no task of this job; "
                    f"choose from {', '.join(names)}"
                )
    _check_acyclic(graph)


def _check_acyclic(graph: Mapping[str, tuple[str, ...]]) -> None:
    """Rejects dependencies that form a cycle."""
    settled: set[str] = set()
    while len(settled) < len(graph):
        free = {name for name, waits in graph.items() if name not in settled and settled.issuperset(waits)}
        if not free:
            stuck = ", ".join(name for name in graph if name not in settled)
            raise SpecError(f"spec.tasks: {stuck} wait for each other; dependsOn must not go in a circle")
        settled |= free


def _list(raw: Mapping[str, Any], field: str, where: str, *, least: int = 1) -> Sequence[Any]:
    value = raw.get(field) or []
    if not isinstance(value, list):
        raise SpecError(f"{where} must be a list, not {value!r}")
    if len(value) < least:
        raise SpecError(f"{where} is empty; a job needs at least one task")
    return value


def _number(raw: Mapping[str, Any], field: str, where: str, *, least: int | None = 0) -> int | None:
    value = raw.get(field)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or (least is not None and value < least):
        raise SpecError(
            f"{where} is {value!r}; it must be a whole number{'' if least is None else f' ≥ {least}'}"
        )
    return value
