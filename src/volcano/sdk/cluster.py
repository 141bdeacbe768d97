"""Cluster: connection and typed clients for jobs, queues and pod groups."""

import os
import sys
from collections.abc import Coroutine, Iterator, Mapping
from typing import Any, Generic, TypeVar

from volcano.base.clock import Clock
from volcano.kube.api.kinds import POD
from volcano.kube.api.manifest import Key, Manifest
from volcano.kube.api.names import JOB_NAME
from volcano.kube.client.kubeconfig import Overrides
from volcano.kube.client.protocol import Client, EventType, Options, PatchType, Query
from volcano.sdk.background import background
from volcano.sdk.objects import ApiObject, Job, PodGroup, Queue
from volcano.services.connection import Connection
from volcano.services.jobs import resume_job, suspend_job
from volcano.services.objects import find
from volcano.services.queues import CLOSE, OPEN, REACHED, operate_queue

MANAGER = "volcano-sdk"
O = TypeVar("O", bound=ApiObject)  # noqa: E741
T = TypeVar("T")


class Cluster:
    """A cluster as kubectl finds it, else a running `volcano up`. Every call blocks until it is done.

    >>> cluster = Cluster()
    >>> queue = cluster.queues.create(Queue.new("docs", weight=2))
    >>> [each.name for each in cluster.queues.list() if each.weight == 2]
    ['docs']
    >>> cluster.queues.close("docs")
    >>> cluster.queues.delete("docs")
    """

    def __init__(self, *, kubeconfig: str = "", context: str = "", namespace: str = "") -> None:
        self.connection = Connection(
            kubeconfig=kubeconfig, overrides=Overrides(context=context), environment=_environment()
        )
        self.namespace = namespace or self.connection.namespace
        self.jobs = JobClient(self, Job)
        self.queues = QueueClient(self, Queue)
        self.pod_groups = ObjectClient(self, PodGroup)

    def wait(self, work: Coroutine[object, object, T]) -> T:
        """Runs a coroutine of this cluster's connection."""
        return background().run(work)

    def pods(self, job: str, namespace: str = "") -> list[Manifest]:
        """The pods of a job."""
        query = Query(namespace or self.namespace, labels=f"{JOB_NAME}={job}")
        return self.wait(self.connection.client.list(POD, query)).items

    def close(self) -> None:
        """Closes the connections."""
        self.wait(self.connection.client.close())

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class ObjectClient(Generic[O]):
    """Objects of one kind."""

    def __init__(self, cluster: Cluster, view: type[O]) -> None:
        self._cluster, self._view = cluster, view
        self._kind = view.KIND

    def get(self, name: str, namespace: str = "") -> O:
        """The object; an error that names a similar one if it does not exist."""
        return self._view(self._wait(find(self._client, self._kind, self._key(name, namespace))))

    def list(self, namespace: str = "", *, labels: str = "", all_namespaces: bool = False) -> "list[O]":
        """The objects of a namespace, or of all; `labels` is a selector such as `team=vision`."""
        query = Query(self._namespace(namespace, everywhere=all_namespaces), labels=labels)
        return [self._view(item) for item in self._wait(self._client.list(self._kind, query)).items]

    def create(self, new: O) -> O:
        """Creates an object and returns it as the server has it."""
        manifest = self._placed(new.manifest)
        options = Options(field_manager=MANAGER)
        return self._view(self._wait(self._client.create(self._kind, manifest, options=options)))

    def apply(self, wanted: O) -> O:
        """Creates an object or changes the fields that are given, by server-side apply."""
        manifest = self._placed(wanted.manifest)
        metadata = {key: value for key, value in manifest["metadata"].items() if key in KEPT}
        manifest = {**manifest, "metadata": metadata}
        manifest.pop("status", None)
        options = Options(patch_type=PatchType.APPLY, field_manager=MANAGER, force=True)
        key = self._key(wanted.name, metadata.get("namespace", ""))
        return self._view(self._wait(self._client.patch(self._kind, key, manifest, options=options)))

    def patch(self, name: str, patch: Mapping[str, Any], namespace: str = "") -> O:
        """Changes some fields by a merge patch, such as `{"spec": {"weight": 4}}`."""
        key = self._key(name, namespace)
        return self._view(self._wait(self._client.patch(self._kind, key, dict(patch))))

    def delete(self, name: str, namespace: str = "") -> None:
        """Deletes an object and what belongs to it."""
        key, options = self._key(name, namespace), Options(propagation="Background")
        self._wait(self._client.delete(self._kind, key, options=options))

    def watch(self, namespace: str = "", *, all_namespaces: bool = False) -> Iterator[tuple[str, O]]:
        """Yields each change as ADDED, MODIFIED or DELETED with the object, beginning with those that exist."""
        query = Query(self._namespace(namespace, everywhere=all_namespaces), bookmarks=False)
        for event in background().iterate(self._client.watch(self._kind, query)):
            if event.type is not EventType.BOOKMARK:
                yield str(event.type), self._view(event.object)

    @property
    def _client(self) -> Client:
        return self._cluster.connection.client

    @property
    def _clock(self) -> Clock:
        return self._cluster.connection.clock

    def _wait(self, work: Coroutine[object, object, T]) -> T:
        return self._cluster.wait(work)

    def _namespace(self, namespace: str, *, everywhere: bool = False) -> str:
        if everywhere or not self._kind.namespaced:
            return ""
        return namespace or self._cluster.namespace

    def _key(self, name: str, namespace: str) -> Key:
        return Key(self._namespace(namespace), name)

    def _placed(self, manifest: Manifest) -> Manifest:
        """The manifest with a namespace, if its kind has one."""
        metadata = dict(manifest["metadata"])
        if self._kind.namespaced:
            metadata.setdefault("namespace", self._cluster.namespace)
        return {**manifest, "metadata": metadata}


KEPT = ("name", "namespace", "labels", "annotations")  # metadata that apply sends


class JobClient(ObjectClient[Job]):
    """Jobs, which can also be suspended and resumed."""

    def suspend(self, name: str, namespace: str = "") -> None:
        """Stops a job; its pods are deleted and it can be resumed."""
        self._wait(suspend_job(self._client, self._clock, self._key(name, namespace)))

    def resume(self, name: str, namespace: str = "") -> None:
        """Starts a suspended job again."""
        self._wait(resume_job(self._client, self._clock, self._key(name, namespace)))


class QueueClient(ObjectClient[Queue]):
    """Queues, which can also be opened and closed."""

    def open(self, name: str) -> None:
        """Lets jobs of the queue start again."""
        self._operate(name, OPEN)

    def close(self, name: str) -> None:
        """Admits and starts no more jobs of the queue."""
        self._operate(name, CLOSE)

    def _operate(self, name: str, action: str) -> None:
        if self.get(name).state not in REACHED[action]:
            self._wait(operate_queue(self._client, self._clock, name, action))


def _environment() -> Mapping[str, str]:
    """This process's environment; a virtual environment that runs it counts as activated."""
    found = dict(os.environ)
    if sys.prefix != sys.base_prefix and not found.get("CONDA_PREFIX"):
        found["VIRTUAL_ENV"] = sys.prefix
    return found
