"""ClusterState: the objects of a cluster, from which snapshots are taken as the scheduler takes them."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Protocol

from volcano.clock import Clock
from volcano.kube import kinds
from volcano.kube.client import Client, Event, EventType, Query
from volcano.kube.errors import ApiError, Forbidden, NotFound
from volcano.kube.kinds import Kind
from volcano.model.cluster import WATCHED, Cluster
from volcano.model.snapshot import Snapshot
from volcano.scheduler.device_config_informer import device_config_map
from volcano.scheduler.engine.awaited_gangs import AWAITED
from volcano.scheduler.engine.config import Config
from volcano.scheduler.options import SchedulerOptions
from volcano.scheduler.snapshot_file import read_events

# Without objects of these kinds no answer is possible; without others it may be inexact.
ESSENTIAL = (kinds.POD, kinds.NODE, kinds.POD_GROUP, kinds.QUEUE, kinds.PRIORITY_CLASS)


class MissingRights(Exception):
    """Kinds that the scheduler watches and that the user may not list in all namespaces."""

    def __init__(self, missing: Sequence[Kind]) -> None:
        names = ", ".join(kind.plural for kind in missing)
        super().__init__(
            f"you may not list {names} in the whole cluster; "
            "ask an administrator for a ClusterRole with the verb list for them"
        )
        self.kinds = tuple(missing)


class Change(Protocol):
    """A change of a cluster: a sentence for people, and its effect on a state."""

    def sentence(self) -> str: ...

    def apply(self, state: "ClusterState") -> "ClusterState": ...


class ClusterState:
    """The objects of a cluster at one time. A state is never changed; `changed` and `with_events` return others."""

    def __init__(
        self,
        cluster: Cluster,
        now: float,
        *,
        seed: int = 0,
        memory: Mapping[str, Any] | None = None,
        usage: Mapping[str, Mapping[str, float]] | None = None,
        not_listed: tuple[Kind, ...] = (),
        config_text: str = "",
    ) -> None:
        """`cluster` belongs to the state from now on."""
        self._cluster = cluster
        self.now = now
        self.seed = seed
        self.memory = memory or {}
        self.usage = usage or {}
        self.not_listed = not_listed  # kinds that could not be listed, as if there were no such objects
        self.config_text = config_text  # of a snapshot file: the configuration it was scheduled with

    @classmethod
    async def read(
        cls,
        client: Client,
        clock: Clock,
        options: SchedulerOptions | None = None,
        *,
        config: Config | None = None,
        seed: int = 0,
    ) -> "ClusterState":
        """Lists what a scheduler with these options watches. Raises MissingRights when one of the essential kinds may
        not be listed."""
        options = options or SchedulerOptions()
        cluster = options.new_cluster()
        wanted = [kind for kind in WATCHED if kind not in options.ignored_kinds]
        found = await asyncio.gather(*(_listed(client, cluster, kind) for kind in wanted))
        missing = [kind for kind, items in zip(wanted, found, strict=True) if items is None]
        essential = [kind for kind in missing if kind in ESSENTIAL]
        if essential:
            raise MissingRights(essential)
        for kind, items in zip(wanted, found, strict=True):
            _apply(cluster, (Event(EventType.ADDED, kind, item) for item in items or ()))
        _apply(cluster, await _device_config(client, cluster, config))
        return cls(
            cluster,
            clock.now().wall,
            seed=seed,
            memory={AWAITED: _created(cluster)},
            not_listed=tuple(missing),
        )

    @classmethod
    def of_snapshot(cls, data: bytes) -> "ClusterState":
        """The state in a snapshot file. Raises SnapshotError."""
        saved = read_events(data)
        return cls(
            saved.cluster(),
            saved.now,
            seed=saved.seed,
            memory=saved.memory,
            usage=saved.usage,
            config_text=saved.config,
        )

    @cached_property
    def _snapshot(self) -> Snapshot:
        found = self._cluster.snapshot(self.now, self.seed, self.memory, self.usage)
        # A scheduler that starts finds all jobs changed; it would know the others from the cycles before.
        return replace(found, changed=frozenset(found.jobs))

    def snapshot(self) -> Snapshot:
        """All input of a scheduling cycle in this state."""
        return self._snapshot

    def cluster(self) -> Cluster:
        """A cluster cache with these objects, for the caller to change."""
        self.snapshot()  # jobs that are built already are shared with the copy
        return self._cluster.copy()

    def changed(self, changes: Sequence[Change]) -> "ClusterState":
        """A state with the changes applied in order."""
        state = self
        for change in changes:
            state = change.apply(state)
        return state

    def with_events(self, events: Iterable[Event]) -> "ClusterState":
        """A state in which these events happened."""
        cluster = self.cluster()
        _apply(cluster, events)
        return ClusterState(
            cluster,
            self.now,
            seed=self.seed,
            memory=self.memory,
            usage=self.usage,
            not_listed=self.not_listed,
            config_text=self.config_text,
        )

    def decode(self, kind: Kind, data: bytes) -> Any:
        """Parses an object as the scheduler does."""
        return self._cluster.decoder(kind)(data)


def _apply(cluster: Cluster, events: Iterable[Event]) -> None:
    for event in events:
        cluster.apply(event)


def _created(cluster: Cluster) -> dict[str, float]:
    """When each job was created. The scheduler knows since when it awaits the pods of an admitted gang, the server does
    not: the time of a gang is taken to begin with its PodGroup, so that one without a controller holds nothing."""
    return {uid: job.created for uid, job in cluster.snapshot().jobs.items() if not job.tasks}


async def _listed(client: Client, cluster: Cluster, kind: Kind) -> list[Any] | None:
    """Objects of a kind; none when the server does not serve it, None when the user may not list it."""
    try:
        return (await client.list(kind, decode=cluster.decoder(kind))).items
    except Forbidden:
        return None
    except NotFound:
        return []


async def _device_config(client: Client, cluster: Cluster, config: Config | None) -> list[Event]:
    """The ConfigMap that describes devices, if the configuration has a plugin that reads it."""
    wanted = device_config_map(config)
    if wanted is None:
        return []
    query = Query(namespace=wanted[0], fields=f"metadata.name={wanted[1]}")
    try:
        found = await client.list(kinds.CONFIG_MAP, query, decode=cluster.decoder(kinds.CONFIG_MAP))
    except ApiError:
        return []  # the scheduler works with defaults, too
    return [Event(EventType.ADDED, kinds.CONFIG_MAP, item) for item in found.items]
