"""Pods that have a job as owner but belong to none of its tasks are ignored."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.controllers.fake_cluster import FakeCluster
from tests.controllers.job.world import command, job, submit, task, world
from volcano.controllers.job.phases import next_phase
from volcano.controllers.job.spec import parse_job
from volcano.controllers.job.status import Counts, Status
from volcano.controllers.job.types import Phase
from volcano.kube.api.kinds import JOB, POD
from volcano.kube.api.manifest import Manifest
from volcano.kube.api.names import JOB_NAME, JOB_VERSION, TASK_INDEX, TASK_SPEC
from volcano.kube.client.operations import Patch


def put_pod(cluster: FakeCluster, owner: Manifest, name: str, phase: str, **annotations: str) -> None:
    reference = {
        "apiVersion": JOB.api_version,
        "kind": JOB.kind,
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }
    metadata = {
        "name": name,
        "labels": {JOB_NAME: owner["metadata"]["name"]},
        "annotations": annotations,
        "ownerReferences": [reference],
    }
    cluster.put(POD, {"metadata": metadata, "spec": {"containers": [{"name": "main"}]}})
    cluster.set_pod(name, phase)


def status_writes(cluster: FakeCluster, since: int) -> list[Patch]:
    return [op for op in cluster.log[since:] if isinstance(op, Patch) and op.kind is JOB]


@pytest.mark.parametrize(
    ("name", "annotations"),
    [
        pytest.param("by-hand", {}, id="no annotations"),
        pytest.param("by-hand", {TASK_SPEC: "main", JOB_VERSION: "0"}, id="not a name of the task"),
        pytest.param("j-main-copy", {TASK_SPEC: "main", JOB_VERSION: "0", TASK_INDEX: "0"}, id="a copy"),
        pytest.param("j-other-0", {TASK_SPEC: "other", JOB_VERSION: "0", TASK_INDEX: "0"}, id="no such task"),
    ],
)
def test_a_pod_of_no_task_is_neither_counted_nor_makes_the_job_flip(
    name: str, annotations: dict[str, str]
) -> None:
    cluster = world()
    owner = submit(cluster, job(tasks=[task(replicas=2, minAvailable=1)], minAvailable=1))
    cluster.admit()
    cluster.run()
    assert cluster.pod_names() == ["j-main-0", "j-main-1"]
    since = len(cluster.log)
    put_pod(cluster, owner, name, "Running", **annotations)
    cluster.run()
    cluster.advance(30)
    assert cluster.phase("j") == "Pending"
    counts = cluster.job("j")["status"]
    assert (counts.get("pending"), counts.get("running")) == (2, None)
    assert len(status_writes(cluster, since)) <= 1
    assert cluster.find(POD, name) is not None


def test_suspending_a_job_leaves_a_pod_of_no_task_alone_and_ends() -> None:
    cluster = world()
    owner = submit(cluster, job())
    cluster.settle()
    put_pod(cluster, owner, "by-hand", "Running")
    command(cluster, "AbortJob")
    cluster.settle()
    assert cluster.phase("j") == "Aborted"
    assert cluster.pod_names() == ["by-hand"]


@given(
    minimum=st.integers(0, 6),
    phases=st.lists(
        st.sampled_from(["Pending", "Running", "Succeeded", "Failed", "Unknown", "Terminating"]), max_size=6
    ),
)
def test_with_the_same_pods_a_job_does_not_alternate_between_phases(minimum: int, phases: list[str]) -> None:
    replicas = 6
    manifest: Any = job(tasks=[task(replicas=replicas, minAvailable=0)], minAvailable=minimum)
    spec = parse_job(manifest, scheduler_name="volcano")
    total = {phase: phases.count(phase) for phase in set(phases)}
    counts = Counts(total, {"main": {name: n for name, n in total.items() if name != "Terminating"}})
    seen = [Phase.PENDING]
    for _ in range(4):
        seen.append(next_phase(spec, Status(phase=seen[-1], counts=counts, min_available=minimum)))
    assert seen[-1] is seen[-2]
