"""Cluster cache: events in, snapshots out, decisions assumed until they are confirmed."""

from typing import Any

import pytest

from tests.builders import START, JobManifests, job, node, pod, podgroup, priority_class, queue
from tests.scenario import cluster_of, event
from volcano.kube.client.protocol import EventType
from volcano.model.cluster import Cluster
from volcano.model.decisions import Bind, Evict, SetPodGroup
from volcano.model.status import Status


def bind(name: str, to: str = "n1") -> Bind:
    return Bind(f"uid-default-{name}", "default", name, "default/j", to)


def one_pod(**options: Any) -> Cluster:
    member = pod("p", group="j", **options)
    return cluster_of(nodes=[node("n1")], jobs=[JobManifests(podgroup("j"), (member,))])


def status(cluster: Cluster, name: str = "p") -> Status:
    return cluster.snapshot(START).jobs["default/j"].tasks[f"uid-default-{name}"].status


def test_a_pod_before_its_group_and_a_node_after_its_pods() -> None:
    cluster = Cluster()
    for manifest in (pod("p", group="j", node="n1", cpu=2), node("n1"), podgroup("j"), queue("default")):
        cluster.apply(event(manifest, cluster))
    snapshot = cluster.snapshot(START)
    assert snapshot.used[snapshot.row_of["n1"]][0] == 2000
    assert snapshot.jobs["default/j"].allocated[0] == 2000
    assert snapshot.totals["default"].allocated[0] == 2000


def test_an_assumed_binding_holds_against_stale_events_until_it_is_confirmed() -> None:
    cluster = one_pod()
    cluster.assume([bind("p")])
    assert status(cluster) is Status.BINDING
    cluster.apply(event(pod("p", group="j", version=2), cluster, EventType.MODIFIED))
    assert status(cluster) is Status.BINDING
    cluster.apply(
        event(pod("p", group="j", node="n1", phase="Pending", version=3), cluster, EventType.MODIFIED)
    )
    assert status(cluster) is Status.BOUND
    assert cluster.unconfirmed == 0


def test_a_refused_binding_is_rolled_back() -> None:
    cluster = one_pod()
    cluster.assume([bind("p")])
    assert cluster.snapshot(START).used.sum() > 0
    cluster.forget(bind("p"))
    assert status(cluster) is Status.PENDING
    assert cluster.snapshot(START).used.sum() == 0


def test_an_assumed_eviction_releases_until_the_pod_is_gone() -> None:
    cluster = one_pod(node="n1")
    cluster.assume([Evict("uid-default-p", "default", "p", "default/j", "n1", "preempt")])
    snapshot = cluster.snapshot(START)
    assert snapshot.releasing[0][0] == 1000
    cluster.apply(event(pod("p", group="j", node="n1"), cluster, EventType.DELETED))
    assert cluster.snapshot(START).used.sum() == 0


def test_a_namesake_takes_the_place_of_the_pod_before() -> None:
    cluster = one_pod(node="n1")
    fresh = pod("p", group="j", version=9)
    fresh["metadata"]["uid"] = "another"
    cluster.apply(event(fresh, cluster))
    snapshot = cluster.snapshot(START)
    assert list(snapshot.jobs["default/j"].tasks) == ["another"]
    assert snapshot.used.sum() == 0


def test_a_late_event_of_an_older_version_changes_nothing() -> None:
    cluster = one_pod(node="n1", version=5)
    cluster.apply(event(pod("p", group="j", version=4), cluster, EventType.MODIFIED))
    assert status(cluster) is Status.RUNNING


def test_foreign_pods_take_room_but_belong_to_no_job() -> None:
    foreign = pod("x", node="n1", cpu=3, scheduler="other", group="j")
    pods = [foreign, pod("mine", group="j")]
    snapshot = cluster_of(nodes=[node("n1")], pods=pods, podgroups=[podgroup("j")]).snapshot(START)
    assert snapshot.used[0][0] == 3000
    assert [task.name for task in snapshot.jobs["default/j"].tasks.values()] == ["mine"]


def test_foreign_pods_that_wait_are_not_ours() -> None:
    cluster = cluster_of(pods=[pod("x", scheduler="other")])
    assert cluster.snapshot(START).jobs == {}


def test_finished_pods_stay_in_their_job_and_leave_their_node() -> None:
    cluster = one_pod(node="n1", phase="Succeeded")
    snapshot = cluster.snapshot(START)
    assert snapshot.used.sum() == 0
    assert snapshot.jobs["default/j"].count(Status.SUCCEEDED) == 1


def test_a_pod_of_the_default_scheduler_is_a_gang_of_one_when_we_serve_it() -> None:
    lonely = pod("x", scheduler="default-scheduler", priority=5)
    cluster = cluster_of(pods=[lonely], serve_default=True)
    (gang,) = cluster.snapshot(START).jobs.values()
    assert (gang.min_available, gang.queue, gang.phase, gang.priority) == (1, "default", "Inqueue", 5)
    cluster.apply(event(lonely, cluster, EventType.DELETED))
    assert cluster.snapshot(START).jobs == {}


