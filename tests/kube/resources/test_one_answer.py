"""All parts of the system count the same requests for a pod."""

from typing import Any

import msgspec
import pytest

from volcano.kube.api.manifest import Manifest
from volcano.kube.resources.pod_requests import requests_and_limits, requests_of
from volcano.model.api_types import ApiPod
from volcano.model.pod_shape import ShapeCache
from volcano.nodes.kubelet.pods.pod_resources import totals
from volcano.views.board import slim
from volcano.views.pods import pod_requests


def container(requests: Manifest | None = None, limits: Manifest | None = None, **fields: Any) -> Manifest:
    return {
        "name": "c",
        "image": "i",
        "resources": {"requests": requests or {}, "limits": limits or {}},
        **fields,
    }


def scheduled(pod: Manifest) -> dict[str, float]:
    cache = ShapeCache()
    shape = cache.of(msgspec.json.decode(msgspec.json.encode(pod), type=ApiPod))
    found = cache.index.amounts(shape.request)
    found.pop("pods")
    return {name: amount if name == "memory" else amount / 1000 for name, amount in found.items()}


def admitted(pod: Manifest) -> dict[str, float]:
    return {n: v / 1000 if n == "cpu" else v for n, v in totals(pod["spec"], "requests").items()}


ANSWERS = {
    "scheduler": scheduled,
    "quota": lambda pod: {n: float(v) for n, v in requests_and_limits(pod["spec"])[0].items()},
    "accounting": lambda pod: requests_of(pod["spec"]),
    "kubelet": admitted,
    "views": pod_requests,
}
GI = 2.0**30
SPECS = {
    "containers together": (
        {"containers": [container({"cpu": "1", "memory": "1Gi"}), container({"cpu": "500m"})]},
        {"cpu": 1.5, "memory": GI},
    ),
    "a large init container": (
        {"containers": [container({"cpu": "1"})], "initContainers": [container({"cpu": "3"})]},
        {"cpu": 3.0},
    ),
    "limits without requests": ({"containers": [container(limits={"cpu": "2"})]}, {"cpu": 2.0}),
    "a sidecar": (
        {
            "containers": [container({"cpu": "1"})],
            "initContainers": [container({"cpu": "250m"}, restartPolicy="Always")],
        },
        {"cpu": 1.25},
    ),
    "a sidecar beside a later init container": (
        {
            "containers": [container({"cpu": "1"})],
            "initContainers": [
                container({"cpu": "250m"}, restartPolicy="Always"),
                container({"cpu": "4"}),
            ],
        },
        {"cpu": 4.25},
    ),
    "overhead": (
        {"containers": [container({"cpu": "1"})], "overhead": {"cpu": "100m", "memory": "1Gi"}},
        {"cpu": 1.1, "memory": GI},
    ),
    "requests of the pod as a whole": (
        {
            "containers": [container({"cpu": "1", "nvidia.com/gpu": "1"})],
            "resources": {"requests": {"cpu": "3"}},
            "overhead": {"cpu": "1"},
        },
        {"cpu": 4.0, "nvidia.com/gpu": 1.0},
    ),
}


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("case", SPECS)
def test_every_part_counts_the_same_requests(case: str, answer: str) -> None:
    spec, requests = SPECS[case]
    pod = {"metadata": {"name": "p", "namespace": "team"}, "spec": spec}
    assert ANSWERS[answer](pod) == pytest.approx(requests)


CARDS = {
    "volcano.sh/vgpu-number": "2",
    "volcano.sh/vgpu-memory": "1000",
    "volcano.sh/vgpu-memory-percentage": "50",
}
RESIZED = {"containerStatuses": [{"name": "c", "allocatedResources": {"cpu": "3"}}]}


@pytest.mark.parametrize(
    ("limits", "status", "requests"),
    [
        pytest.param(
            CARDS,
            {},
            {"volcano.sh/vgpu-number": 2.0, "volcano.sh/vgpu-memory": 2000.0},
            id="memory of all shared cards",
        ),
        pytest.param({"cpu": "1"}, RESIZED, {"cpu": 3.0}, id="a container that was given more"),
    ],
)
def test_commands_and_the_dashboard_count_what_the_scheduler_counts(
    limits: Manifest, status: Manifest, requests: dict[str, float]
) -> None:
    pod = {
        "metadata": {"name": "p", "namespace": "team"},
        "spec": {"containers": [container(limits=limits)]},
        "status": status,
    }
    assert pod_requests(pod) == scheduled(pod) == requests


@pytest.mark.parametrize("case", SPECS)
def test_watched_pods_keep_the_fields_that_their_requests_come_from(case: str) -> None:
    spec, requests = SPECS[case]
    pod = slim(msgspec.json.encode({"metadata": {"name": "p", "namespace": "team"}, "spec": spec}))
    assert pod_requests(pod) == pytest.approx(requests)
