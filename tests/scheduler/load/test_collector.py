"""The collector: values age when their source fails, and the failure is reported."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from tests.builders import job, node
from tests.scenario import config
from tests.scheduler.load.serving import LoopbackServer
from tests.scheduler.load.test_sources import two_vectors, vector
from tests.scheduler.test_loop import bench
from volcano.base.clock import VirtualClock
from volcano.kube.api import kinds
from volcano.model.node import Node
from volcano.scheduler.config_source import ConfigSource
from volcano.scheduler.engine.config import ConfigError, parse
from volcano.scheduler.engine.load_settings import LoadSettings
from volcano.scheduler.health import WARNINGS
from volcano.scheduler.load.collector import LoadCollector
from volcano.scheduler.load.values import LoadSourceError, NodeLoad

NODES = {name: Node(name, {}) for name in ("n1", "n2")}
SETTINGS = LoadSettings(type="prometheus", address="http://127.0.0.1:1", interval=30.0)


class Source:
    """Returns the load that the test sets, or fails."""

    def __init__(self) -> None:
        self.loads: dict[str, NodeLoad] = {}
        self.error = ""

    async def fetch(
        self, settings: LoadSettings, nodes: Mapping[str, Node], now: float
    ) -> Mapping[str, NodeLoad]:
        if self.error:
            raise LoadSourceError(self.error)
        return self.loads


class Collecting:
    """A collector, its source and what it reported."""

    def __init__(self) -> None:
        self.clock, self.source, self.reported = VirtualClock(), Source(), list[str]()

        async def on_problem(problem: str) -> None:
            self.reported.append(problem)

        self.collector = LoadCollector(self.clock, lambda: NODES, {"prometheus": self.source}, on_problem)

    async def round(self) -> None:
        await self.collector.collect(SETTINGS)


async def test_a_failing_source_leaves_the_last_values_and_is_reported_once() -> None:
    made = Collecting()
    measured = made.clock.now().wall
    made.source.loads = {name: NodeLoad(40.0, 30.0, measured) for name in NODES}
    await made.round()
    assert made.collector.problem == ""
    made.source.error = "connection refused"
    for _ in range(3):
        made.clock.advance(30)
        await made.round()
    assert made.collector.usage()["n1"] == {"cpu": 40.0, "memory": 30.0, "measured": measured}
    assert made.collector.problem == "prometheus http://127.0.0.1:1 cannot be read: connection refused"
    assert made.reported == [f"{made.collector.problem}; its last values are used for 5 minutes"]
    made.source.error = ""
    await made.round()
    assert made.collector.problem == ""


async def test_nodes_without_values_are_named() -> None:
    made = Collecting()
    made.source.loads = {"n1": NodeLoad(40.0, 30.0, made.clock.now().wall)}
    await made.round()
    assert made.collector.problem == "", "a source needs a while for its first values"
    made.clock.advance(61)
    await made.round()
    assert made.collector.problem == "prometheus http://127.0.0.1:1 has no values for 1 of 2 nodes: n2"
    made.clock.advance(300)
    await made.round()
    assert "2 of 2 nodes: n1, n2" in made.collector.problem, "n1 was measured too long ago"


async def test_values_of_deleted_nodes_are_dropped() -> None:
    made = Collecting()
    made.source.loads = {name: NodeLoad(1, 1, 0) for name in ("n1", "deleted")}
    await made.round()
    assert made.collector.usage().keys() == {"n1"}


def conf(address: str, kind: str = "prometheus") -> str:
    document = yaml.safe_load(config(["gang", "predicates", "usage"]).text)
    return yaml.safe_dump({**document, "metrics": {"type": kind, "address": address, "interval": "1s"}})


async def test_the_scheduler_uses_measured_loads_and_outlives_its_source() -> None:
    cpu = vector(({"instance": "hot"}, "95"), ({"instance": "cool"}, "5"))
    memory = vector(({"instance": "hot"}, "10"), ({"instance": "cool"}, "10"))
    with LoopbackServer(two_vectors(cpu, memory)) as server:
        async with bench(conf(server.url)) as b:
            b.clock.advance(1_800_000_000.0 - b.clock.now().wall)  # the time of the vectors
            await b.add(node("hot", cpu=100), node("cool", cpu=100))

            async def measured() -> bool:
                return len(b.scheduler.inputs.load.usage()) == 2

            await b.until(measured)
            await b.add(job("j", 8, phase="Inqueue"))

            async def bound() -> bool:
                return set(await b.nodes_of(*(f"j-worker-{i}" for i in range(8)))) == {"cool"}

            await b.until(bound)
            server.__exit__()

            async def reported() -> bool:
                return "cannot be read" in WARNINGS["metrics"](b.scheduler)

            await b.until(reported)

            async def recorded() -> bool:
                events = (await b.client.list(kinds.EVENT)).items
                return any(event["reason"] == "LoadMetricsUnavailable" for event in events)

            await b.until(recorded)
            events = (await b.client.list(kinds.EVENT)).items
            (event,) = [each for each in events if each["reason"] == "LoadMetricsUnavailable"]
            assert f"prometheus {server.url} cannot be read" in event["message"]
            assert event["involvedObject"]["kind"] == "Queue"


@pytest.mark.parametrize(
    ("metrics", "line", "message"),
    [
        ({"type": "influx"}, 2, "metrics-server, prometheus, prometheus_adaptor or elasticsearch"),
        ({"type": "prometheus"}, 2, "metrics of type prometheus need an address"),
        ({"type": "prometheus", "address": "prometheus:9090"}, 2, "http://prometheus.monitoring:9090"),
        ({"type": "metrics-server", "interval": "often"}, 2, "a duration such as 30s"),
        ({"type": "metrics-server", "interval": 30}, 2, "must be a text"),
        ({"tls.insecureSkipVerify": "perhaps"}, 2, "true or false"),
    ],
)
def test_wrong_settings_are_rejected_with_their_line(
    metrics: dict[str, object], line: int, message: str
) -> None:
    text = f"metrics:\n{yaml.safe_dump(metrics, sort_keys=False)}".replace("\n", "\n  ").rstrip() + "\n"
    with pytest.raises(ConfigError, match=message) as caught:
        parse(f"{text}actions: allocate\n", "test.conf")
    assert any(error.line >= line and message in str(error) for error in caught.value.all)


def test_unknown_settings_are_warnings() -> None:
    parsed = parse('actions: allocate\nmetrics: {type: metrics-server, adress: "http://a"}\n')
    assert "metrics has no argument 'adress'" in parsed.warnings[0]


async def test_another_source_starts_without_the_values_of_the_last(tmp_path: Path) -> None:
    made = Collecting()
    made.source.loads = {"n1": NodeLoad(1, 1, 0)}
    await made.round()
    source = ConfigSource("actions: allocate\n")
    made.collector._reset(source.current.load if source.current else SETTINGS)
    assert made.collector.usage() == {}
    assert json.dumps(made.reported) == "[]"
