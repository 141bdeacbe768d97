"""numa-aware on a real API server: pods get CPUs of one NUMA node, and the topology of a deleted node is deleted."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.conftest import started
from tests.k8s.plain import JOBS, PODS, Object, until
from tests.k8s.programs import ELECTION, Programs, programs_on
from volcano.kube.devices.numa import cpusets
from volcano.kube.devices.numa.topology import NumaTopology, parse
from volcano.scheduler.engine.config import shipped

pytestmark = pytest.mark.k8s

NAMESPACE = "numa"
TOPOLOGIES = "/apis/nodeinfo.volcano.sh/v1alpha1/numatopologies"
SHAPE = "cpu=16,memory=64Gi,numa=2,topology-policy=single-numa-node"


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Programs]:
    for cluster in started(tmp_path_factory, controllers=True):
        with programs_on(cluster, tmp_path_factory) as running:
            running.prepare(NAMESPACE)
            running.start("controllers", *ELECTION)
            running.start("scheduler", *ELECTION, "--scheduler-conf", _configuration(running.directory))
            running.start_webhook()
            running.start("nodes", "--nodes", "2", "--node", SHAPE, "--sim-duration", "forever")
            running.wait_ready(2)
            until(lambda: len(running.api.items(TOPOLOGIES)) == 2, 30.0, running.logs)
            yield running


def _configuration(directory: Path) -> str:
    path = directory / "scheduler.conf"
    path.write_text(
        shipped().replace("  - name: predicates", "  - name: numa-aware\n  - name: predicates", 1)
    )
    return str(path)


def gang(name: str, replicas: int, cpu: int) -> Object:
    limits = {"cpu": str(cpu), "memory": "1Gi"}
    container = {"name": "main", "image": "busybox", "resources": {"limits": limits}}
    task = {
        "name": "worker",
        "replicas": replicas,
        "topologyPolicy": "single-numa-node",
        "template": {"spec": {"containers": [container]}},
    }
    spec = {"schedulerName": "volcano", "minAvailable": replicas, "tasks": [task]}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": spec,
    }


def topologies(programs: Programs) -> dict[str, NumaTopology]:
    return {each["metadata"]["name"]: parse(each) for each in programs.api.items(TOPOLOGIES)}


def running(programs: Programs, job: str) -> list[Object]:
    pods = programs.api.items(PODS.format(NAMESPACE))
    return [
        pod
        for pod in pods
        if pod["metadata"]["labels"]["volcano.sh/job-name"] == job and pod["status"].get("phase") == "Running"
    ]


def test_pods_get_cpus_of_one_numa_node_and_a_gang_waits_for_all_of_them(programs: Programs) -> None:
    programs.api.create(JOBS.format(NAMESPACE), gang("four", 4, 6))
    until(lambda: len(running(programs, "four")) == 4, 60.0, programs.logs)

    def listed() -> bool:
        return sum(len(each.pods) for each in topologies(programs).values()) == 4

    until(listed, 30.0, programs.logs)
    published = topologies(programs)
    for pod in running(programs, "four"):
        topology = published[pod["spec"]["nodeName"]]
        (own,) = [each for each in topology.pods if each.uid == pod["metadata"]["uid"]]
        (number,) = topology.layout.numa_nodes_of(own.all_cpus)
        decided = json.loads(pod["metadata"]["annotations"]["volcano.sh/topology-decision"])
        assert decided == {"numa": {str(number): {"cpu": "6"}}}
    for topology in published.values():
        taken = [each.all_cpus for each in topology.pods]
        assert cpusets.union(taken).bit_count() == sum(each.bit_count() for each in taken) == 12
    # Eight CPUs are free, no more than two in each NUMA node.
    programs.api.create(JOBS.format(NAMESPACE), gang("late", 1, 3))

    def explained() -> bool:
        groups = programs.api.items(f"/apis/scheduling.volcano.sh/v1beta1/namespaces/{NAMESPACE}/podgroups")
        return "container main cannot be assigned by numa" in yaml.safe_dump(groups, width=1000)

    until(explained, 60.0, programs.logs)
    programs.kubectl("delete", "jobs.batch.volcano.sh", "four", "-n", NAMESPACE)
    until(lambda: len(running(programs, "late")) == 1, 60.0, programs.logs)


def test_a_policy_without_effect_is_accepted_with_a_warning(programs: Programs) -> None:
    burstable = gang("burstable", 1, 1)
    container = burstable["spec"]["tasks"][0]["template"]["spec"]["containers"][0]
    container["resources"] = {"requests": {"cpu": "1"}}
    shown = programs.kubectl("create", "-n", NAMESPACE, "-f", "-", stdin=yaml.safe_dump(burstable))
    assert shown.returncode == 0, shown.stderr
    assert "Warning: spec.tasks[0].topologyPolicy: single-numa-node has no effect" in shown.stderr


def test_the_topology_of_a_deleted_node_is_deleted(programs: Programs) -> None:
    programs.kubectl("delete", "node", "node-1")
    until(lambda: set(topologies(programs)) == {"node-0"}, 60.0, programs.logs)
