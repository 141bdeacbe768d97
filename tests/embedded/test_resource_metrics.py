"""Resource metrics: samples of local nodes, declared usage of simulated pods."""

from collections.abc import Sequence
from typing import Any

import pytest

from volcano.apiserver.endpoints.computed import Usage
from volcano.base.clock import VirtualClock
from volcano.embedded.resource_metrics import ResourceMetrics, declared_usage, parse_usage
from volcano.kube.api.manifest import Manifest
from volcano.nodes.kubelet.machine import HostUsage, read_host_usage
from volcano.nodes.shim.specs import Usage as ContainerUsage

GIB = 1 << 30


def pod(name: str, node: str, phase: str = "Running", **annotations: str) -> Manifest:
    requests = {"cpu": "500m", "memory": "1Gi"}
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", "annotations": annotations},
        "spec": {
            "nodeName": node,
            "containers": [
                {"name": "main", "resources": {"requests": requests}},
                {"name": "other", "resources": {"limits": {"cpu": "1"}}},
            ],
        },
        "status": {"phase": phase},
    }


def node(name: str) -> Manifest:
    return {"metadata": {"name": name}}


class Host:
    """Local nodes whose containers have used this much."""

    def __init__(self, *names: str) -> None:
        self.names = names
        self.used: dict[tuple[str, str], tuple[float, int]] = {}

    def has_node(self, name: str) -> bool:
        return name in self.names

    @property
    def node_count(self) -> int:
        return len(self.names)

    async def usage(self) -> Sequence[ContainerUsage]:
        return [ContainerUsage(*key, *used) for key, used in self.used.items()]


def metrics_of(
    host: Host | None, *pods: Manifest, busy: Any = lambda: None
) -> tuple[ResourceMetrics, VirtualClock]:
    clock = VirtualClock()
    placed = {
        name: [pod for pod in pods if pod["spec"]["nodeName"] == name]
        for name in ("local-0", "local-1", "sim")
    }
    return ResourceMetrics(clock, lambda name: placed.get(name, []), host, busy), clock


def test_a_simulated_pod_uses_what_it_declares_or_requests() -> None:
    assert declared_usage(pod("p", "sim")) == {"main": Usage(0.5, GIB), "other": Usage(1.0, 0)}
    declared = pod("p", "sim", **{"volcano.sh/sim-usage": "cpu=1500m, memory=2Gi"})
    assert declared_usage(declared) == {"main": Usage(1.5, 2 * GIB), "other": Usage(0, 0)}


@pytest.mark.parametrize("text", ["", "cpu", "cpu=a lot", "gpu=1", "1,2"])
def test_a_malformed_declaration_is_ignored(text: str) -> None:
    assert parse_usage(text) is None


def test_a_simulated_node_uses_what_its_running_pods_use() -> None:
    metrics, _ = metrics_of(None, pod("a", "sim"), pod("b", "sim"), pod("done", "sim", "Succeeded"))
    found = metrics.node(node("sim"))
    assert found is not None
    assert found.usage == {"": Usage(3.0, 2 * GIB)}
    assert metrics.pod(pod("done", "sim", "Succeeded")) is None


async def test_the_usage_of_local_pods_is_averaged_between_two_samples() -> None:
    host, local = Host("local-0", "local-1"), pod("a", "local-0")
    metrics, clock = metrics_of(host, local)
    host.used["uid-a", "main"] = (10.0, GIB)
    await metrics.sample(host.usage)
    assert metrics.pod(local) is None, "one sample is no rate"
    assert metrics.node(node("local-0")) is None
    clock.advance(10)
    host.used["uid-a", "main"] = (15.0, 2 * GIB)
    host.used["uid-other", "main"] = (99.0, GIB)
    await metrics.sample(host.usage)
    found = metrics.pod(local)
    assert found is not None
    assert (found.usage, found.window) == ({"main": Usage(0.5, 2 * GIB)}, 10.0)
    on_node, other = metrics.node(node("local-0")), metrics.node(node("local-1"))
    assert on_node is not None
    assert on_node.usage == {"": Usage(0.5, 2 * GIB)}
    assert other is not None
    assert other.usage == {"": Usage(0, 0)}


async def test_a_restarted_container_counts_from_zero() -> None:
    host, local = Host("local-0", "local-1"), pod("a", "local-0")
    metrics, clock = metrics_of(host, local)
    for used in ((100.0, GIB), (2.0, GIB)):
        host.used["uid-a", "main"] = used
        await metrics.sample(host.usage)
        clock.advance(10)
    found = metrics.pod(local)
    assert found is not None
    assert found.usage == {"main": Usage(0.2, GIB)}


async def test_the_only_local_node_uses_what_the_host_uses() -> None:
    busy = iter([HostUsage(50.0, GIB), HostUsage(65.0, 3 * GIB)])
    host = Host("local-0")
    metrics, clock = metrics_of(host, busy=lambda: next(busy))
    await metrics.sample(host.usage)
    clock.advance(10)
    await metrics.sample(host.usage)
    found = metrics.node(node("local-0"))
    assert found is not None
    assert found.usage == {"": Usage(1.5, 3 * GIB)}


def test_the_host_tells_its_usage() -> None:
    first = read_host_usage()
    assert first is not None
    sum(range(2_000_000))
    second = read_host_usage()
    assert second is not None
    assert second.cpu_seconds >= first.cpu_seconds > 0
    assert second.memory > 0
