"""Cluster informer: lists and watches every kind the scheduler reads into the cluster cache."""

import asyncio
from collections.abc import Callable, Collection, Sequence
from typing import Any

from volcano.base.clock import Clock
from volcano.base.log import Log
from volcano.kube.api.kinds import NODE_RESERVATION, NUMATOPOLOGY, Kind
from volcano.kube.client.protocol import Client, Event, EventType, Watch
from volcano.kube.informers.reflector import Reflector
from volcano.model.cluster import WATCHED, Cluster
from volcano.model.job import PodGroup
from volcano.model.node import Node
from volcano.model.parse_devices import DEVICE_KINDS
from volcano.model.task import Task
from volcano.scheduler.cycle_timer import Urgency

log = Log("scheduler")


class ClusterInformer:
    """One reflector per watched kind; all of them feed one cluster cache.

    Kinds in `ignored_kinds` are not watched. `on_change` is called after a batch that changed anything, with how soon
    that matters; `on_pod_added` for each pod without a node that is created after the first list.
    """

    def __init__(
        self,
        client: Client,
        clock: Clock,
        cluster: Cluster,
        *,
        on_change: Callable[[Urgency], None],
        on_pod_added: Callable[[Task], None],
        on_group_deleted: Callable[[PodGroup], None],
        on_node_deleted: Callable[[str], None] = lambda name: None,
        ignored: Collection[Kind] = (),
    ) -> None:
        self._client = client
        self._clock = clock
        self._cluster = cluster
        self._on_change = on_change
        self._on_pod_added = on_pod_added
        self._on_group_deleted = on_group_deleted
        self._on_node_deleted = on_node_deleted
        self._reflectors = [self._reflector(kind) for kind in WATCHED if kind not in ignored]
        self.synced = False

    async def run(self) -> None:
        """Lists and watches until cancelled."""
        async with asyncio.TaskGroup() as group:
            for reflector in self._reflectors:
                group.create_task(reflector.run())

    async def wait_for_sync(self) -> None:
        """Returns when every kind has been listed once."""
        for reflector in self._reflectors:
            await reflector.synced.wait()
        self.synced = True

    def apply(self, batch: Sequence[Event]) -> None:
        """Applies a batch of events to the cluster cache and reports the change, if any."""
        cluster = self._cluster
        revision, jobless = cluster.revision, cluster.jobless_revision
        only_status = True
        for event in batch:
            if self._apply(event) and only_status:
                only_status = _is_status(event)
        if cluster.revision == revision:
            return
        if cluster.revision - revision == cluster.jobless_revision - jobless:
            self._on_change(Urgency.FOREIGN)
        else:
            self._on_change(Urgency.STATUS if only_status else Urgency.DECISION)

    def _apply(self, event: Event) -> bool:
        """Applies one event; returns whether it changed anything."""
        before = self._cluster.revision
        try:
            self._cluster.apply(event)
        except Exception as error:  # one object that cannot be applied must not stop the watch of the others
            log.error("event not applied", kind=event.kind, error=error)
        if event.type is EventType.DELETED and isinstance(event.object, Node):
            self._on_node_deleted(event.object.name)
        if self._cluster.revision == before:
            return False
        changed = event.object
        if event.type is EventType.DELETED and isinstance(changed, PodGroup):
            self._on_group_deleted(changed)
        if self.synced and event.type is EventType.ADDED and isinstance(changed, Task) and not changed.node:
            self._on_pod_added(changed)
        return True

    def _reflector(self, kind: Kind) -> Reflector:
        decode = self._cluster.decoder(kind)
        return Reflector(
            self._client,
            Watch(kind),
            self.apply,
            self._clock,
            decode=decode,
            identify=_key_of,
            # Older clusters, and those of Volcano, do not serve them, or do not let the scheduler read them.
            optional=kind in DEVICE_KINDS or kind is NODE_RESERVATION,
        )


def _is_status(event: Event) -> bool:
    """Whether an event can change only what is reported, unless a job waits: a pod that has a node, the status of an
    admitted PodGroup, or the CPUs in use on a node."""
    changed = event.object
    if event.kind is NUMATOPOLOGY:
        return True
    if isinstance(changed, Task):
        return bool(changed.node) or event.type is EventType.DELETED
    if isinstance(changed, PodGroup):
        return event.type is EventType.MODIFIED and changed.phase not in ("", "Pending")
    return False


def _key_of(decoded: Any) -> object:
    return getattr(decoded, "namespace", ""), decoded.name
