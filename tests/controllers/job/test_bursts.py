"""Many jobs at once: their objects are created before their first status is written, and nothing is lost by it."""

from collections.abc import Sequence

import pytest

from tests.controllers.fake_cluster import Crash, FakeCluster
from tests.controllers.job.world import command, controller, job, task
from volcano.kube.api.errors import Forbidden
from volcano.kube.api.kinds import JOB, POD_GROUP
from volcano.kube.client.operations import Create, Patch

NAMES = [f"j{number}" for number in range(20)]


def burst(names: Sequence[str] = NAMES, plugins: dict[str, list[str]] | None = None) -> FakeCluster:
    """Jobs without a status, and a controller that has just listed them."""
    cluster = FakeCluster()
    for name in names:
        cluster.put(JOB, job(name, tasks=[task(replicas=1)], plugins=plugins or {}))
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


@pytest.mark.parametrize(
    ("plugins", "order"),
    [
        pytest.param({}, ["group", "Pending"], id="no plugins"),
        pytest.param({"svc": []}, ["group", "Pending"], id="plugins"),
        pytest.param({"ssh": []}, ["Pending", "group"], id="keys that may have to be waited for"),
    ],
)
def test_the_order_of_writes_does_not_depend_on_how_many_jobs_start(
    plugins: dict[str, list[str]], order: list[str]
) -> None:
    orders = []
    for names in (NAMES[:1], NAMES[:5], NAMES):
        cluster = burst(names, plugins)
        cluster.run()
        orders += [writes_about(cluster, name) for name in names]
    assert orders == [order] * len(orders)


def test_a_job_whose_podgroup_is_rejected_is_reported_as_pending() -> None:
    cluster = burst(NAMES[:1])
    cluster.refuse = lambda operation: Forbidden("not now") if operation.kind is POD_GROUP else None
    cluster.run()
    cluster.advance(0.5)
    assert writes_about(cluster, NAMES[0]) == ["Pending"]
    assert [event["reason"] for event in cluster.events()] == ["PodGroupError"]


def test_a_job_that_runs_before_its_first_status_was_written_is_said_to_run_at_once() -> None:
    cluster = burst()
    for each in cluster.controllers:  # the PodGroups are made, and enqueued before the next reconciliation
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
