"""Resource metrics of the cluster: cgroups and processes of local nodes, declared usage of simulated pods."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from volcano.apiserver.endpoints.computed import Measurement, Usage
from volcano.base.clock import Clock, Instant
from volcano.base.log import Log
from volcano.kube.api import quantity
from volcano.kube.api.manifest import Manifest, annotations_of, uid_of
from volcano.kube.api.names import SIM_USAGE
from volcano.nodes.kubelet.machine import HostUsage, read_host_usage
from volcano.nodes.shim.specs import Failure
from volcano.nodes.shim.specs import Usage as ContainerUsage

log = Log("metrics")

INTERVAL = 15.0  # seconds between samples, as metrics-server by default


class NodesOfHost(Protocol):
    """The nodes of this host."""

    def has_node(self, name: str) -> bool: ...

    @property
    def node_count(self) -> int: ...

    async def usage(self) -> Sequence[ContainerUsage]: ...


class Sample(NamedTuple):
    """Cumulative usage of the containers (by pod uid and name) and of the host at one time."""

    at: Instant
    containers: Mapping[tuple[str, str], ContainerUsage]
    host: HostUsage | None


class ResourceMetrics:
    """Samples local nodes while it runs; everything else is computed on request."""

    def __init__(
        self,
        clock: Clock,
        pods_on_node: Callable[[str], Iterable[Manifest]],
        nodes: NodesOfHost | None = None,
        read_host: Callable[[], HostUsage | None] = read_host_usage,
    ) -> None:
        self._clock = clock
        self._pods_on_node = pods_on_node
        self._nodes = nodes
        self._read_host = read_host
        self._earlier: Sample | None = None
        self._later: Sample | None = None

    async def run(self) -> None:
        """Takes samples until cancelled; the first two in quick succession, so that there are metrics soon."""
        if self._nodes is None:
            return
        while True:
            try:
                await self.sample(self._nodes.usage)
            except (Failure, OSError) as error:
                log.warning("usage of local nodes cannot be measured", error=error)
            await self._clock.sleep(INTERVAL if self._earlier is not None else 1.0)

    async def sample(self, read: Callable[[], Awaitable[Sequence[ContainerUsage]]]) -> None:
        containers = {(usage.pod, usage.name): usage for usage in await read()}
        sample = Sample(self._clock.now(), containers, self._read_host())
        self._earlier, self._later = self._later, sample

    # -- MetricsSource -----------------------------------------------------------------------------

    def node(self, node: Manifest) -> Measurement | None:
        name = node["metadata"]["name"]
        local = self._nodes is not None and self._nodes.has_node(name)
        if local and self._nodes is not None and self._nodes.node_count == 1:
            return self._host()
        measured = [found for pod in self._pods_on_node(name) if (found := self.pod(pod)) is not None]
        usages = [usage for each in measured for usage in each.usage.values()]
        total = Usage(sum(usage.cpu for usage in usages), sum(usage.memory for usage in usages))
        if local:
            return None if self._window <= 0 else self._measurement({"": total})
        return self._now({"": total})

    def pod(self, pod: Manifest) -> Measurement | None:
        if (pod.get("status") or {}).get("phase") != "Running":
            return None
        if self._nodes is not None and self._nodes.has_node(pod["spec"].get("nodeName") or ""):
            return self._measured(pod)
        return self._now(declared_usage(pod))

    def _measured(self, pod: Manifest) -> Measurement | None:
        """The measured usage of a pod on a local node; containers need two samples."""
        earlier, later, uid = self._earlier, self._later, uid_of(pod)
        if earlier is None or later is None or self._window <= 0:
            return None
        found: dict[str, Usage] = {}
        for (owner, name), usage in later.containers.items():
            before = earlier.containers.get((owner, name))
            if owner != uid:
                continue
            # A container that was restarted counts from zero again.
            started = 0.0 if before is None or before.cpu_seconds > usage.cpu_seconds else before.cpu_seconds
            found[name] = Usage((usage.cpu_seconds - started) / self._window, usage.memory_bytes)
        return self._measurement(found) if found else None

    def _host(self) -> Measurement | None:
        earlier, later = self._earlier, self._later
        if (
            earlier is None
            or later is None
            or earlier.host is None
            or later.host is None
            or self._window <= 0
        ):
            return None
        cpu = max(later.host.cpu_seconds - earlier.host.cpu_seconds, 0.0) / self._window
        return self._measurement({"": Usage(cpu, later.host.memory)})

    @property
    def _window(self) -> float:
        """Seconds between the last two samples; 0 before there are two."""
        if self._earlier is None or self._later is None:
            return 0.0
        return self._later.at.monotonic - self._earlier.at.monotonic

    def _measurement(self, usage: Mapping[str, Usage]) -> Measurement:
        assert self._later is not None
        return Measurement(usage, self._later.at.wall, self._window)

    def _now(self, usage: Mapping[str, Usage]) -> Measurement:
        return Measurement(usage, self._clock.now().wall, INTERVAL)


def declared_usage(pod: Manifest) -> dict[str, Usage]:
    """The usage of a simulated pod, by container: that of its annotation, or its requests."""
    containers = pod["spec"].get("containers") or ()
    declared = parse_usage(annotations_of(pod).get(SIM_USAGE, ""))
    found = {}
    for index, container in enumerate(containers):
        resources = container.get("resources") or {}
        requests = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
        cpu, memory = quantity.milli(requests.get("cpu", 0)) / 1000, quantity.units(requests.get("memory", 0))
        if declared is not None:
            cpu, memory = (declared.cpu, declared.memory) if index == 0 else (0.0, 0.0)
        found[container["name"]] = Usage(cpu, memory)
    return found


def parse_usage(text: str) -> Usage | None:
    """Parses `cpu=500m,memory=1Gi`; None for an empty or malformed text."""
    try:
        parts = dict(part.strip().split("=", 1) for part in text.split(",") if part.strip())
        if not parts or not parts.keys() <= {"cpu", "memory"}:
            return None
        return Usage(quantity.milli(parts.get("cpu", "0")) / 1000, quantity.units(parts.get("memory", "0")))
    except ValueError:
        return None
