"""Sources of load values: what they send, and what they make of the answers."""

import json
import time
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from tests.scheduler.load.serving import Answer, LoopbackServer, Received
from volcano.base.clock import SystemClock, timestamp
from volcano.base.http.tls import create_authority, issue, server_context
from volcano.kube.api.manifest import Manifest
from volcano.kube.client.connect import connect
from volcano.kube.client.kubeconfig import ClientConfig
from volcano.model.node import Node
from volcano.scheduler.engine.load_settings import LoadSettings, parse_load_settings
from volcano.scheduler.load.elasticsearch import Elasticsearch
from volcano.scheduler.load.kubernetes import MetricsServer, PrometheusAdaptor
from volcano.scheduler.load.prometheus import Prometheus
from volcano.scheduler.load.values import LoadSourceError, NodeLoad

NOW = 1_800_000_000.0
GIB = float(1 << 30)
CAPACITY = {"cpu": 4000.0, "memory": 8 * GIB}
NODES = {name: Node(name, CAPACITY, CAPACITY) for name in ("n1", "n2", "n3")}


def vector(*rows: tuple[dict[str, str], str]) -> bytes:
    result = [{"metric": labels, "value": [NOW, value]} for labels, value in rows]
    return json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}}).encode()


def prometheus(address: str, **more: Any) -> LoadSettings:
    return parse_load_settings({"type": "prometheus", "address": address, **more})


def two_vectors(cpu: bytes, memory: bytes) -> Any:
    return lambda received: (200, cpu if b"node_cpu" in received.body else memory)


async def test_prometheus_is_asked_once_per_resource_for_all_nodes() -> None:
    rows = [({"instance": name}, "42.5") for name in NODES]
    with LoopbackServer(two_vectors(vector(*rows), vector(*rows))) as server:
        found = await Prometheus().fetch(prometheus(server.url), NODES, NOW)
    assert found == {name: NodeLoad(42.5, 42.5, NOW) for name in NODES}
    assert [(received.method, received.path) for received in server.requests] == [
        ("POST", "/api/v1/query")
    ] * 2
    query = parse_qs(server.requests[0].body.decode())["query"][0]
    assert "sum by (instance, node, kubernetes_node)" in query
    assert "[10m:30s]" in query


@pytest.mark.parametrize(
    "labels",
    [
        pytest.param({"instance": "n1"}, id="instance"),
        pytest.param({"instance": "n1:9100"}, id="instance with port"),
        pytest.param({"instance": "10.0.0.1:9100", "node": "n1"}, id="node"),
        pytest.param({"instance": "10.0.0.1:9100", "kubernetes_node": "n1"}, id="kubernetes_node"),
    ],
)
async def test_nodes_are_found_by_the_usual_labels(labels: dict[str, str]) -> None:
    rows = vector((labels, "50"), ({"instance": "elsewhere"}, "99"), ({}, "1"))
    with LoopbackServer(two_vectors(rows, rows)) as server:
        assert (await Prometheus().fetch(prometheus(server.url), NODES, NOW)).keys() == {"n1"}


async def test_the_label_of_nodes_can_be_configured() -> None:
    rows = vector(({"host": "n2"}, "50"))
    with LoopbackServer(two_vectors(rows, rows)) as server:
        found = await Prometheus().fetch(prometheus(f"{server.url}/prefix/", nodeLabel="host"), NODES, NOW)
        assert found.keys() == {"n2"}
    assert server.requests[0].path == "/prefix/api/v1/query"
    assert "sum by (host)" in parse_qs(server.requests[0].body.decode())["query"][0]


async def test_a_value_that_is_missing_or_no_number_is_not_zero() -> None:
    cpu, memory = (
        vector(({"instance": "n1"}, "10"), ({"instance": "n2"}, "NaN")),
        vector(({"instance": "n2"}, "10")),
    )
    with LoopbackServer(two_vectors(cpu, memory)) as server:
        assert await Prometheus().fetch(prometheus(server.url), NODES, NOW) == {}


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        pytest.param((503, b"starting up"), "it answered 503: starting up", id="status"),
        pytest.param((200, b"<html>"), "did not answer with JSON", id="no JSON"),
        pytest.param((200, b'{"status":"error"}'), "did not answer the query with a vector", id="error"),
    ],
)
async def test_a_source_that_fails_is_an_error(answer: Answer, message: str) -> None:
    with LoopbackServer(lambda _: answer) as server, pytest.raises(LoadSourceError, match=message):
        await Prometheus().fetch(prometheus(server.url), NODES, NOW)
    with pytest.raises(LoadSourceError):
        await Prometheus().fetch(prometheus(server.url), NODES, NOW)  # it is stopped


