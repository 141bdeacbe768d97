"""ClusterState: the objects of a cluster, from which snapshots are taken as the scheduler takes them."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Protocol

import orjson

from volcano.analysis.rerun.expected_pods import expected_pods, waiting_job
from volcano.base.clock import Clock
from volcano.kube.api import kinds
from volcano.kube.api.errors import ApiError, Forbidden, NotFound
from volcano.kube.api.kinds import Kind
from volcano.kube.api.names import JOB_NAME
from volcano.kube.client.protocol import Client, Decode, Event, EventType, Query
from volcano.model.cluster import WATCHED, Cluster
from volcano.model.job import PodGroup
from volcano.model.snapshot import Snapshot
from volcano.model.task import Task
from volcano.scheduler.actions.awaited_gangs import AWAITED
from volcano.scheduler.config_map_informer import config_maps
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
        pods_to_come: Mapping[str, tuple[Task, ...]] | None = None,
    ) -> None:
        """`cluster` belongs to the state from now on."""
        self._cluster = cluster
        self.now = now
        self.seed = seed
        self.memory = memory or {}
        self.usage = usage or {}
        self.not_listed = not_listed  # kinds that could not be listed, as if there were no such objects
        self.config_text = config_text  # of a snapshot file: the configuration it was scheduled with
        # Pods that the controller creates as soon as their job is admitted, by job.
        self.pods_to_come = pods_to_come or {}

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
        found = await asyncio.gather(*(_listed(client, kind, cluster.decoder(kind)) for kind in wanted))
        missing = [kind for kind, items in zip(wanted, found, strict=True) if items is None]
        essential = [kind for kind in missing if kind in ESSENTIAL]
        if essential:
            raise MissingRights(essential)
        for kind, items in zip(wanted, found, strict=True):
            _apply(cluster, (Event(EventType.ADDED, kind, item) for item in items or ()))
        _apply(cluster, await _config_maps(client, cluster, config))
        jobs = await _listed(client, kinds.JOB, waiting_job)
        if jobs is None:
            missing.append(kinds.JOB)
        now = clock.now().wall
        return cls(
            cluster,
            now,
            seed=seed,
            memory={AWAITED: _created(cluster)},
            not_listed=tuple(missing),
            pods_to_come=_pods_to_come(cluster, jobs or (), now),
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
        # The scheduler knows from the cycles before which gangs it awaits; a copy finds them among the changed jobs.
        # The status of all others is as the scheduler reported it.
        awaited = frozenset(uid for uid, job in found.jobs.items() if not job.tasks)
        return replace(found, changed=awaited, orphans=dict(self._cluster.orphans))

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

    def with_events(
        self, events: Iterable[Event], pods_to_come: Mapping[str, tuple[Task, ...]] | None = None
    ) -> "ClusterState":
        """A state in which these events happened; `pods_to_come` replaces those of some jobs."""
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
            pods_to_come={**self.pods_to_come, **(pods_to_come or {})},
        )

    def tasks(self, job: str) -> tuple[Task, ...]:
        """The pods of a job, those to come included; those of a job whose queue does not exist, too."""
        snapshot = self.snapshot()
        found = snapshot.jobs.get(job)
        orphans = snapshot.orphans.get(job)
        present = found.tasks.values() if found is not None else orphans.tasks if orphans is not None else ()
        return (*present, *self.pods_to_come.get(job, ()))

    def group(self, job: str) -> PodGroup | None:
        """The PodGroup of a job; None when there is none."""
        snapshot = self.snapshot()
        found = snapshot.jobs.get(job)
        orphans = snapshot.orphans.get(job)
        return found.group if found is not None else orphans.group if orphans is not None else None

    def job_name(self, job: str) -> str:
        """The name of a job for people: that of the Job or pod, not of the PodGroup made for it."""
        group = self.group(job)
        if group is None:
            return job
        return f"{group.namespace}/{group.labels.get(JOB_NAME) or group.name}"

    def priority(self, priority_class: str) -> int:
        """Value of a priority class, or of the default one when it does not exist."""
        return self._cluster.priority(priority_class)

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


def _pods_to_come(cluster: Cluster, jobs: Iterable[Any], now: float) -> dict[str, tuple[Task, ...]]:
    """Pods of the jobs that have none yet, because they are not admitted."""
    groups, decode = cluster.snapshot().jobs, cluster.decoder(kinds.POD)
    found = {}
    for job in jobs:
        if job is None:
            continue
        group, manifests = expected_pods(job, cluster.priority, now)
        uid = f"{job['metadata']['namespace']}/{group}"
        if uid in groups and not groups[uid].tasks:
            found[uid] = tuple(decode(orjson.dumps(manifest)) for manifest in manifests)
    return found


async def _listed(client: Client, kind: Kind, decode: Decode) -> list[Any] | None:
    """Objects of a kind; none when the server does not serve it, None when the user may not list it."""
    try:
        return (await client.list(kind, decode=decode)).items
    except Forbidden:
        return None
    except NotFound:
        return []


async def _config_maps(client: Client, cluster: Cluster, config: Config | None) -> list[Event]:
    """The ConfigMaps that plugins of the configuration read."""
    events: list[Event] = []
    for namespace, name in config_maps(config):
        query = Query(namespace=namespace, fields=f"metadata.name={name}")
        try:
            found = await client.list(kinds.CONFIG_MAP, query, decode=cluster.decoder(kinds.CONFIG_MAP))
        except ApiError:
            continue  # the scheduler works with defaults, too
        events += [Event(EventType.ADDED, kinds.CONFIG_MAP, item) for item in found.items]
    return events
