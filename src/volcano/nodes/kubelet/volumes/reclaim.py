"""Reclaims deleted volumes of the local StorageClass: removes the directory, unless retained, then the finalizer."""

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path

from volcano.base.clock import Clock
from volcano.base.log import Log
from volcano.base.workqueue import Waker, WorkQueue
from volcano.kube.api.errors import ApiError, NotFound
from volcano.kube.api.kinds import PERSISTENT_VOLUME
from volcano.kube.api.manifest import Manifest, is_deleting, key_of
from volcano.kube.client.protocol import Client, Event, EventType, Watch
from volcano.kube.informers.shared_informers import SharedInformerFactory
from volcano.nodes.kubelet.volumes.claims import FINALIZER, is_in_use, is_local_volume
from volcano.nodes.kubelet.volumes.store import remove_tree

log = Log("volumes")

RETRY_SECONDS = 1.0


class VolumeReclaimer:
    """Watches PersistentVolumes while `run` runs.

    `directory` contains the volumes: nothing outside it is ever removed. A volume that one of `pods` uses
    is reclaimed when the pod has ended.
    """

    def __init__(
        self,
        client: Client,
        informers: SharedInformerFactory,
        clock: Clock,
        directory: Path,
        pods: Callable[[], Iterable[Manifest]],
    ) -> None:
        self._client = client
        self._informers = informers
        self._clock = clock
        self._directory = directory
        self._pods = pods
        self._deleting: dict[str, Manifest] = {}
        self._queue: WorkQueue[str] = WorkQueue()
        self._waker = Waker(clock)

    async def run(self) -> None:
        watch = Watch(PERSISTENT_VOLUME)
        with self._informers.add_event_handler(watch, self.on_event) as handler:
            async with asyncio.TaskGroup() as group:
                group.create_task(handler.wait_stopped())
                group.create_task(self._work())

    def on_event(self, event: Event) -> None:
        if event.type is EventType.BOOKMARK:
            return
        name = key_of(event.object).name
        held = FINALIZER in (event.object["metadata"].get("finalizers") or ())
        if event.type is EventType.DELETED or not (held and is_deleting(event.object)):
            self._deleting.pop(name, None)
            self._queue.discard(name)
            return
        self._deleting[name] = event.object
        self._queue.add(name)
        self._waker.wake()

    async def _work(self) -> None:
        try:
            while True:
                self._waker.clear()
                for name in self._queue.get(self._clock.now().monotonic):
                    await self._process(name)
                    self._queue.done(name)
                await self._waker.wait(self._queue.next_due())
        finally:
            self._waker.close()

    async def _process(self, name: str) -> None:
        volume = self._deleting.get(name)
        if volume is None:
            return
        if is_in_use(self._pods(), volume) or not await self._reclaim(volume):
            self._queue.add_at(name, self._clock.now().monotonic + RETRY_SECONDS)
        else:
            self._deleting.pop(name, None)

    async def _reclaim(self, volume: Manifest) -> bool:
        """Removes the directory and the finalizer; False if it has to be retried."""
        path = self._path(volume)
        if path is not None and volume["spec"].get("persistentVolumeReclaimPolicy") == "Delete":
            try:
                await asyncio.to_thread(remove_tree, path)
            except OSError as error:  # files of other users: the volume must not stay forever
                log.warning(
                    "volume directory not removed", volume=key_of(volume).name, path=path, reason=str(error)
                )
        metadata = volume["metadata"]
        others = [each for each in metadata["finalizers"] if each != FINALIZER]
        change = {"finalizers": others, "resourceVersion": metadata["resourceVersion"]}
        try:
            await self._client.patch(PERSISTENT_VOLUME, key_of(volume), {"metadata": change})
        except NotFound:
            return True
        except ApiError as error:
            log.info("volume finalizer not removed", volume=key_of(volume).name, reason=error.message)
            return False
        return True

    def _path(self, volume: Manifest) -> Path | None:
        path = Path((volume["spec"].get("hostPath") or {}).get("path") or "/")
        return (
            path if is_local_volume(volume) and path.parent == self._directory and path.name != ".." else None
        )
