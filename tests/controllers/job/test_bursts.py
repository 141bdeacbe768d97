"""Many jobs at once: what is made for them goes before what is said about them, and nothing is lost by it."""

import pytest

from tests.controllers.fake_cluster import Crash, FakeCluster
from tests.controllers.job.world import command, controller, job, task
from volcano.controllers.job.controller import BEGIN_AT_ONCE
from volcano.kube.kinds import JOB, POD_GROUP
from volcano.kube.operations import Create, Patch

NAMES = [f"j{number}" for number in range(20)]


def burst() -> FakeCluster:
    """Twenty jobs that nobody has looked at yet, and a controller that has just heard of them."""
    cluster = FakeCluster()
    for name in NAMES:
        cluster.put(JOB, job(name, tasks=[task(replicas=1)]))
    cluster.start(controller())
    return cluster


def writes_about(cluster: FakeCluster, name: str) -> list[str]:
    """What was written about a job: `group` when its PodGroup was made, else the phase it was given."""
    found = []
    for operation in cluster.log:
        if isinstance(operation, Create) and operation.kind is POD_GROUP:
            if operation.manifest["metadata"]["ownerReferences"][0]["name"] == name:
                found.append("group")
        elif isinstance(operation, Patch) and operation.kind is JOB and operation.key.name == name:
            found.append(operation.patch["status"]["state"]["phase"])
    return found


def test_the_first_of_many_jobs_get_their_status_first_and_the_others_their_podgroup() -> None:
    cluster = burst()
    cluster.run()
    begun = [writes_about(cluster, name) for name in NAMES]
    assert begun[:BEGIN_AT_ONCE] == [["Pending", "group"]] * BEGIN_AT_ONCE
    assert begun[BEGIN_AT_ONCE:] == [["group", "Pending"]] * (len(NAMES) - BEGIN_AT_ONCE)


def test_a_job_that_runs_before_its_first_status_was_written_is_said_to_run_at_once() -> None:
    cluster = burst()
    for each in cluster.controllers:  # the PodGroups are made, and let in before anybody looks again
        for work in each.step(cluster.now()):
            each.on_result(cluster._do(work), cluster.now())
    for key in list(cluster.objects[POD_GROUP]):
        cluster.change(POD_GROUP, key, {"status": {"phase": "Inqueue"}})
    cluster._deliver()
    for each in cluster.controllers:
        for work in each.step(cluster.now()):
            each.on_result(cluster._do(work), cluster.now())
    for pod in cluster.pods():
        cluster.set_pod(pod["metadata"]["name"], "Running")
    cluster.settle()
    assert writes_about(cluster, NAMES[-1]) == ["group", "Running"]
    conditions = cluster.job(NAMES[-1])["status"]["conditions"]
    assert [condition["status"] for condition in conditions] == ["Pending", "Running"]
    assert {cluster.phase(name) for name in NAMES} == {"Running"}


@pytest.mark.parametrize("writes", range(0, 100, 7))
def test_a_crash_in_the_midst_of_many_jobs_is_recovered_from(writes: int) -> None:
    cluster = burst()
    cluster.writes_left = writes
    try:
        cluster.settle()
    except Crash:
        cluster.writes_left = None
        cluster.kill()
        cluster.start(controller())
        cluster.settle()
    assert {cluster.phase(name) for name in NAMES} == {"Running"}
    assert cluster.pod_names() == sorted(f"{name}-main-0" for name in NAMES)
    assert all(cluster.job(name)["status"]["running"] == 1 for name in NAMES)


def test_a_job_can_be_aborted_before_anything_was_said_about_it() -> None:
    cluster = burst()
    for each in cluster.controllers:
        for work in each.step(cluster.now()):
            each.on_result(cluster._do(work), cluster.now())
    command(cluster, "AbortJob", name=NAMES[-1])
    cluster.settle()
    assert cluster.phase(NAMES[-1]) == "Aborted"
    assert cluster.group(NAMES[-1]) is None
    assert cluster.pods(NAMES[-1]) == []
