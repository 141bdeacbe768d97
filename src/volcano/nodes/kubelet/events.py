"""Records events about pods and nodes and writes them in the background."""

import asyncio
from collections import deque
from collections.abc import Mapping

from volcano.base.clock import Clock
from volcano.base.log import Log
from volcano.kube.api.errors import ApiError, NotFound
from volcano.kube.api.events import NORMAL, WARNING, reference_to
from volcano.kube.api.manifest import Manifest
from volcano.kube.client.operations import Operation, Patch, perform
from volcano.kube.client.protocol import Client
from volcano.kube.controllers.recorder import EventRecorder
from volcano.nodes.kubelet.container_state import Container, Role

log = Log("kubelet")

MAX_QUEUED = 1000  # events not written yet; more are dropped, since pod statuses are more important
COMPONENT = "kubelet"
_FIELDS = {
    Role.INIT: "initContainers",
    Role.SIDECAR: "initContainers",
    Role.MAIN: "containers",
    Role.EPHEMERAL: "ephemeralContainers",
}


class EventWriter:
    """Counts, aggregates and writes the events of some nodes. A task runs only while events are queued."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._recorders: dict[str, EventRecorder] = {}
        self._queue: deque[tuple[EventRecorder, Operation]] = deque()
        self._writer: asyncio.Task[None] | None = None

    def normal(self, node: str, regarding: Mapping[str, object], reason: str, message: str) -> None:
        self._record(node, regarding, NORMAL, reason, message)

    def warn(self, node: str, regarding: Mapping[str, object], reason: str, message: str) -> None:
        self._record(node, regarding, WARNING, reason, message)

    async def close(self) -> None:
        """Stops writing; queued events are dropped."""
        if self._writer is not None:
            self._writer.cancel()
            await asyncio.gather(self._writer, return_exceptions=True)

    def _record(
        self, node: str, regarding: Mapping[str, object], kind: str, reason: str, message: str
    ) -> None:
        recorder = self._recorders.setdefault(node, EventRecorder(COMPONENT, node))
        operation = recorder.record(regarding, kind, reason, message, self._clock.now())
        if operation is None or len(self._queue) >= MAX_QUEUED:
            return
        self._queue.append((recorder, operation))
        if self._writer is None or self._writer.done():
            self._writer = asyncio.create_task(self._write(), name="events")

    async def _write(self) -> None:
        while self._queue:
            recorder, operation = self._queue.popleft()
            try:
                await perform(self._client, operation)
            except NotFound:
                fresh = recorder.replacement(operation) if isinstance(operation, Patch) else None
                if fresh is not None:
                    self._queue.appendleft((recorder, fresh))
            except ApiError as error:  # for example in a namespace that is being deleted
                log.debug("event write failed", reason=error.message)


def container_reference(pod: Manifest, container: Container) -> Manifest:
    """A reference to one container of a pod."""
    path = f"spec.{_FIELDS[container.role]}{{{container.name}}}"
    return reference_to({"apiVersion": "v1", "kind": "Pod", **pod}) | {"fieldPath": path}


def pod_reference(pod: Manifest) -> Manifest:
    return reference_to({"apiVersion": "v1", "kind": "Pod", **pod})