def test_a_job_appears_with_its_queue() -> None:
    cluster = cluster_of(jobs=[job("j", queue="later")])
    assert cluster.snapshot(START).jobs == {}
    cluster.apply(event(queue("later"), cluster))
    assert list(cluster.snapshot(START).jobs) == ["default/j"]


def test_a_priority_class_changes_the_jobs_that_name_it() -> None:
    cluster = cluster_of(jobs=[job("j", priority_class="gold"), job("k")])
    cluster.apply(event(priority_class("gold", 9), cluster))
    cluster.apply(event(priority_class("usual", 3, default=True), cluster))
    priorities = {uid: found.priority for uid, found in cluster.snapshot(START).jobs.items()}
    assert priorities == {"default/j": 9, "default/k": 3}


def test_a_resource_seen_late_widens_what_is_there_and_leaves_old_snapshots_alone() -> None:
    cluster = cluster_of(nodes=[node("n1", cpu=4)], jobs=[job("j", 1, on="n1", phase="Running")])
    before = cluster.snapshot(START)
    cluster.apply(event(node("n2", gpu=8), cluster))
    after = cluster.snapshot(START)
    assert before.used.shape == (1, 3)
    assert after.used.shape == (2, 4)
    assert after.total[3] == 8000
    assert after.jobs["default/j"].allocated.tolist() == [1000, 0, 1, 0]


def test_a_snapshot_names_the_jobs_that_changed_since_the_last() -> None:
    cluster = cluster_of(nodes=[node("n1")], jobs=[job("j"), job("k")])
    assert cluster.snapshot(START).changed == {"default/j", "default/k"}
    assert cluster.snapshot(START).changed == frozenset()
    cluster.assume([SetPodGroup("default/j", "default", "j", phase="Inqueue", counts=(0, 0, 0))])
    assert cluster.snapshot(START).changed == {"default/j"}


def test_only_jobs_with_something_to_decide_are_active() -> None:
    jobs = [job("run", on="n1", phase="Running"), job("wait"), job("new", 0, phase="Pending")]
    assert set(cluster_of(nodes=[node("n1")], jobs=jobs).snapshot(START).active) == {
        "default/wait",
        "default/new",
    }


def test_a_removed_node_takes_its_row_along() -> None:
    cluster = cluster_of(
        nodes=[node("n1", cpu=1), node("n2", cpu=2)], jobs=[job("j", on="n2", phase="Running")]
    )
    cluster.apply(event(node("n1"), cluster, EventType.DELETED))
    snapshot = cluster.snapshot(START)
    assert snapshot.row_of == {"n2": 0}
    assert (snapshot.allocatable[0][0], snapshot.used[0][0]) == (2000, 1000)


def test_a_heartbeat_of_a_node_is_no_reason_for_a_cycle() -> None:
    cluster = cluster_of(nodes=[node("n1")])
    revision = cluster.revision
    beat = node("n1")
    beat["metadata"]["resourceVersion"] = "77"
    cluster.apply(event(beat, cluster, EventType.MODIFIED))
    assert cluster.revision == revision


def test_handshakes_of_device_plugins_and_locks_are_no_reason_for_a_cycle() -> None:
    cluster = cluster_of(nodes=[node("n1")])
    revision = cluster.revision
    for name in (
        "volcano.sh/node-vgpu-handshake",
        "hami.io/node-handshake-Ascend310P",
        "hamivgpu",
        "hami.io/mutex.lock",
    ):
        cluster.apply(event(node("n1", annotations={name: "now"}), cluster, EventType.MODIFIED))
    assert cluster.revision == revision
    cluster.apply(event(node("n1", annotations={"gpu.example/type": "x"}), cluster, EventType.MODIFIED))
    assert cluster.revision == revision + 1


def test_pods_without_a_job_are_counted_as_changes_aside() -> None:
    cluster = cluster_of(nodes=[node("n1", cpu=9)], jobs=[job("j", on="n1", phase="Running")])
    counted = cluster.revision, cluster.jobless_revision
    theirs = pod("theirs", node="n1", scheduler="other")
    for type_ in (EventType.ADDED, EventType.MODIFIED, EventType.DELETED):
        cluster.apply(event(theirs, cluster, type_))
    assert (cluster.revision, cluster.jobless_revision) == (counted[0] + 3, counted[1] + 3)
    cluster.apply(event(pod("j-worker-1", group="j", node="n1"), cluster))
    assert cluster.jobless_revision == counted[1] + 3
    assert cluster.revision == counted[0] + 4


def test_snapshots_cannot_be_changed() -> None:
    snapshot = cluster_of(nodes=[node("n1")]).snapshot(START)
    with pytest.raises(ValueError, match="read-only"):
        snapshot.used[0] += 1
