"""Node cleanup: deletes what belongs to a deleted Node and has no owner reference, its Numatopology."""

import asyncio

from volcano.base.clock import Clock
from volcano.base.log import Log
from volcano.base.workqueue import Backoff
from volcano.kube.api.errors import ApiError, NotFound
from volcano.kube.api.kinds import NUMATOPOLOGY
from volcano.kube.api.manifest import Key
from volcano.kube.client.protocol import Client
from volcano.model.cluster import Cluster

log = Log("scheduler")

TRIES = 6
BACKOFF = Backoff(first=1.0, longest=30.0)


class NodeCleanup:
    """Queue of deleted Nodes. Publishers on the nodes cannot delete their object once the node is gone."""

    def __init__(self, client: Client, clock: Clock, cluster: Cluster) -> None:
        self._client = client
        self._clock = clock
        self._cluster = cluster
        self._deleted: asyncio.Queue[str] = asyncio.Queue()

    def on_node_deleted(self, name: str) -> None:
        self._deleted.put_nowait(name)

    async def run(self) -> None:
        """Runs until cancelled."""
        while True:
            await self._delete(await self._deleted.get())

    async def _delete(self, name: str) -> None:
        for failures in range(TRIES):
            if self._cluster.has_node(name) or not self._cluster.has_numa_topology(name):
                return  # registered again, or deleted with its node
            try:
                await self._client.delete(NUMATOPOLOGY, Key("", name))
                log.info("numatopology of deleted node deleted", node=name)
                return
            except NotFound:
                return
            except ApiError as error:
                log.warning("numatopology deletion failed, retrying", node=name, reason=error.message)
                await self._clock.sleep(BACKOFF.delay(failures))
