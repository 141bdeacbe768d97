"""A small cluster with a virtual clock: the real registry in memory, real controllers, no waiting."""

import asyncio
import uuid
from collections.abc import Sequence
from random import Random
from types import TracebackType
from typing import Any

from volcano.apiserver.direct import DirectClient
from volcano.apiserver.interfaces import AdmissionFunction
from volcano.apiserver.registry.kind_table import KindTable
from volcano.apiserver.registry.registry import Registry
from volcano.apiserver.registry.strategies import built_in_kinds
from volcano.apiserver.schema.crds import served
from volcano.apiserver.storage.store import Store
from volcano.clock import VirtualClock
from volcano.controllers.kubernetes.garbage_collector import GarbageCollector
from volcano.controllers.kubernetes.namespace import NamespaceController
from volcano.kube import crds
from volcano.kube.client import Client, Options, Query
from volcano.kube.controller import Controller
from volcano.kube.controller_runner import ControllerRunner
from volcano.kube.kinds import CRD, NAMESPACE, Kind
from volcano.kube.manifest import Key, Manifest

IDLE_ITERATIONS = 60  # event loop iterations without a write after which the cluster is idle
MAX_ITERATIONS = 200_000
_DEFINED: list[Manifest] = []  # our CRDs as a server has stored them


class SmallCluster:
    """Objects and controllers; `rest` waits until they are idle, `pass_time` advances the clock and waits again."""

    def __init__(self, *controllers: Controller, admit: AdmissionFunction | None = None) -> None:
        self.clock = VirtualClock()
        table = KindTable(built_in_kinds())
        random = Random(7)
        self.registry = Registry(
            Store(),
            table,
            clock=self.clock,
            random=random,
            new_uid=lambda: str(uuid.UUID(int=random.getrandbits(128))),
            admit=admit,
        )
        table.follow(self.registry.store, served)
        self.client = DirectClient(self.registry)
        self._controllers = controllers
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> "SmallCluster":
        for name in ("default", "kube-system", "kube-node-lease"):
            await self.client.create(
                NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            )
        await self._define()
        own: list[Controller] = [GarbageCollector(), NamespaceController()]
        for controller in (*own, *self._controllers):
            self.start(controller)
        await self.rest()
        return self

    async def _define(self) -> None:
        """Creates our CRDs. Validating their schemas takes most of a small cluster's start: it is done once."""
        if not _DEFINED:
            for manifest in crds.load():
                await self.client.create(CRD, manifest)
            _DEFINED.extend(await self.all(CRD))
            return
        for manifest in _DEFINED:
            metadata = {k: v for k, v in manifest["metadata"].items() if k != "resourceVersion"}
            self.registry.store.put(CRD.resource, {**manifest, "metadata": metadata}, None)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def start(self, controller: Controller, client: Client | None = None) -> asyncio.Task[None]:
        """Starts another controller; cancelling the task stops it as a crash would."""
        task = asyncio.create_task(ControllerRunner(controller, client or self.client, self.clock).run())
        self._tasks.append(task)
        return task

    async def rest(self) -> None:
        """Returns when no object has been written for a while; the clock does not advance."""
        quiet, version = 0, self.registry.store.version
        for _ in range(MAX_ITERATIONS):
            await asyncio.sleep(0)
            now = self.registry.store.version
            quiet, version = (quiet + 1, version) if now == version else (0, now)
            if quiet >= IDLE_ITERATIONS:
                return
        raise AssertionError("the cluster does not become idle: objects are written without end")

    async def pass_time(self, seconds: float, step: float = 1.0) -> None:
        """Advances the clock in steps and waits after each until the controllers are idle."""
        while seconds > 0:
            self.clock.advance(min(step, seconds))
            seconds -= step
            await self.rest()

    async def create(self, kind: Kind, name: str, *, namespace: str = "default", **fields: Any) -> Manifest:
        """Creates an object of a kind; `metadata` in the fields is merged with its name."""
        metadata = {
            "name": name,
            **({"namespace": namespace} if kind.namespaced else {}),
            **fields.pop("metadata", {}),
        }
        manifest = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **fields}
        made = await self.client.create(kind, manifest)
        await self.rest()
        return made

    async def get(self, kind: Kind, name: str, namespace: str = "default") -> Manifest:
        return await self.client.get(kind, Key(namespace if kind.namespaced else "", name))

    async def all(self, kind: Kind, labels: str = "") -> list[Manifest]:
        """Every object of a kind, by name."""
        items = (await self.client.list(kind, Query(labels=labels))).items
        return sorted(items, key=lambda item: item["metadata"]["name"])

    async def names(self, kind: Kind, labels: str = "") -> list[str]:
        return [item["metadata"]["name"] for item in await self.all(kind, labels)]

    async def patch(
        self, kind: Kind, name: str, patch: Manifest, subresource: str = "", namespace: str = "default"
    ) -> Manifest:
        key = Key(namespace if kind.namespaced else "", name)
        made = await self.client.patch(kind, key, patch, subresource=subresource)
        await self.rest()
        return made

    async def delete(
        self, kind: Kind, name: str, *, grace: int | None = None, namespace: str = "default"
    ) -> None:
        key = Key(namespace if kind.namespaced else "", name)
        await self.client.delete(kind, key, options=Options(grace_seconds=grace))
        await self.rest()


def phases(pods: Sequence[Manifest]) -> list[str]:
    return [pod["status"]["phase"] for pod in pods]
