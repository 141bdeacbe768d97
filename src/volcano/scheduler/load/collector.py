"""Load collector: reads the load of all nodes in intervals; a source that fails leaves the last values to age."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from volcano.base.clock import Clock
from volcano.base.log import Log
from volcano.kube.api.errors import ApiError
from volcano.kube.api.events import WARNING
from volcano.kube.api.kinds import QUEUE
from volcano.kube.client.operations import perform
from volcano.kube.client.protocol import Client
from volcano.kube.controllers.recorder import EventRecorder
from volcano.model.node import Node
from volcano.scheduler.config_source import ConfigSource
from volcano.scheduler.engine.load_settings import (
    ADAPTOR,
    ELASTICSEARCH,
    METRICS_SERVER,
    PROMETHEUS,
    STALE_AFTER,
    LoadSettings,
)
from volcano.scheduler.load.elasticsearch import Elasticsearch
from volcano.scheduler.load.kubernetes import MetricsServer, PrometheusAdaptor, ReadNodeMetrics, listed_by
from volcano.scheduler.load.prometheus import Prometheus
from volcano.scheduler.load.values import LoadSource, LoadSourceError, NodeLoad

log = Log("load")

ROUND_TIMEOUT = 60.0
POLL_INTERVAL = 1.0  # seconds between looks at the configuration
SHOWN_NODES = 5
FIRST_VALUES = 60.0  # seconds after which a source should have values of all nodes
UNAVAILABLE = "LoadMetricsUnavailable"  # reason of the event
OnProblem = Callable[[str], Awaitable[None]]


def sources(client: Client, read: ReadNodeMetrics | None = None) -> dict[str, LoadSource]:
    """The sources by type; `read` returns NodeMetrics in another way than by listing them."""
    return {
        METRICS_SERVER: MetricsServer(read or listed_by(client)),
        PROMETHEUS: Prometheus(),
        ADAPTOR: PrometheusAdaptor(client),
        ELASTICSEARCH: Elasticsearch(),
    }


def event_about(client: Client, clock: Clock, component: str, queue: str) -> OnProblem:
    """Records problems as events about the default queue, as there is no object for the scheduler itself."""
    recorder = EventRecorder(component)
    about = {"apiVersion": QUEUE.api_version, "kind": QUEUE.kind, "namespace": "", "name": queue, "uid": ""}

    async def record(problem: str) -> None:
        operation = recorder.record(about, WARNING, UNAVAILABLE, problem, clock.now())
        if operation is not None:
            try:
                await perform(client, operation)
            except ApiError as error:
                log.warning("event about load values not recorded", error=error)

    return record


class LoadCollector:
    """The newest load of each node. `problem` names a source that does not answer or lacks nodes."""

    def __init__(
        self,
        clock: Clock,
        nodes: Callable[[], Mapping[str, Node]],
        sources: Mapping[str, LoadSource],
        on_problem: OnProblem,
    ) -> None:
        self._clock = clock
        self._nodes = nodes
        self._sources = sources
        self._on_problem = on_problem
        self._loads: dict[str, NodeLoad] = {}
        self._settings = LoadSettings()
        self._since = 0.0  # monotonic time of the first round
        self.problem = ""

    def usage(self) -> Mapping[str, Mapping[str, float]]:
        """The load of nodes for a snapshot, in percent, with the time of the measurement."""
        if not self._loads:
            return {}
        return {
            name: {"cpu": load.cpu, "memory": load.memory, "measured": load.measured}
            for name, load in self._loads.items()
        }

    async def run(self, source: ConfigSource) -> None:
        """Collects until cancelled, from the source of the configuration in effect."""
        due = 0.0
        while True:
            settings = source.current.load if source.current is not None else LoadSettings()
            now = self._clock.now().monotonic
            if settings != self._settings:
                self._reset(settings)
                due = now
            if settings.type and now >= due:
                await self.collect(settings)
                due = now + settings.interval
            await self._clock.sleep(min(POLL_INTERVAL, settings.interval))

    def _reset(self, settings: LoadSettings) -> None:
        """Values of another source are not used any more."""
        self._settings = settings
        self._loads = {}
        self._since = self._clock.now().monotonic
        self.problem = ""

    async def collect(self, settings: LoadSettings) -> None:
        """One round: replaces the values that the source has."""
        nodes = self._nodes()
        try:
            async with asyncio.timeout(ROUND_TIMEOUT):
                found = await self._sources[settings.type].fetch(settings, nodes, self._clock.now().wall)
        except TimeoutError:
            await self._report(f"{settings.source} did not answer within {ROUND_TIMEOUT:.0f} seconds")
        except LoadSourceError as error:
            await self._report(f"{settings.source} cannot be read: {error}")
        else:
            self._loads = {name: load for name, load in {**self._loads, **found}.items() if name in nodes}
            await self._report(self._missing(settings))

    def _missing(self, settings: LoadSettings) -> str:
        now, nodes = self._clock.now().wall, self._nodes()
        missing = sorted(name for name in nodes if is_stale(self._loads.get(name), now))
        if not missing or self._clock.now().monotonic - self._since < FIRST_VALUES:
            return ""
        more = f" and {len(missing) - SHOWN_NODES} more" if len(missing) > SHOWN_NODES else ""
        return (
            f"{settings.source} has no values for {len(missing)} of {len(nodes)} nodes: "
            f"{', '.join(missing[:SHOWN_NODES])}{more}"
        )

    async def _report(self, problem: str) -> None:
        if problem == self.problem:
            return
        self.problem = problem
        if problem:
            log.warning("load of nodes not available", reason=problem)
            await self._on_problem(f"{problem}; its last values are used for {STALE_AFTER / 60:.0f} minutes")
        else:
            log.info("load of nodes available again")


def is_stale(load: NodeLoad | None, now: float) -> bool:
    """Whether a value is missing or too old to be used."""
    return load is None or now - load.measured > STALE_AFTER
