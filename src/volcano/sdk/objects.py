"""Typed views of the objects that the SDK reads and writes.

A view keeps the whole manifest, so that a field this module does not know is not lost when the object is written.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from volcano.kube.api.kinds import JOB, POD_GROUP, QUEUE, Kind
from volcano.kube.api.manifest import Manifest
from volcano.kube.api.names import SCHEDULER_NAME

ENDS = ("Completed", "Failed", "Terminated", "Aborted")


@dataclass(frozen=True)
class ApiObject:
    """An object as the server has it; `manifest` is all of it."""

    KIND: ClassVar[Kind]

    manifest: Manifest = field(repr=False)

    @property
    def name(self) -> str:
        return str(self.manifest["metadata"].get("name", ""))

    @property
    def namespace(self) -> str:
        return str(self.manifest["metadata"].get("namespace", ""))

    @property
    def uid(self) -> str:
        return str(self.manifest["metadata"].get("uid", ""))

    @property
    def labels(self) -> Mapping[str, str]:
        return dict(self.manifest["metadata"].get("labels") or {})

    @property
    def annotations(self) -> Mapping[str, str]:
        return dict(self.manifest["metadata"].get("annotations") or {})

    @property
    def spec(self) -> Mapping[str, Any]:
        return dict(self.manifest.get("spec") or {})

    @property
    def status(self) -> Mapping[str, Any]:
        return dict(self.manifest.get("status") or {})

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

    @property
    def queue(self) -> str:
        return str(self.spec.get("queue") or "default")

    @property
    def min_available(self) -> int:
        return int(self.spec.get("minAvailable") or 0)

    @property
    def replicas(self) -> int:
        """Number of pods of all tasks."""
        return sum(int(task.get("replicas", 1)) for task in self.spec.get("tasks") or ())

    @property
    def phase(self) -> str:
        """Pending, Running, Restarting, Completing, Completed, Aborting, Aborted, Terminating, Terminated or Failed."""
        return str((self.status.get("state") or {}).get("phase") or "Pending")

    @property
    def message(self) -> str:
        """What the controller says about the phase."""
        state = self.status.get("state") or {}
        return str(state.get("message") or state.get("reason") or "")

    @property
    def has_ended(self) -> bool:
        return self.phase in ENDS

    @property
    def running(self) -> int:
        return int(self.status.get("running") or 0)

    @property
    def pending(self) -> int:
        return int(self.status.get("pending") or 0)

    @property
    def succeeded(self) -> int:
        return int(self.status.get("succeeded") or 0)

    @property
    def failed(self) -> int:
        return int(self.status.get("failed") or 0)

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

    @property
    def weight(self) -> int:
        return int(self.spec.get("weight") or 1)

    @property
    def parent(self) -> str:
        return str(self.spec.get("parent") or "")

    @property
    def state(self) -> str:
        """Open, Closing, Closed or Unknown."""
        return str(self.status.get("state") or "Open")

    @property
    def capability(self) -> Mapping[str, str]:
        """Most that the queue may use."""
        return _texts(self.spec.get("capability"))

    @property
    def deserved(self) -> Mapping[str, str]:
        """What the queue gets back when others use it."""
        return _texts(self.spec.get("deserved"))

    @property
    def guarantee(self) -> Mapping[str, str]:
        """What is kept for the queue."""
        return _texts((self.spec.get("guarantee") or {}).get("resource"))

    @property
    def allocated(self) -> Mapping[str, str]:
        """What its jobs use now."""
        return _texts(self.status.get("allocated"))

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

    @property
    def min_member(self) -> int:
        return int(self.spec.get("minMember") or 0)

    @property
    def queue(self) -> str:
        return str(self.spec.get("queue") or "default")

    @property
    def phase(self) -> str:
        """Pending, Inqueue, Running, Unknown or Completed."""
        return str(self.status.get("phase") or "Pending")

    @property
    def reason(self) -> str:
        """Why it waits; empty when it does not."""
        for condition in self.status.get("conditions") or ():
            if condition.get("type") == "Unschedulable" and condition.get("status") == "True":
                return str(condition.get("message") or condition.get("reason") or "")
        return ""

    def _summary(self) -> str:
        return f" {self.phase} in queue {self.queue}, {self.min_member} pods"


def _manifest(kind: Kind, name: str, namespace: str, spec: Manifest) -> Manifest:
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": spec}


def _texts(amounts: Mapping[str, Any] | None) -> Mapping[str, str]:
    return {name: str(amount) for name, amount in (amounts or {}).items()}
