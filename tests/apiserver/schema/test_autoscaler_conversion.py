"""HorizontalPodAutoscalers in autoscaling/v1 and v2 are one object."""

import copy
import json
from typing import Any

import pytest

from tests.apiserver.endpoints.test_computed import TABLE
from tests.apiserver.servers import TestServer
from volcano.apiserver.schema.autoscaler_conversion import from_v2, to_v2
from volcano.kube.api.manifest import Manifest

V1, V2 = (
    f"/apis/autoscaling/{version}/namespaces/default/horizontalpodautoscalers" for version in ("v1", "v2")
)
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
SELECTOR = {"matchLabels": {"a": "b"}}
METRICS: dict[str, Manifest] = {
    "pods": {
        "type": "Pods",
        "pods": {
            "metric": {"name": "requests", "selector": SELECTOR},
            "target": {"type": "AverageValue", "averageValue": "10"},
        },
    },
    "object": {
        "type": "Object",
        "object": {
            "describedObject": {"kind": "Service", "name": "web", "apiVersion": "v1"},
            "metric": {"name": "hits"},
            "target": {"type": "Value", "value": "5k"},
        },
    },
    "external": {
        "type": "External",
        "external": {"metric": {"name": "queue"}, "target": {"type": "Value", "value": "30"}},
    },
    "memory": {
        "type": "Resource",
        "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}},
    },
    "container": {
        "type": "ContainerResource",
        "containerResource": {
            "name": "cpu",
            "container": "main",
            "target": {"type": "Utilization", "averageUtilization": 70},
        },
    },
    "cpu": {
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60}},
    },
}
STATUS = {
    "desiredReplicas": 3,
    "currentReplicas": 2,
    "currentMetrics": [
        {
            "type": "Resource",
            "resource": {"name": "cpu", "current": {"averageUtilization": 42, "averageValue": "420m"}},
        },
        {"type": "Pods", "pods": {"metric": {"name": "requests"}, "current": {"averageValue": "9"}}},
    ],
    "conditions": [{"type": "AbleToScale", "status": "True", "lastTransitionTime": "2027-01-15T08:00:00Z"}],
}
BEHAVIOR = {
    "scaleUp": {
        "stabilizationWindowSeconds": 0,
        "selectPolicy": "Max",
        "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}],
    },
    "scaleDown": {
        "selectPolicy": "Disabled",
        "policies": [{"type": "Percent", "value": 1, "periodSeconds": 9}],
    },
}


def autoscaler(**spec: Any) -> Manifest:
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web", "namespace": "default", "annotations": {"own": "kept"}},
        "spec": {"scaleTargetRef": TARGET, "minReplicas": 1, "maxReplicas": 4, **spec},
        "status": copy.deepcopy(STATUS),
    }


@pytest.mark.parametrize(
    "names", [[name] for name in METRICS] + [list(METRICS)], ids=lambda names: "+".join(names)
)
def test_an_object_survives_the_way_through_v1(names: list[str]) -> None:
    before = autoscaler(metrics=[METRICS[name] for name in names], behavior=BEHAVIOR)
    there = copy.deepcopy(before)
    from_v2(there)
    assert there["apiVersion"] == "autoscaling/v1"
    assert "metrics" not in there["spec"]
    to_v2(there)
    assert there == before


def test_cpu_has_a_field_of_its_own_in_v1() -> None:
    converted = autoscaler(metrics=[METRICS["pods"], METRICS["cpu"]])
    from_v2(converted)
    assert converted["spec"]["targetCPUUtilizationPercentage"] == 60
    assert converted["status"]["currentCPUUtilizationPercentage"] == 42
    kept = converted["metadata"]["annotations"]
    assert json.loads(kept["autoscaling.alpha.kubernetes.io/metrics"]) == [
        {"type": "Pods", "pods": {"metricName": "requests", "targetAverageValue": "10", "selector": SELECTOR}}
    ]
    assert kept["own"] == "kept"


def test_malformed_annotations_are_dropped() -> None:
    before: Manifest = {
        "apiVersion": "autoscaling/v1",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web", "annotations": {"autoscaling.alpha.kubernetes.io/metrics": "{"}},
        "spec": {"scaleTargetRef": TARGET, "maxReplicas": 4},
    }
    to_v2(before)
    assert before["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"] == 80
    assert "annotations" not in before["metadata"]


async def test_both_versions_are_served_and_validated() -> None:
    server = await TestServer().start()
    first = {
        "apiVersion": "autoscaling/v1",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web"},
        "spec": {"scaleTargetRef": TARGET, "maxReplicas": 4, "targetCPUUtilizationPercentage": 55},
    }
    assert (await server.ask("POST", V1, first)).code == 201
    stored = (await server.get(f"{V2}/web")).json
    assert stored["spec"]["metrics"][0]["resource"]["target"] == {
        "type": "Utilization",
        "averageUtilization": 55,
    }
    patch = {"spec": {"behavior": BEHAVIOR, "maxReplicas": 9}}
    patched = await server.ask("PATCH", f"{V2}/web", patch, content_type="application/merge-patch+json")
    assert patched.code == 200
    read = (await server.get(f"{V1}/web")).json
    assert (read["spec"]["maxReplicas"], read["spec"]["targetCPUUtilizationPercentage"]) == (9, 55)
    assert "autoscaling.alpha.kubernetes.io/behavior" in read["metadata"]["annotations"]
    assert [item["kind"] for item in (await server.get(V1)).json["items"]] == ["HorizontalPodAutoscaler"]
    rejected = await server.ask(
        "POST", V1, {**first, "metadata": {"name": "b"}, "spec": {"scaleTargetRef": TARGET}}
    )
    assert (rejected.code, "spec.maxReplicas: Required value" in rejected.message) == (422, True)
    for path in (V1, V2):
        table = (await server.get(path, accept=TABLE)).json
        assert table["rows"][0]["cells"][:6] == ["web", "Deployment/web", "cpu: <unknown>/55%", "1", 9, 0]
