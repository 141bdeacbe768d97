"""What a pod asks for, and which pods are alike."""

from typing import Any

import orjson
import pytest

from tests.builders import pod
from volcano.model.parse import Parser
from volcano.model.task import HostPort, Task

GI = 1024**3


def task(**options: Any) -> Task:
    return Parser().pod(orjson.dumps(pod("p", **options)))


def container(**requests: str) -> dict[str, Any]:
    return {"name": "c", "resources": {"requests": requests}}


def asked(spec: dict[str, Any]) -> dict[str, float]:
    parser = Parser()
    found = parser.pod(orjson.dumps(pod("p", spec=spec)))
    return parser.shapes.index.amounts(found.request)


ALWAYS = {"restartPolicy": "Always"}


@pytest.mark.parametrize(
    ("spec", "cpu"),
    [
        pytest.param(
            {"containers": [container(cpu="1"), container(cpu="500m")]}, 1500, id="containers add up"
        ),
        pytest.param(
            {"containers": [container(cpu="1")], "initContainers": [container(cpu="3")]},
            3000,
            id="an init container that asks for more counts",
        ),
        pytest.param(
            {"containers": [container(cpu="1")], "initContainers": [container(cpu="500m")]},
            1000,
            id="one that asks for less does not",
        ),
        pytest.param(
            {"containers": [container(cpu="1")], "initContainers": [{**container(cpu="2"), **ALWAYS}]},
            3000,
            id="a sidecar runs beside the containers",
        ),
        pytest.param(
            {
                "containers": [container(cpu="1")],
                "initContainers": [{**container(cpu="2"), **ALWAYS}, container(cpu="5")],
            },
            7000,
            id="an init container runs beside the sidecars before it",
        ),
        pytest.param(
            {"containers": [container(cpu="1")], "overhead": {"cpu": "250m"}}, 1250, id="overhead is added"
        ),
        pytest.param(
            {"containers": [container(cpu="1")], "resources": {"requests": {"cpu": "4"}}},
            4000,
            id="what the pod asks for as a whole overrules",
        ),
        pytest.param(
            {"containers": [{"name": "c", "resources": {"limits": {"cpu": "2"}}}]},
            2000,
            id="a limit stands in",
        ),
    ],
)
def test_what_a_pod_asks_for(spec: dict[str, Any], cpu: float) -> None:
    assert asked(spec) == {"cpu": cpu, "pods": 1}


def test_amounts_are_in_the_references_units() -> None:
    found = asked(
        {"containers": [container(cpu="1", memory="1Gi", **{"nvidia.com/gpu": "2", "count/x": "3"})]}
    )
    assert found == {"cpu": 1000, "memory": GI, "pods": 1, "nvidia.com/gpu": 2000}


def test_a_resized_container_counts_with_what_it_was_given() -> None:
    statuses = [{"name": "c", "allocatedResources": {"cpu": "3"}}]
    parser = Parser()
    found = parser.pod(
        orjson.dumps(
            pod("p", spec={"containers": [container(cpu="1")]}, status={"containerStatuses": statuses})
        )
    )
    assert parser.shapes.index.amounts(found.request)["cpu"] == 3000


def test_a_pod_without_requests_is_best_effort_and_counts_with_a_floor_when_scored() -> None:
    found = task(cpu=None)
    assert found.best_effort
    assert found.shape.nonzero_request.tolist() == [100, 200 * 1024 * 1024]


def test_pods_that_differ_only_in_name_labels_and_environment_share_a_shape() -> None:
    parser = Parser()
    shapes = set()
    for i in range(3):
        manifest = pod(f"p-{i}", labels={"index": str(i)})
        manifest["spec"]["containers"][0]["env"] = [{"name": "INDEX", "value": str(i)}]
        shapes.add(parser.pod(orjson.dumps(manifest)).shape)
    assert len(shapes) == 1


def test_ports_of_the_host_are_found() -> None:
    ports = [{"containerPort": 80, "hostPort": 8080}, {"containerPort": 81}]
    found = task(spec={"containers": [{"name": "c", "ports": ports}]})
    assert found.shape.constraints.host_ports == (HostPort("TCP", 8080, ""),)


def test_claims_are_found_ephemeral_ones_under_their_pods_name() -> None:
    volumes = [
        {"name": "data", "persistentVolumeClaim": {"claimName": "mine"}},
        {"name": "scratch", "ephemeral": {}},
        {"name": "config", "configMap": {"name": "x"}},
    ]
    assert task(spec={"volumes": volumes}).shape.constraints.claims == ("mine", "p-scratch")


def test_volumes_that_matter_nowhere_tell_no_pods_apart_whatever_their_names_are() -> None:
    parser = Parser()
    names = ("kube-api-access-abcde", "ephemeral-looking", "rbd")
    shapes = {
        parser.pod(orjson.dumps(pod("p", spec={"volumes": [{"name": name, "emptyDir": {}}]}))).shape
        for name in names
    }
    assert len(shapes) == 1


def test_volumes_that_may_conflict_are_found() -> None:
    disk = {"name": "disk", "gcePersistentDisk": {"pdName": "one"}}
    assert task(spec={"volumes": [disk]}).shape.constraints.volumes == (disk,)


def vgpus(node: str = "", assigned: str = "", **limits: str) -> dict[str, float]:
    """What a pod with one container counts of vGPUs, in whole units."""
    parser = Parser()
    amounts = {f"volcano.sh/vgpu-{name.replace('_', '-')}": amount for name, amount in limits.items()}
    spec = {"containers": [{"name": "c", "resources": {"limits": amounts}}]}
    annotations = {"volcano.sh/vgpu-ids-new": assigned} if assigned else {}
    found = parser.pod(orjson.dumps(pod("p", spec=spec, node=node, annotations=annotations)))
    names = parser.shapes.index.amounts(found.request).items()
    return {name.removeprefix("volcano.sh/vgpu-"): amount / 1000 for name, amount in names if "vgpu" in name}


def test_memory_and_cores_of_shared_cards_are_those_of_all_cards() -> None:
    assert vgpus(number="2", memory="4000", cores="50") == {"number": 2, "memory": 8000, "cores": 100}
    assert vgpus(memory="4000") == {"number": 1, "memory": 4000}


def test_a_percentage_of_a_card_is_not_counted_before_the_card_is_known() -> None:
    assert vgpus(number="1", memory_percentage="50") == {"number": 1}
    bound = vgpus("n1", "GPU-a,NVIDIA,8000,10:", number="1", memory_percentage="50")
    assert bound == {"number": 1, "memory": 8000, "cores": 10}


def test_an_assignment_counts_once_the_pod_is_bound() -> None:
    assert vgpus("", "GPU-a,NVIDIA,1,0:", memory="4000") == {"number": 1, "memory": 4000}
    assert vgpus("n1", "GPU-a[g-0],NVIDIA,5120,0:", memory="4000") == {"number": 1, "memory": 5120}
    assert vgpus("n1", "malformed", memory="4000") == {"number": 1, "memory": 4000}


def test_annotations_that_choose_devices_make_other_shapes() -> None:
    parser = Parser()

    def shape(**annotations: str) -> object:
        notes = {f"nvidia.com/{name.replace('_', '-')}": text for name, text in annotations.items()}
        return parser.pod(orjson.dumps(pod("p", annotations=notes))).shape

    assert shape() is shape(unrelated="x")
    assert shape(use_gputype="A100") is shape(use_gputype="A100")
    assert shape(use_gputype="A100") is not shape(use_gputype="H100")
