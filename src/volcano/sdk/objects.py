"""Typed views of the objects that the SDK reads and writes.

A view keeps the whole manifest, so that a field this module does not know is not lost when the object is written.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar

from volcano.kube.api.fields import at
from volcano.kube.api.kinds import JOB, POD_GROUP, QUEUE, Kind
from volcano.kube.api.manifest import Manifest
from volcano.kube.api.names import SCHEDULER_NAME
from volcano.services.job_watch import ENDS, message_of
from volcano.views.jobs import why_waiting

T = TypeVar("T")


def _texts(amounts: Mapping[str, Any]) -> Mapping[str, str]:
    return {name: str(amount) for name, amount in amounts.items()}


class Field(Generic[T]):
    """A property of a view: the value at a path of its manifest, or a default."""

    def __init__(self, convert: Callable[[Any], T], *path: str, default: Any) -> None:
        self._convert, self._path, self._default = convert, path, default

    def __get__(self, view: "ApiObject | None", kind: type) -> T:
        if view is None:  # of the class, which help() reads
            return self  # type: ignore[return-value]
        return self._convert(at(view.manifest, *self._path) or self._default)


@dataclass(frozen=True)
class ApiObject:
    """An object as the server has it; `manifest` is all of it."""

    KIND: ClassVar[Kind]

    manifest: Manifest = field(repr=False)

    name = Field(str, "metadata", "name", default="")
    namespace = Field(str, "metadata", "namespace", default="")
    uid = Field(str, "metadata", "uid", default="")
    labels = Field(_texts, "metadata", "labels", default={})
    annotations = Field(_texts, "metadata", "annotations", default={})
    spec = Field(dict, "spec", default={})
    status = Field(dict, "status", default={})

    def __repr__(self) -> str:
        path = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"<{type(self).__name__} {path}{self._summary()}>"

    def _summary(self) -> str:
        return ""


@dataclass(frozen=True)
class Task:
    """One task of a new job: pods that are alike.

    >>> Task("worker", replicas=2, command=["python", "train.py"], gpus=1).manifest()["replicas"]
    2
    """

    name: str
    replicas: int = 1
    command: Sequence[str] = ()
    image: str = "busybox"
    cpus: str = "1"
    memory: str = "1Gi"
    gpus: int = 0
    gpu_resource: str = "nvidia.com/gpu"
    env: Mapping[str, str] = field(default_factory=dict)

    def manifest(self) -> Manifest:
        """The task as it stands in `spec.tasks`."""
        devices = {self.gpu_resource: str(self.gpus)} if self.gpus else {}
        resources: Manifest = {"requests": {"cpu": self.cpus, "memory": self.memory, **devices}}
        if devices:
            resources["limits"] = devices
        container: Manifest = {"name": self.name, "image": self.image, "resources": resources}
        if self.command:
            container["command"] = list(self.command)
        if self.env:
            container["env"] = [{"name": name, "value": value} for name, value in self.env.items()]
        pod_spec = {"restartPolicy": "Never", "containers": [container]}
        return {"name": self.name, "replicas": self.replicas, "template": {"spec": pod_spec}}


@dataclass(frozen=True, repr=False)
class Job(ApiObject):
    """A Volcano job.

    >>> job = Job.new("train", [Task("worker", replicas=4)], queue="research")
    >>> job.min_available, job.queue, job.phase
    (4, 'research', 'Pending')
    """

    KIND = JOB

    @classmethod
    def new(
        cls,
        name: str,
        tasks: Sequence[Task],
        *,
        queue: str = "",
        min_available: int | None = None,
        priority_class: str = "",
        plugins: Mapping[str, Sequence[str]] | None = None,
        namespace: str = "",
    ) -> "Job":
        """A job to be created; all of its pods start together, or `min_available` of them."""
        pods = sum(task.replicas for task in tasks)
        spec: Manifest = {
            "schedulerName": SCHEDULER_NAME,
            "minAvailable": pods if min_available is None else min_available,
            "tasks": [task.manifest() for task in tasks],
        }
        if queue:
            spec["queue"] = queue
        if priority_class:
            spec["priorityClassName"] = priority_class
        if plugins:
            spec["plugins"] = {plugin: list(arguments) for plugin, arguments in plugins.items()}
        return cls(_manifest(JOB, name, namespace, spec))

    queue = Field(str, "spec", "queue", default="default")
    min_available = Field(int, "spec", "minAvailable", default=0)

    @property
    def replicas(self) -> int:
        """Number of pods of all tasks."""
        return sum(int(task.get("replicas", 1)) for task in self.spec.get("tasks") or ())

    # Pending, Running, Restarting, Completing, Completed, Aborting, Aborted, Terminating, Terminated or Failed.
    phase = Field(str, "status", "state", "phase", default="Pending")

    @property
    def message(self) -> str:
        """What the controller says about the phase."""
        return message_of(self.manifest)

    @property
    def has_ended(self) -> bool:
        return self.phase in ENDS

    running = Field(int, "status", "running", default=0)
    pending = Field(int, "status", "pending", default=0)
    succeeded = Field(int, "status", "succeeded", default=0)
    failed = Field(int, "status", "failed", default=0)

    def _summary(self) -> str:
        return f" {self.phase} in queue {self.queue}"


@dataclass(frozen=True, repr=False)
class Queue(ApiObject):
    """A queue.

    >>> Queue.new("research", weight=4, capability={"cpu": "64"}).weight
    4
    """

    KIND = QUEUE

    @classmethod
    def new(
        cls,
        name: str,
        *,
        weight: int = 1,
        capability: Mapping[str, str] | None = None,
        deserved: Mapping[str, str] | None = None,
        guarantee: Mapping[str, str] | None = None,
        parent: str = "",
        reclaimable: bool | None = None,
    ) -> "Queue":
        """A queue to be created."""
        spec: Manifest = {"weight": weight}
        if capability:
            spec["capability"] = dict(capability)
        if deserved:
            spec["deserved"] = dict(deserved)
        if guarantee:
            spec["guarantee"] = {"resource": dict(guarantee)}
        if parent:
            spec["parent"] = parent
        if reclaimable is not None:
            spec["reclaimable"] = reclaimable
        return cls(_manifest(QUEUE, name, "", spec))

    weight = Field(int, "spec", "weight", default=1)
    parent = Field(str, "spec", "parent", default="")
    state = Field(str, "status", "state", default="Open")  # or Closing, Closed, Unknown
    capability = Field(_texts, "spec", "capability", default={})  # most that the queue may use
    deserved = Field(_texts, "spec", "deserved", default={})  # what it gets back when others use it
    guarantee = Field(_texts, "spec", "guarantee", "resource", default={})  # what is kept for it
    allocated = Field(_texts, "status", "allocated", default={})  # what its jobs use now

    def _summary(self) -> str:
        return f" {self.state}, weight {self.weight}"


@dataclass(frozen=True, repr=False)
class PodGroup(ApiObject):
    """A gang: pods that start together."""

    KIND = POD_GROUP

    @classmethod
    def new(
        cls,
        name: str,
        min_member: int,
        *,
        queue: str = "",
        min_resources: Mapping[str, str] | None = None,
        priority_class: str = "",
        namespace: str = "",
    ) -> "PodGroup":
        """A gang to be created; pods join it by the annotation `scheduling.k8s.io/group-name`."""
        spec: Manifest = {"minMember": min_member}
        if queue:
            spec["queue"] = queue
        if min_resources:
            spec["minResources"] = dict(min_resources)
        if priority_class:
            spec["priorityClassName"] = priority_class
        return cls(_manifest(POD_GROUP, name, namespace, spec))

    min_member = Field(int, "spec", "minMember", default=0)
    queue = Field(str, "spec", "queue", default="default")
    phase = Field(str, "status", "phase", default="Pending")  # or Inqueue, Running, Unknown, Completed

    @property
    def reason(self) -> str:
        """Why it waits; empty when it does not."""
        return why_waiting(self.manifest)

    def _summary(self) -> str:
        return f" {self.phase} in queue {self.queue}, {self.min_member} pods"


def _manifest(kind: Kind, name: str, namespace: str, spec: Manifest) -> Manifest:
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": spec}
