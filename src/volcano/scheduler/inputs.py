"""Inputs: reads what the configured plugins declare to need, beside the objects of the cluster."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from volcano.base.clock import Clock
from volcano.kube.api.kinds import CONFIG_MAP
from volcano.kube.client.protocol import Client, Event
from volcano.model.cluster import Cluster
from volcano.scheduler.config_map_informer import ConfigMapInformer
from volcano.scheduler.config_source import ConfigSource
from volcano.scheduler.engine.config import Config
from volcano.scheduler.load.collector import LoadCollector, event_about, sources
from volcano.scheduler.load.kubernetes import ReadNodeMetrics
from volcano.scheduler.options import SchedulerOptions
from volcano.scheduler.usage_history import ReadUsage, UsageHistory


@dataclass(frozen=True, slots=True)
class Readers:
    """How a program reads inputs, where that is not by listing objects."""

    node_metrics: ReadNodeMetrics | None = None
    usage: ReadUsage | None = None


class Inputs:
    """Informers, pollers and histories."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        source: ConfigSource,
        options: SchedulerOptions,
        cluster: Cluster,
        readers: Readers,
        apply: Callable[[Sequence[Event]], None],
    ) -> None:
        """`apply` applies events of informers to the cluster cache."""
        self._source = source
        on_problem = event_about(client, clock, options.component, options.default_queue)
        self.load = LoadCollector(clock, cluster.nodes, sources(client, readers.node_metrics), on_problem)
        self._usage = UsageHistory(clock, readers.usage)
        self._config_maps = ConfigMapInformer(
            client, clock, cluster.decoder(CONFIG_MAP), apply, lambda: source.current
        )

    async def run(self, nodes_listed: Callable[[], Awaitable[None]]) -> None:
        """Runs until cancelled; load is collected once the nodes are known."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._usage.run())
            group.create_task(self._config_maps.run())
            await nodes_listed()
            group.create_task(self.load.run(self._source))

    async def wait_for_sync(self) -> None:
        await self._config_maps.wait_for_sync()

    def on_new_config(self) -> None:
        self._config_maps.check()

    async def restore(self, config: Config, memory: Mapping[str, Any]) -> Mapping[str, Any]:
        """The memory for the next cycle, with histories that were read."""
        return await self._usage.restore(config, memory)