async def test_tls_and_the_bearer_token(tmp_path: Path) -> None:
    authority = create_authority("test", now=time.time())
    credential = issue(authority, "prometheus", now=time.time(), hosts=["127.0.0.1"], server=True)
    (tmp_path / "ca.crt").write_bytes(authority.cert_pem)
    (tmp_path / "token").write_text("secret\n")
    rows = vector(({"instance": "n1"}, "50"))
    with LoopbackServer(two_vectors(rows, rows), server_context(credential)) as server:
        trusting = prometheus(
            server.url,
            **{"tls.caFile": str(tmp_path / "ca.crt"), "bearerTokenFile": str(tmp_path / "token")},
        )
        assert (await Prometheus().fetch(trusting, NODES, NOW)).keys() == {"n1"}
        assert server.requests[0].headers["authorization"] == "Bearer secret"
        with pytest.raises(LoadSourceError, match=r"(?i)certificate"):
            await Prometheus().fetch(prometheus(server.url), NODES, NOW)
        insecure = prometheus(server.url, **{"tls.insecureSkipVerify": "true", "bearerToken": "other"})
        assert (await Prometheus().fetch(insecure, NODES, NOW)).keys() == {"n1"}
        assert server.requests[-1].headers["authorization"] == "Bearer other"
        missing = prometheus(server.url, **{"tls.caFile": str(tmp_path / "none")})
        with pytest.raises(LoadSourceError, match="none"):
            await Prometheus().fetch(missing, NODES, NOW)


async def test_elasticsearch_is_searched_once_for_all_nodes() -> None:
    def bucket(name: str, cpu: float | None, memory: float | None) -> dict[str, Any]:
        return {"key": name, "cpu": {"value": cpu}, "memory": {"value": memory}}

    buckets = [bucket("n1", 0.25, 0.5), bucket("n2", None, 0.5), bucket("other", 1, 1)]
    answer = json.dumps({"aggregations": {"nodes": {"buckets": buckets}}}).encode()
    with LoopbackServer(lambda _: (200, answer)) as server:
        settings = parse_load_settings(
            {
                "type": "elasticsearch",
                "address": server.url,
                "elasticsearch.username": "u",
                "elasticsearch.password": "p",
            }
        )
        assert await Elasticsearch().fetch(settings, NODES, NOW) == {"n1": NodeLoad(25.0, 50.0, NOW)}
    (received,) = server.requests
    assert received.path == "/metricbeat-*/_search"
    assert received.headers["authorization"] == "Basic dTpw"
    sent = json.loads(received.body)
    assert sent["size"] == 0
    assert sent["query"]["bool"]["filter"][1] == {"terms": {"host.hostname": ["n1", "n2", "n3"]}}
    assert sent["aggs"]["nodes"]["terms"] == {"field": "host.hostname", "size": 3}


async def test_elasticsearch_that_answers_otherwise_is_an_error() -> None:
    with LoopbackServer(lambda _: (200, b'{"hits": {}}')) as server:
        settings = parse_load_settings({"type": "elasticsearch", "address": server.url})
        with pytest.raises(LoadSourceError, match="aggregation by node"):
            await Elasticsearch().fetch(settings, NODES, NOW)


def node_metrics(name: str, cpu: str, memory: str, at: float) -> Manifest:
    return {"metadata": {"name": name}, "timestamp": timestamp(at), "usage": {"cpu": cpu, "memory": memory}}


async def test_values_of_metrics_server_are_averaged_over_ten_minutes() -> None:
    samples: list[Manifest] = []

    async def read() -> list[Manifest]:
        return samples

    source, settings = MetricsServer(read), LoadSettings(type="metrics-server")
    samples[:] = [node_metrics("n1", "1000000000n", "2Gi", NOW), node_metrics("gone", "1", "1Gi", NOW)]
    assert await source.fetch(settings, NODES, NOW) == {"n1": NodeLoad(25.0, 25.0, NOW)}
    assert await source.fetch(settings, NODES, NOW + 30) == {"n1": NodeLoad(25.0, 25.0, NOW)}, (
        "the same sample"
    )
    samples[:] = [node_metrics("n1", "3", "6Gi", NOW + 60)]
    assert await source.fetch(settings, NODES, NOW + 60) == {"n1": NodeLoad(50.0, 50.0, NOW + 60)}
    samples[:] = [node_metrics("n1", "4", "8Gi", NOW + 620)]
    assert await source.fetch(settings, NODES, NOW + 620) == {"n1": NodeLoad(87.5, 87.5, NOW + 620)}
    assert await source.fetch(settings, {}, NOW + 620) == {}, "a node that was deleted is forgotten"


async def test_the_adaptor_has_custom_metrics_of_nodes() -> None:
    def values(part: str) -> bytes:
        item = {"describedObject": {"kind": "Node", "name": "n1"}, "timestamp": timestamp(NOW), "value": part}
        return json.dumps({"kind": "MetricValueList", "items": [item]}).encode()

    def answer(received: Received) -> Answer:
        return 200, values("250m" if received.path.endswith("node_cpu_usage_avg") else "500m")

    with LoopbackServer(answer) as server:
        client = connect(ClientConfig(server.url), SystemClock())
        try:
            found = await PrometheusAdaptor(client).fetch(LoadSettings(type="prometheus_adaptor"), NODES, NOW)
        finally:
            await client.close()
    assert found == {"n1": NodeLoad(25.0, 50.0, NOW)}
    paths = [received.path for received in server.requests]
    assert paths[0] == "/apis/custom.metrics.k8s.io/v1beta1/nodes/%2A/node_cpu_usage_avg"
