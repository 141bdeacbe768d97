"""CPUs of this host for pods: every runtime pins them, the node publishes them, and they survive a restart."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.embedded.program import EVERY, Cluster, Volcano, phase, pod_of, skip_unless_possible, until, used
from volcano.kube.api.manifest import Manifest
from volcano.kube.devices.numa import cpusets
from volcano.kube.devices.numa.topology import NumaTopology, parse
from volcano.scheduler.engine.config import shipped

pytestmark = pytest.mark.slow

POLICY = "volcano.sh/numa-topology-policy"
DECISION = "volcano.sh/topology-decision"
SHOW = "import os, time; print(*sorted(os.sched_getaffinity(0)), flush=True); time.sleep(1000)"
FLAGS = ("--cpu-manager-policy", "static", "--topology-manager-policy", "best-effort")


@pytest.fixture(params=EVERY, ids=str)
def volcano(request: pytest.FixtureRequest) -> Iterator[Volcano]:
    with used(skip_unless_possible(request.param)) as program:
        yield program


def pinned(name: str, **fields: Any) -> Manifest:
    limits = {"cpu": "1", "memory": "64Mi"}
    pod = pod_of(
        name,
        "python3",
        "-c",
        SHOW,
        schedulerName="volcano",
        container={"resources": {"limits": limits}},
        **fields,
    )
    pod["metadata"]["annotations"] = {POLICY: "best-effort"}
    return pod


def topology(cluster: Cluster) -> NumaTopology:
    return parse(cluster.ask("GET", "/apis/nodeinfo.volcano.sh/v1alpha1/numatopologies/local-0"))


def published(cluster: Cluster) -> dict[str, list[int]]:
    return {pod.name: list(cpusets.members(pod.all_cpus)) for pod in topology(cluster).pods}


def shown(cluster: Cluster, name: str) -> list[int]:
    until(lambda: cluster.log(name), f"{name} shows its CPUs")
    return [int(cpu) for cpu in cluster.log(name).split()]


def with_numa_aware(directory: Path) -> str:
    text = shipped().replace("  - name: predicates", "  - name: numa-aware\n  - name: predicates", 1)
    assert "numa-aware" in text
    path = directory / "scheduler.conf"
    path.write_text(text)
    return str(path)


def test_a_guaranteed_pod_runs_on_the_cpus_that_its_node_publishes(volcano: Volcano) -> None:
    cluster = Cluster(volcano)
    cluster.up(*FLAGS, "--scheduler-conf", with_numa_aware(volcano.home))
    found = topology(cluster)
    assert (found.cpu_manager, found.policy) == ("static", "best-effort")
    assert set(cpusets.members(found.layout.cpus)) == os.sched_getaffinity(0)
    cluster.create(pinned("first"))
    pod = cluster.until("first", phase("Running"))
    assert '"cpu":"1"' in pod["metadata"]["annotations"][DECISION]
    (cpu,) = shown(cluster, "first")
    until(lambda: published(cluster) == {"first": [cpu]}, "the CPU of the pod is published")
    assert topology(cluster).allocatable == found.layout.cpus & ~(1 << cpu)
    # The pod keeps its CPU while volcano is away, and no other pod gets it afterwards.
    cluster.down("--keep-pods")
    cluster.up(*FLAGS, "--scheduler-conf", with_numa_aware(volcano.home))
    cluster.until("first", phase("Running"))
    until(lambda: published(cluster) == {"first": [cpu]}, "the CPU of the pod is still published")
    cluster.create(pinned("second"))
    if len(os.sched_getaffinity(0)) > 1:
        cluster.until("second", phase("Running"))
        assert cpu not in shown(cluster, "second")
    cluster.ask("DELETE", "/api/v1/namespaces/default/pods/first")
    until(lambda: "first" not in published(cluster), "the CPU is free when the pod has ended")
    cluster.down()
