"""Selection of containers whose logs are read, their titles and log URLs."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from volcano.kube.api.fields import at, items, number
from volcano.kube.api.kinds import POD
from volcano.kube.api.manifest import Key, Manifest, annotations_of, key_of, labels_of, uid_of
from volcano.kube.api.names import TASK_INDEX, TASK_SPEC
from volcano.kube.client.requests import path_of, with_query
from volcano.services.errors import NotFoundError, near

DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"


@dataclass(frozen=True, slots=True)
class Wanted:
    """Selection of lines and containers."""

    task: str = ""
    index: int | None = None
    container: str = ""
    all_containers: bool = False
    tail: int | None = None
    since: float | None = None
    previous: bool = False

    def takes(self, pod: Manifest) -> bool:
        task, index = place_of(pod)
        return self.task in ("", task) and self.index in (None, index)


def check(wanted: Wanted, job: Manifest) -> None:
    """Raises NotFoundError for tasks and indices that the job does not have."""
    replicas = {str(task.get("name", "")): number(task, "replicas") for task in items(job, "spec", "tasks")}
    name = job["metadata"]["name"]
    if wanted.task and wanted.task not in replicas:
        known = ", ".join(replicas)
        raise NotFoundError(
            f"job {name!r} has no task {wanted.task!r}, but {known}{near(wanted.task, replicas)}"
        )
    containers = {
        str(container.get("name", ""))
        for task in items(job, "spec", "tasks")
        for part in ("containers", "initContainers")
        for container in items(task, "template", "spec", part)
    }
    if wanted.container and wanted.container not in containers:
        known = ", ".join(sorted(containers))
        raise NotFoundError(
            f"job {name!r} has no container {wanted.container!r}, but {known}{near(wanted.container, containers)}"
        )
    chosen = [replicas[wanted.task]] if wanted.task else list(replicas.values())
    if wanted.index is not None and not 0 <= wanted.index < max(chosen, default=0):
        raise NotFoundError(
            f"job {name!r} has no pod of index {wanted.index}: they go from 0 to {max(chosen) - 1}"
        )


def place_of(pod: Manifest) -> tuple[str, int]:
    """Task and index of a pod; the pod's name replaces a missing task."""
    task = labels_of(pod).get(TASK_SPEC) or annotations_of(pod).get(TASK_SPEC) or key_of(pod).name
    index = labels_of(pod).get(TASK_INDEX) or annotations_of(pod).get(TASK_INDEX) or "0"
    return task, int(index) if index.isdecimal() else 0


@dataclass(frozen=True, slots=True)
class Source:
    """One container of one pod."""

    pod: Key
    uid: str  # of the pod: another one may get its name
    container: str
    title: str
    task: int = 0  # number of the task among those of the job
    index: int = 0  # of the pod in its task


def sources(pod: Manifest, job: Manifest, wanted: Wanted) -> list[Source]:
    """Selected containers of a pod."""
    task, index = place_of(pod)
    names = [str(each.get("name", "")) for each in items(job, "spec", "tasks")]
    number = names.index(task) if task in names else len(names)
    containers = _containers(pod, wanted)
    several = wanted.all_containers and len(containers) > 1
    return [
        Source(
            key_of(pod), uid_of(pod), name, f"{task}-{index}" + (f"/{name}" if several else ""), number, index
        )
        for name in containers
    ]


def _containers(pod: Manifest, wanted: Wanted) -> list[str]:
    main = [str(container["name"]) for container in items(pod, "spec", "containers")]
    if wanted.all_containers:
        return [*(str(container["name"]) for container in items(pod, "spec", "initContainers")), *main]
    if wanted.container:
        return [wanted.container]
    preferred = annotations_of(pod).get(DEFAULT_CONTAINER, "")
    return [preferred] if preferred in main else main[:1]


def target_of(source: Source, wanted: Wanted, *, follow: bool = False, since: str = "") -> str:
    """Log URL of a container."""
    seconds = "" if wanted.since is None or since else str(max(math.ceil(wanted.since), 1))
    parameters = {
        "container": source.container,
        "follow": "true" if follow else "",
        "previous": "true" if wanted.previous else "",
        "tailLines": "" if wanted.tail is None or since else str(wanted.tail),
        "sinceSeconds": seconds,
        "sinceTime": since,
        "timestamps": "true",
    }
    return with_query(path_of(POD, source.pod.namespace, source.pod.name, "log"), parameters)


class Prefixes:
    """Prefixes of lines, as wide as the longest one."""

    def __init__(self, job: Manifest, wanted: Wanted) -> None:
        last = [
            f"{task.get('name', '')}-{max(number(task, 'replicas') - 1, 0)}"
            for task in items(job, "spec", "tasks")
            if wanted.task in ("", task.get("name"))
        ]
        self._width = max(map(len, last), default=0)

    def of(self, source: Source) -> str:
        self._width = max(self._width, len(source.title))
        return f"{source.title:<{self._width}} |"


def has_started(pod: Manifest, container: str) -> bool:
    """Whether a container has or had a process; before that it has no log."""
    statuses: Sequence[object] = [
        *items(pod, "status", "initContainerStatuses"),
        *items(pod, "status", "containerStatuses"),
    ]
    return any(
        at(status, "name") == container
        and (
            at(status, "state", "running")
            or at(status, "state", "terminated")
            or at(status, "lastState", "terminated")
        )
        for status in statuses
    )
