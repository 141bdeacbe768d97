"""The shared informer: one watch per kind with the dashboard's own credentials, for all viewers.

A viewer gets only objects that the viewer may list (see `rights`).
"""

import asyncio
from collections.abc import Sequence

from volcano.base.clock import Clock
from volcano.dashboard.objects import Objects
from volcano.dashboard.rights import EVERYWHERE, Scopes
from volcano.dashboard.samples import Samples
from volcano.dashboard.viewer import Viewer
from volcano.kube.api.errors import ApiError, Unavailable
from volcano.kube.api.kinds import (
    HYPER_NODE,
    JOB,
    NAMESPACE,
    NODE,
    POD,
    POD_GROUP,
    PRIORITY_CLASS,
    QUEUE,
)
from volcano.kube.api.manifest import Manifest, key_of
from volcano.kube.client.protocol import Client, Event, Query, Watch
from volcano.kube.informers.reflector import Reflector
from volcano.views.board import slim

SHOWN = (QUEUE, JOB, POD_GROUP, POD, NODE, HYPER_NODE, NAMESPACE, PRIORITY_CLASS)
PERIOD = 0.9  # seconds between two generations: pages are updated at most this often, and within a second of a change
RECHECK = 5.0  # seconds between two requests that find whether the API server answers


class Feed:
    """Objects of the cluster, watched for as long as `run` runs. Changes become visible in generations."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self.generation = 0
        self.samples = Samples()  # of the last hour
        self.unreachable = ""  # why the API server does not answer; "" while it does
        self._client = client
        self._clock = clock
        self._reflectors = {
            kind: Reflector(client, Watch(kind), self._on_batch, clock, decode=slim, optional=True)
            for kind in SHOWN
        }
        self._gathered: dict[object, Objects] = {}  # of this generation, by what viewers may list
        self._changed = asyncio.Event()
        self._published = asyncio.Event()

    async def run(self) -> None:
        """Watches until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for reflector in self._reflectors.values():
                tasks.create_task(reflector.run())
            tasks.create_task(self._publish())
            tasks.create_task(self._check_server())

    async def synced(self) -> None:
        """Returns when every kind has been listed once."""
        await asyncio.gather(*(reflector.synced.wait() for reflector in self._reflectors.values()))

    def namespaces(self) -> list[str]:
        """Namespaces with objects, also where namespaces themselves may not be listed."""
        named = {key_of(each).name for each in self._reflectors[NAMESPACE].objects()}
        return sorted(named or {key_of(each).namespace for each in self._reflectors[JOB].objects()})

    async def objects(self, viewer: Viewer) -> Objects:
        """What the viewer may see now."""
        return self.visible(await viewer.rights.scopes(SHOWN, self.namespaces()))

    def visible(self, scopes: Scopes) -> Objects:
        """What viewers with these scopes see in this generation."""
        signature = scopes.signature()
        if signature not in self._gathered:
            found = {
                kind: _listed(reflector.objects(), scopes.of(kind))
                for kind, reflector in self._reflectors.items()
            }
            self._gathered[signature] = Objects(self.generation, self._clock.now().wall, found, scopes)
        return self._gathered[signature]

    async def after(self, generation: int) -> None:
        """Returns when there is a generation after this one."""
        while self.generation <= generation:
            await self._published.wait()

    def refresh(self) -> None:
        """Begins a generation although nothing changed."""
        self._changed.set()

    def _on_batch(self, _batch: Sequence[Event]) -> None:
        self._changed.set()

    async def _publish(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            self.generation += 1
            self._gathered = {}
            self._published.set()
            self._published = asyncio.Event()
            await self._clock.sleep(PERIOD)

    async def _check_server(self) -> None:
        while True:
            try:
                await self._client.list(NAMESPACE, Query(limit=1))
                reason = ""
            except Unavailable as error:
                reason = error.message
            except ApiError:
                reason = ""  # an answer, if not the one that was hoped for
            if reason != self.unreachable:
                self.unreachable = reason
                self._changed.set()
            await self._clock.sleep(RECHECK)


def _listed(objects: list[Manifest], namespaces: frozenset[str]) -> list[Manifest]:
    if EVERYWHERE in namespaces:
        return objects
    if not namespaces:
        return []
    return [each for each in objects if key_of(each).namespace in namespaces]
