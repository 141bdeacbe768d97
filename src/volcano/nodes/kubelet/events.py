"""Events about pods and nodes, written one after the other behind the back of whoever has something to say."""

import asyncio
from collections import deque
from collections.abc import Mapping

from volcano.clock import Clock
from volcano.kube.client import Client
from volcano.kube.errors import ApiError, NotFound
from volcano.kube.events import NORMAL, WARNING, reference_to
from volcano.kube.manifest import Manifest
from volcano.kube.operations import Operation, Patch, perform
from volcano.kube.recorder import Recorder
from volcano.log import Log
from volcano.nodes.kubelet.container_state import Container, Role

log = Log("kubelet")

MAX_QUEUED = 1000  # events not written yet; more are dropped, for pods go first
COMPONENT = "kubelet"
_FIELDS = {
    Role.INIT: "initContainers",
    Role.SIDECAR: "initContainers",
    Role.MAIN: "containers",
    Role.EPHEMERAL: "ephemeralContainers",
}


class EventWriter:
    """Counts, sums up and writes what is said about the pods of some nodes. A task runs only while there is work."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._recorders: dict[str, Recorder] = {}
        self._queue: deque[tuple[Recorder, Operation]] = deque()
        self._writer: asyncio.Task[None] | None = None

    def normal(self, node: str, regarding: Mapping[str, object], reason: str, message: str) -> None:
        self._record(node, regarding, NORMAL, reason, message)

    def warn(self, node: str, regarding: Mapping[str, object], reason: str, message: str) -> None:
        self._record(node, regarding, WARNING, reason, message)

    async def close(self) -> None:
        """Lets go; what is not written yet is not written."""
        if self._writer is not None:
            self._writer.cancel()
            await asyncio.gather(self._writer, return_exceptions=True)

    async def flush(self) -> None:
        """Waits until everything said so far is written."""
        if self._writer is not None:
            await asyncio.gather(self._writer, return_exceptions=True)

    def _record(
        self, node: str, regarding: Mapping[str, object], kind: str, reason: str, message: str
    ) -> None:
        recorder = self._recorders.setdefault(node, Recorder(COMPONENT, node))
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
            except ApiError as error:  # of a namespace that goes away, say: nobody reads it there
                log.debug("event not written", reason=error.message)


def container_reference(pod: Manifest, container: Container) -> Manifest:
    """A reference to one container of a pod."""
    path = f"spec.{_FIELDS[container.role]}{{{container.name}}}"
    return reference_to({"apiVersion": "v1", "kind": "Pod", **pod}) | {"fieldPath": path}


def pod_reference(pod: Manifest) -> Manifest:
    return reference_to({"apiVersion": "v1", "kind": "Pod", **pod})
