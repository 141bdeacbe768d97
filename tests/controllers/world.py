"""Small worlds for property tests: what runs in one, what may befall it, and a client that may end at any write."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tests.cluster import SmallCluster
from volcano.apiserver.direct import DirectClient
from volcano.apiserver.registry.registry import Registry
from volcano.kube.api.errors import ApiError
from volcano.kube.api.kinds import (
    POD,
    Kind,
)
from volcano.kube.api.manifest import Key, Manifest, key_of
from volcano.kube.client.protocol import DEFAULTS, Options
from volcano.kube.controllers.controller import Controller

Step = Callable[[SmallCluster, int], Awaitable[Any]]


@dataclass(frozen=True)
class World:
    """What runs, what happens (each with a number to choose by), and what is looked at in the end."""

    name: str
    controllers: Callable[[], Sequence[Controller]]
    steps: Sequence[Step]
    view: Callable[[SmallCluster], Awaitable[Any]]
    beside: Callable[[], Sequence[Controller]] = tuple  # parts that do not end: simulated nodes
    seconds: float = 0.0  # that pass after each step
    first: Sequence[tuple[int, int]] = ()  # what happens before anything else
    tale: Sequence[tuple[int, int]] = ()  # what happens next, in a story that touches everything


class CutClient(DirectClient):
    """Records writes; after so many of them it stops answering, as if its user had crashed."""

    def __init__(self, registry: Registry, writes: int | None = None) -> None:
        super().__init__(registry)
        self._left = writes
        self.written: list[tuple[Kind, Key]] = []

    @property
    def cut(self) -> bool:
        return self._left is not None and self._left <= 0

    async def create(
        self, kind: Kind, manifest: Manifest, *, subresource: str = "", options: Options = DEFAULTS
    ) -> Manifest:
        work = super().create(kind, manifest, subresource=subresource, options=options)
        return await self._counted(kind, key_of(manifest), work)

    async def patch(
        self, kind: Kind, key: Key, patch: Any, *, subresource: str = "", options: Options = DEFAULTS
    ) -> Manifest:
        work = super().patch(kind, key, patch, subresource=subresource, options=options)
        return await self._counted(kind, key, work)

    async def update(
        self, kind: Kind, manifest: Manifest, *, subresource: str = "", options: Options = DEFAULTS
    ) -> Manifest:
        work = super().update(kind, manifest, subresource=subresource, options=options)
        return await self._counted(kind, key_of(manifest), work)

    async def delete(self, kind: Kind, key: Key, *, options: Options = DEFAULTS) -> Manifest:
        return await self._counted(kind, key, super().delete(kind, key, options=options))

    async def _counted(self, kind: Kind, key: Key, work: Any) -> Manifest:
        if self.cut:
            work.close()
            await asyncio.Event().wait()
        if self._left is not None:
            self._left -= 1
        answer: Manifest = await work
        self.written.append((kind, key))
        if self.cut:
            await asyncio.Event().wait()
        return answer


async def take(cluster: SmallCluster, world: World, step: int, number: int) -> None:
    """One thing happens; what cannot happen now does not."""
    with contextlib.suppress(ApiError):
        await world.steps[step % len(world.steps)](cluster, number)


async def pod_gone(cluster: SmallCluster, n: int) -> None:
    names = await cluster.names(POD)
    if names:
        await cluster.delete(POD, names[n % len(names)], grace=0)
