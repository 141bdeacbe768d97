"""FPGAs, RDMA NICs, huge pages and other resources of simulated nodes: scheduled, explained and shown as GPUs are."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.cli.conftest import Embedded, Vcctl, eventually
from volcano.kube.api.kinds import JOB, QUEUE, SERVICE_ACCOUNT
from volcano.kube.api.manifest import Key, Manifest
from volcano.nodes.pools import parse_pool

pytestmark = pytest.mark.slow

# Resource, what a node has, what a pod requests, what no node has, the column in vcctl, what eight pods hold.
RESOURCES = [
    pytest.param("xilinx.com/fpga", "4", "1", "5", "fpga", "8", id="fpga"),
    pytest.param("rdma/hca_shared_devices_a", "4", "1", "5", "hca_shared_devices_a", "8", id="rdma"),
    pytest.param("hugepages-2Mi", "1Gi", "256Mi", "1280Mi", "hugepages-2mi", "2Gi", id="hugepages"),
    pytest.param("example.com/tpu", "4", "1", "5", "tpu", "8", id="other"),
]


@pytest.fixture(scope="module")
def devices(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    """Two nodes for each resource, which have no other."""
    pools = [
        parse_pool(f"cpu=8,memory=32Gi,count=2,name={each.id!s},{each.values[0]}={each.values[1]}")
        for each in RESOURCES
    ]
    cluster = Embedded(tmp_path_factory.mktemp("devices"), pools=pools)
    cluster.until(SERVICE_ACCOUNT, Key("default", "default"), lambda account: True)
    yield cluster
    cluster.close()


def gang(name: str, resource: str, amount: str, replicas: int, queue: str) -> Manifest:
    limits = {"cpu": "100m", "memory": "64Mi", resource: amount}
    container = {"name": "c", "image": "i", "command": ["sleep", "600"], "resources": {"limits": limits}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    tasks = [{"name": "w", "replicas": replicas, "template": template}]
    spec: dict[str, Any] = {
        "schedulerName": "volcano",
        "queue": queue,
        "minAvailable": replicas,
        "tasks": tasks,
    }
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


@pytest.mark.parametrize(("resource", "has", "amount", "too_much", "column", "held"), RESOURCES)
def test_a_resource_is_scheduled_explained_and_shown(
    devices: Embedded,
    run_command: Vcctl,
    monkeypatch: pytest.MonkeyPatch,
    resource: str,
    has: str,
    amount: str,
    too_much: str,
    column: str,
    held: str,
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(devices.cluster.kubeconfig))
    short = column.replace("_", "-")[:12]
    queue, large, full, late = (f"{part}-{short}" for part in ("q", "large", "full", "late"))
    devices.create(QUEUE, {"metadata": {"name": queue}, "spec": {"weight": 1}})
    devices.create(JOB, gang(large, resource, too_much, 1, queue))
    reason = f"Insufficient {resource}"
    assert eventually(lambda: reason in run_command("job", "describe", large).out)
    assert eventually(lambda: reason in run_command("job", "view", "-N", large).out)
    devices.delete(JOB, Key("default", large))
    devices.create(JOB, gang(full, resource, amount, 8, queue))
    devices.until(JOB, Key("default", full), lambda job: job.get("status", {}).get("running") == 8)
    devices.until(
        QUEUE, Key("", queue), lambda found: found["status"].get("allocated", {}).get(resource) == held
    )
    for words in (("queue", "tree"), ("top",)):
        shown = run_command(*words)
        assert column in shown.out.lower(), shown.out
        assert held in next(line for line in shown.lines if queue in line), shown.out
    devices.create(JOB, gang(late, resource, amount, 1, queue))
    assert eventually(lambda: f"insufficient {resource}" in run_command("job", "describe", late).out)
    devices.delete(JOB, Key("default", full))
    devices.until(JOB, Key("default", late), lambda job: job.get("status", {}).get("running") == 1)
