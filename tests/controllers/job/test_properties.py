"""What holds whatever happens: convergence, idempotence, indifference to order, and recovery from any crash."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.controllers.fake_cluster import Crash, FakeCluster
from tests.controllers.job.world import command, controller, job, policy, task
from volcano.kube.api.kinds import JOB, POD, POD_GROUP
from volcano.kube.api.manifest import Key, Manifest
from volcano.kube.client.operations import Create
from volcano.kube.client.protocol import Event, EventType

QUICK = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])

events = st.sampled_from(["PodFailed", "PodEvicted", "TaskCompleted", "Unknown", "*"])
actions = st.sampled_from(
    ["RestartJob", "RestartTask", "RestartPod", "RestartPartition", "AbortJob", "TerminateJob", "CompleteJob"]
)
policies = st.lists(st.builds(policy, events, actions), max_size=2, unique_by=lambda p: p["event"])
plugins: st.SearchStrategy[dict[str, list[str]]] = st.sampled_from([{}, {"svc": []}, {"ssh": [], "env": []}])


@st.composite
def jobs(compile_job: st.DrawFn) -> Manifest:
    """Jobs of one or two tasks with policies and plugins."""
    tasks = []
    for name in compile_job(st.sampled_from([("a",), ("a", "b")])):
        replicas = compile_job(st.integers(1, 3))
        partitions = {"totalPartitions": replicas, "partitionSize": 1} if compile_job(st.booleans()) else None
        fields: Any = {"partitionPolicy": partitions} if partitions else {}
        tasks.append(task(name, replicas, policies=compile_job(policies), **fields))
    return job(
        tasks=tasks,
        policies=compile_job(policies),
        plugins=compile_job(plugins),
        maxRetry=compile_job(st.integers(1, 4)),
    )


# What may befall a job: each a step in a cluster, drawn by number where it needs to choose a pod.
steps = st.lists(
    st.tuples(
        st.sampled_from(
            ["admit", "start", "reap", "fail", "succeed", "evict", "unknown", "abort", "resume", "restart"]
        ),
        st.integers(0, 5),
    ),
    max_size=8,
)


def take(cluster: FakeCluster, step: tuple[str, int]) -> None:
    """One thing happens; what cannot happen now does not."""
    what, number = step
    pods = [p for p in cluster.pods() if "deletionTimestamp" not in p["metadata"]]
    chosen = pods[number % len(pods)]["metadata"]["name"] if pods else ""
    simple: dict[str, Callable[[], None]] = {
        "admit": cluster.admit,
        "start": cluster.start_pods,
        "reap": cluster.reap,
        "abort": lambda: command(cluster, "AbortJob"),
        "resume": lambda: command(cluster, "ResumeJob"),
        "restart": lambda: command(cluster, "RestartJob"),
    }
    if what in simple:
        simple[what]()
    elif what == "unknown":
        if cluster.group("j") is not None:
            cluster.set_group("j", "Unknown")
    elif chosen and what == "evict":
        cluster.evict(chosen)
    elif chosen and what in ("fail", "succeed"):
        state = cluster.get(POD, Key("default", chosen))["status"]["phase"]
        if state == "Running":
            cluster.finish(
                chosen, phase="Failed" if what == "fail" else "Succeeded", exit_code=int(what == "fail")
            )


def check(cluster: FakeCluster) -> None:
    """What must be true of a job at rest."""
    manifest = cluster.job("j")
    phase, status = cluster.phase("j"), manifest["status"]
    wanted = {f"j-{t['name']}-{i}" for t in manifest["spec"]["tasks"] for i in range(t["replicas"])}
    pods = {pod["metadata"]["name"]: pod for pod in cluster.pods()}
    states = [pod["status"]["phase"] for pod in pods.values()]
    assert set(pods) <= wanted
    assert status.get("retryCount", 0) <= manifest["spec"]["maxRetry"]
    if phase in ("Pending", "Running"):
        assert set(pods) == wanted
        assert cluster.group("j") is not None
        for name in ("Running", "Pending", "Succeeded", "Failed"):
            assert status.get(name.lower(), 0) == states.count(name)
    else:
        assert phase in ("Completed", "Failed", "Aborted", "Terminated")
        assert set(states) <= {"Succeeded", "Failed"}
        assert cluster.group("j") is None
        assert status.get("succeeded", 0) >= states.count("Succeeded")
    assert status.get("terminating", 0) == 0
    assert "restart" not in status.get("controlledResources", {})


def settled(cluster: FakeCluster) -> None:
    """Scheduler, kubelet and controller run until the job is at rest."""
    for _ in range(4):
        cluster.settle()
        cluster.advance(40)


@QUICK
@given(jobs(), steps)
def test_a_job_comes_to_rest_and_then_nothing_more_is_written(
    manifest: Manifest, happenings: list[tuple[str, int]]
) -> None:
    cluster = FakeCluster()
    cluster.start(controller())
    cluster.put(JOB, manifest)
    cluster.run()
    for step in happenings:
        take(cluster, step)
    settled(cluster)
    check(cluster)
    written = len(cluster.log)
    cluster.kill()
    cluster.start(controller())
    cluster.run()
    assert cluster.log[written:] == []


@QUICK
@given(jobs(), steps, st.integers(0, 40))
def test_a_crash_after_any_single_write_is_recovered_from(
    manifest: Manifest, happenings: list[tuple[str, int]], writes: int
) -> None:
    cluster = FakeCluster()
    cluster.start(controller())
    cluster.put(JOB, manifest)
    cluster.writes_left = writes
    for step in [("admit", 0), ("start", 0), *happenings]:
        try:
            take(cluster, step)
        except Crash:
            cluster.writes_left = None
            cluster.kill()
            cluster.start(controller())
            cluster.run()
    cluster.writes_left = None
    settled(cluster)
    check(cluster)
    made = [
        operation.key
        for operation in cluster.log
        if isinstance(operation, Create) and operation.kind == POD_GROUP
    ]
    assert len(set(made)) <= 1


def after(
    manifest: Manifest, happenings: list[tuple[str, int]], *, crash_at: int | None
) -> tuple[object, ...]:
    """How a job stands after it all, with or without a crash at some write."""
    cluster = FakeCluster(graceful=False)
    cluster.start(controller())
    cluster.put(JOB, manifest)
    cluster.run()
    cluster.settle()
    for step in happenings:
        cluster.writes_left = crash_at
        try:
            take(cluster, step)
            cluster.settle()
        except Crash:
            cluster.writes_left = None
            cluster.kill()
            cluster.start(controller())
            cluster.settle()
        cluster.writes_left = None
        cluster.settle()
    status = cluster.job("j")["status"]
    return cluster.phase("j"), status.get("retryCount", 0), status.get("version", 0), cluster.pod_names()


# What the API server shows for as long as it takes, or shows by what is missing, so that a crash cannot hide it.
lasting = st.lists(
    st.tuples(
        st.sampled_from(["fail", "succeed", "unknown", "abort", "resume", "restart"]), st.integers(0, 5)
    ),
    min_size=1,
    max_size=5,
)


@pytest.mark.slow
@pytest.mark.timeout(600)
@settings(QUICK, max_examples=1000)
@given(jobs(), lasting, st.integers(0, 8))
def test_no_crash_in_many_lives_changes_the_end_or_what_it_cost(
    manifest: Manifest, happenings: list[tuple[str, int]], crash_at: int
) -> None:
    # Of several pods that have all succeeded, none says that it was the one that completed its task.
    assume(("TaskCompleted", "RestartPod") not in pairs(manifest))
    assert after(manifest, happenings, crash_at=crash_at) == after(manifest, happenings, crash_at=None)


def pairs(manifest: Manifest) -> set[tuple[str, str]]:
    """What every policy of a job does upon what."""
    spec = manifest["spec"]
    policies = [*spec["policies"], *(policy for task in spec["tasks"] for policy in task["policies"])]
    return {(event, policy["action"]) for policy in policies for event in _events(policy)}


def _events(policy: Manifest) -> list[str]:
    return [policy["event"]] if "event" in policy else list(policy.get("events") or ())


@settings(QUICK, max_examples=60)
@given(jobs(), lasting, st.integers(0, 6))
def test_a_crash_changes_neither_the_end_nor_what_it_cost(
    manifest: Manifest, happenings: list[tuple[str, int]], crash_at: int
) -> None:
    assume(("TaskCompleted", "RestartPod") not in pairs(manifest))  # as above
    assert after(manifest, happenings, crash_at=crash_at) == after(manifest, happenings, crash_at=None)


@QUICK
@given(jobs(), steps, st.randoms(use_true_random=False))
def test_the_order_and_repetition_of_events_do_not_matter(
    manifest: Manifest, happenings: list[tuple[str, int]], random: object
) -> None:
    """Kinds are watched apart, so events of different objects may overtake each other, and a list repeats them."""

    def shuffled(pending: list[Event]) -> list[Event]:
        by_object: dict[object, list[Event]] = {}
        for event in pending:
            by_object.setdefault((event.kind, Key("", event.object["metadata"]["uid"])), []).append(event)
        queues = list(by_object.values())
        out: list[Event] = []
        while queues:
            queue = random.choice(queues)  # type: ignore[attr-defined]
            event = queue.pop(0)
            out.append(event)
            if event.type is not EventType.DELETED and random.random() < 0.3:  # type: ignore[attr-defined]
                out.append(copy.deepcopy(event))
            if not queue:
                queues.remove(queue)
        return out

    cluster = FakeCluster()
    cluster.shuffle = shuffled
    cluster.start(controller())
    cluster.put(JOB, manifest)
    cluster.run()
    for step in happenings:
        take(cluster, step)
    settled(cluster)
    check(cluster)
