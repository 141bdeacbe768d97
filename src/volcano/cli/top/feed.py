"""Cluster state for `vcctl top`: watched while it runs, or listed once."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager

from volcano.cli.session import Session
from volcano.kube.api.errors import ApiError, Forbidden
from volcano.kube.api.kinds import JOB, NODE, POD, POD_GROUP, QUEUE, Kind
from volcano.kube.api.manifest import Manifest
from volcano.kube.client.protocol import Query, Watch
from volcano.kube.informers.reflector import Reflector
from volcano.views.board import Picture, slim
from volcano.views.devices import GpuFigures, is_measured, parse_gpu_load

SHOWN = (QUEUE, JOB, POD_GROUP, POD, NODE)


METRICS = "/metrics"
READ_EVERY = 10.0  # seconds: nodes measure as often


class Feed:
    """Current cluster state."""

    def __init__(
        self,
        session: Session,
        scopes: Mapping[Kind, str],
        limited: tuple[str, ...],
        reflectors: dict[Kind, Reflector],
    ) -> None:
        self._session = session
        self._scopes = scopes
        self._reflectors = reflectors
        self.gpu_load = GpuLoadReader(session, self._nodes)
        self.limited = limited  # messages about kinds and namespaces that may not be read

    @property
    def has_queues(self) -> bool:
        """Whether queues may be read."""
        return QUEUE in self._reflectors

    def _nodes(self) -> list[Manifest]:
        return self._reflectors[NODE].objects() if NODE in self._reflectors else []

    def picture(self) -> Picture:
        def of(kind: Kind) -> list[Manifest]:
            return self._reflectors[kind].objects() if kind in self._reflectors else []

        now = self._session.clock.now().wall
        gpus, complete = self.gpu_load.figures, is_complete(self._scopes)
        return Picture(of(QUEUE), of(JOB), of(POD_GROUP), of(POD), of(NODE), now, gpus, complete)


@asynccontextmanager
async def followed(session: Session, namespace: str, changed: Callable[[], None]) -> AsyncIterator[Feed]:
    """Watches the cluster; `changed` is called for every change. Raises if neither queues nor jobs may be read."""
    scopes, limited = await visible(session, namespace)
    reflectors = {
        kind: Reflector(session.client, Watch(kind, scope), lambda _: changed(), session.clock, decode=slim)
        for kind, scope in scopes.items()
    }
    tasks = [asyncio.create_task(reflector.run()) for reflector in reflectors.values()]
    try:
        await asyncio.gather(*(reflector.synced.wait() for reflector in reflectors.values()))
        feed = Feed(session, scopes, limited, reflectors)
        tasks.append(asyncio.create_task(feed.gpu_load.run()))
        yield feed
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def listed(session: Session, namespace: str) -> tuple[Picture, tuple[str, ...]]:
    """Cluster state now, and messages about what may not be read."""
    scopes, limited = await visible(session, namespace)
    items = {
        kind: (await session.client.list(kind, Query(namespace=scope), decode=slim)).items
        for kind, scope in scopes.items()
    }
    gpus = await read_gpu_load(session) if is_measured(items.get(NODE, [])) else ()
    queues, jobs, groups, pods, nodes = (items.get(kind, []) for kind in SHOWN)
    now, complete = session.clock.now().wall, is_complete(scopes)
    return Picture(queues, jobs, groups, pods, nodes, now, gpus, complete), limited


def is_complete(scopes: Mapping[Kind, str]) -> bool:
    """Whether jobs, PodGroups and pods of all namespaces are read, without which requests of queues are not known."""
    return all(scopes.get(kind) == "" for kind in (JOB, POD_GROUP, POD))


async def visible(session: Session, namespace: str) -> tuple[dict[Kind, str], tuple[str, ...]]:
    """Namespace in which each kind may be read ("" for all), and messages about what may not be.

    Without access to all namespaces the user's own is read, and without access to queues its jobs are shown;
    without access to jobs either, there is nothing to show.
    """
    scopes: dict[Kind, str] = {}
    limited = []
    for kind in SHOWN:
        choices = [namespace, session.namespace] if kind.namespaced and not namespace else [namespace]
        refused: Forbidden | None = None
        for scope in choices if kind.namespaced else [""]:
            try:
                await session.client.list(kind, Query(namespace=scope, limit=1))
            except Forbidden as error:
                refused = error
                continue
            scopes[kind] = scope
            if refused is not None:
                limited.append(f"{kind.plural} of namespace {scope} only")
            break
        else:
            if kind == JOB and QUEUE not in scopes and refused is not None:
                raise refused
            limited.append(f"no rights to list {kind.plural}")
    return scopes, tuple(limited)


async def read_gpu_load(session: Session) -> tuple[GpuFigures, ...]:
    """Figures of all GPUs; none without the right to read metrics."""
    try:
        reply = await session.client.raw("GET", METRICS)
    except ApiError:
        return ()
    return parse_gpu_load(reply.body.decode(errors="replace")) if reply.status == 200 else ()


class GpuLoadReader:
    """Reads the figures again and again, while there are nodes that have some."""

    def __init__(self, session: Session, nodes: Callable[[], Iterable[Manifest]]) -> None:
        self.figures: tuple[GpuFigures, ...] = ()
        self._session = session
        self._nodes = nodes

    async def run(self) -> None:
        while True:
            self.figures = await read_gpu_load(self._session) if is_measured(self._nodes()) else ()
            await self._session.clock.sleep(READ_EVERY)
