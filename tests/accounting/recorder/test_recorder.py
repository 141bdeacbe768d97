"""The recorder: one open row when a kubelet accepts a pod, and its end when the pod finished or was deleted."""

from typing import Any

import pytest

from tests.accounting.recorder.pods import (
    CREATED,
    LATER,
    STARTED,
    added,
    deleted,
    disrupted,
    modified,
    pod,
    terminated,
)
from volcano.accounting.api import Outcome, Progress, Run
from volcano.accounting.recorder.gap import Deleted, Missed
from volcano.accounting.recorder.recorder import STEP_SECONDS, Recorder
from volcano.base.clock import Instant, timestamp
from volcano.kube.api.kinds import JOB, POD, POD_GROUP, RESOURCE_CLAIM, RESOURCE_SLICE
from volcano.kube.api.manifest import Manifest
from volcano.kube.client.protocol import Event

NOW = Instant(LATER, 0.0)


def recorded(*events: Event, recorder: Recorder | None = None) -> list[Run]:
    """What is to be written after some events."""
    recorder = recorder or Recorder()
    for event in events:
        recorder.on_event(event)
    recorder.step(NOW)
    return list(recorder.take(NOW).runs)


def test_a_pod_that_no_kubelet_has_accepted_is_no_run() -> None:
    assert recorded(added(pod(phase="Pending")), deleted(pod(phase="Pending"))) == []


def test_a_run_says_whose_it_is_and_what_it_occupies() -> None:
    (run,) = recorded(added(pod(annotations={"volcano.sh/user": "jane"})))
    work = run.workload
    assert (work.namespace, work.job, work.job_uid, work.task) == ("team", "train", "job-1", "worker")
    assert (work.queue, work.user, run.node) == ("research", "jane", "n1")
    assert work.requests == {"cpu": 2.0, "memory": float(2**30)}
    assert (run.created, run.started, run.ended, run.waiting) == (CREATED, STARTED, None, 30.0)
    assert run.outcome is Outcome.RUNNING


def test_queue_and_user_are_those_of_the_pod_group() -> None:
    metadata = {"name": "train-x", "namespace": "team", "annotations": {"volcano.sh/user": "bob"}}
    group = {"metadata": metadata, "spec": {"queue": "moved"}}
    (run,) = recorded(added(group, POD_GROUP), added(pod()))
    assert (run.workload.queue, run.workload.user) == ("moved", "bob")


def test_pods_of_a_task_share_their_workload() -> None:
    one, other = recorded(added(pod("a")), added(pod("b")))
    assert one.workload is other.workload


@pytest.mark.parametrize(
    ("state", "outcome", "reason", "ended"),
    [
        pytest.param(
            {"phase": "Succeeded", "status": terminated(60)}, "Completed", "", STARTED + 60, id="done"
        ),
        pytest.param(
            {"phase": "Failed", "status": terminated(9, 3)},
            "Failed",
            "Error (exit code 3)",
            STARTED + 9,
            id="failed",
        ),
        pytest.param(
            {"phase": "Failed", "status": {**terminated(9, 137), "reason": "Evicted"}},
            "Evicted",
            "Evicted",
            STARTED + 9,
            id="evicted by the kubelet",
        ),
        pytest.param(
            {"phase": "Failed", "status": disrupted("DeletionByPodGC")},
            "NodeLost",
            "DeletionByPodGC",
            LATER,
            id="its node is gone",
        ),
        pytest.param(
            {"phase": "Succeeded", "status": {**terminated(7), **disrupted("PreemptionByScheduler")}},
            "Completed",
            "",
            STARTED + 7,
            id="finished before the eviction took effect",
        ),
    ],
)
def test_how_a_pod_finished(state: dict[str, Any], outcome: str, reason: str, ended: float) -> None:
    (run,) = recorded(added(pod()), modified(pod(**state)))
    assert (run.outcome, run.reason, run.ended) == (outcome, reason, ended)
    assert run.evictions == (outcome in ("Evicted", "NodeLost"))


@pytest.mark.parametrize(
    ("last", "outcome"),
    [
        pytest.param({}, "Deleted", id="deleted"),
        pytest.param({"status": disrupted("PreemptionByScheduler")}, "Evicted", id="preempted"),
        pytest.param({"status": disrupted("EvictionByEvictionAPI")}, "Evicted", id="evicted through the API"),
        pytest.param(
            {"status": disrupted("DeletionByTaintManager", "taint node.kubernetes.io/unreachable")},
            "NodeLost",
            id="its node does not answer",
        ),
        pytest.param(
            {"status": disrupted("DeletionByTaintManager", "taint maintenance")},
            "Evicted",
            id="another taint",
        ),
    ],
)
def test_how_a_running_pod_was_deleted(last: Manifest, outcome: str) -> None:
    (run,) = recorded(added(pod()), deleted(pod(**last)))
    assert (run.outcome, run.ended) == (outcome, LATER)


def test_a_finished_pod_that_is_deleted_later_keeps_its_end() -> None:
    recorder = Recorder()
    done = pod(phase="Succeeded", status=terminated(60))
    (first,) = recorded(added(pod()), modified(done), recorder=recorder)
    assert recorded(deleted(done), recorder=recorder) == [first]
    assert recorder.pods == set()


def test_a_pod_that_is_first_seen_after_its_end_is_one_complete_run() -> None:
    (run,) = recorded(added(pod(phase="Succeeded", status=terminated(60))))
    assert (run.started, run.ended) == (STARTED, STARTED + 60)


def test_rows_are_taken_again_until_they_are_confirmed() -> None:
    recorder = Recorder()
    recorded(added(pod()), recorder=recorder)
    batch = recorder.take(NOW)
    assert recorder.take(NOW) == batch
    recorded(modified(pod(phase="Succeeded", status=terminated(60))), recorder=recorder)
    recorder.confirm(batch)  # what was written meanwhile is not the end
    (run,) = recorder.take(NOW).runs
    assert run.ended == STARTED + 60
    recorder.confirm(recorder.take(NOW))
    assert recorder.pending == 0


def test_only_a_batch_with_all_rows_says_up_to_where_it_is_complete() -> None:
    recorder = Recorder(versions=lambda: {"pods": 7})
    recorded(*(added(pod(f"u{number}")) for number in range(5)), recorder=recorder)
    part = recorder.take(NOW, limit=3)
    assert (len(part.runs), part.progress) == (3, None)
    recorder.confirm(part)
    rest = recorder.take(NOW, limit=3)
    assert (len(rest.runs), rest.progress) == (2, Progress(LATER, {"pods": 7}))


def test_runs_start_at_once_and_ends_within_a_second_are_looked_at_together() -> None:
    recorder = Recorder()
    recorder.on_event(added(pod("a")))
    due = recorder.next_due()
    assert due is not None, "queues and nodes may not be known before the first step"
    assert due <= NOW.monotonic
    recorder.step(NOW)
    assert (recorder.pending, recorder.next_due()) == (1, None)
    recorder.on_event(added(pod("b")))
    assert (recorder.pending, recorder.next_due()) == (2, None)
    soon, later = Instant(LATER, STEP_SECONDS / 2), Instant(LATER, STEP_SECONDS)
    recorder.confirm(recorder.take(NOW))
    recorder.on_event(modified(pod("b", phase="Succeeded", status=terminated(60))))
    assert recorder.next_due() == later.monotonic
    recorder.step(soon)
    assert recorder.pending == 0
    recorder.step(later)
    assert (recorder.pending, recorder.next_due()) == (1, None)


def test_a_malformed_pod_does_not_hide_the_others_of_its_batch() -> None:
    recorder = Recorder()
    with pytest.raises(KeyError):
        recorder.on_events([added({"metadata": {}}), added(pod())])
    recorder.step(NOW)
    assert [run.uid for run in recorder.take(NOW).runs] == ["u1"]


def test_a_batch_has_all_changes_up_to_its_time() -> None:
    recorder = Recorder()
    recorder.on_event(added(pod("a")))
    recorder.step(NOW)
    recorder.on_event(modified(pod("a", phase="Succeeded", status=terminated(60))))
    (run,) = recorder.take(Instant(LATER, STEP_SECONDS / 2)).runs
    assert run.ended == STARTED + 60


def test_a_pod_that_is_not_accepted_yet_requires_no_step() -> None:
    recorder = Recorder()
    recorder.on_event(added(pod(phase="Pending")))
    assert recorder.next_due() is None
    assert len(recorder.pods) == 1


def test_only_changes_that_start_or_end_a_run_require_a_step() -> None:
    recorder = Recorder()
    recorded(added(pod()), recorder=recorder)
    recorder.on_event(modified(pod(annotations={"other": "value"})))
    assert recorder.next_due() is None, "it goes on"
    done = pod(phase="Succeeded", status=terminated(60))
    recorded(modified(done), recorder=recorder)
    recorder.on_event(modified(done))
    recorder.on_event(deleted(done))
    assert recorder.next_due() is None, "its run has ended before"
    assert recorder.pods == set()


def test_a_job_is_recorded_when_it_appears_finishes_and_is_deleted() -> None:
    recorder = Recorder()

    def job(phase: str) -> Manifest:
        metadata = {"name": "train", "namespace": "team", "uid": "j", "creationTimestamp": timestamp(CREATED)}
        state = {"phase": phase, "lastTransitionTime": timestamp(STARTED)}
        tasks = [{"name": "worker", "replicas": 3}]
        return {"metadata": metadata, "spec": {"tasks": tasks, "minAvailable": 2}, "status": {"state": state}}

    def record(event: Event) -> Any:
        recorder.on_event(event)
        recorder.step(NOW)
        batch = recorder.take(NOW)
        recorder.confirm(batch)
        return batch.jobs[0] if batch.jobs else None

    assert record(added(job("Pending"), JOB)).phase == "Pending"
    assert record(modified(job("Running"), JOB)) is None
    done = record(modified(job("Completed"), JOB))
    assert (done.phase, done.finished, done.tasks, done.min_available) == (
        "Completed",
        STARTED,
        {"worker": 3},
        2,
    )
    assert record(deleted(job("Completed"), JOB)).deleted == LATER


WITH_CLAIM = pod(resourceClaims=[{"name": "gpu", "resourceClaimName": "mine"}])


def gpu_of_a_claim() -> list[Event]:
    """A claim that a GPU is allocated to, and the slice with the GPU."""
    device = {"name": "gpu-0", "attributes": {"type": {"string": "gpu"}, "productName": {"string": "H100"}}}
    slice_ = {
        "metadata": {"name": "s"},
        "spec": {"driver": "gpu.example.com", "pool": {"name": "n1"}, "devices": [device]},
    }
    results = [{"driver": "gpu.example.com", "pool": "n1", "device": "gpu-0", "request": "gpu"}]
    claim = {
        "metadata": {"name": "mine", "namespace": "team"},
        "status": {"allocation": {"devices": {"results": results}}, "reservedFor": [{"uid": "u1"}]},
    }
    return [added(slice_, RESOURCE_SLICE), added(claim, RESOURCE_CLAIM)]


def test_the_gpus_of_claims_are_known_once_the_claim_is() -> None:
    recorder = Recorder()
    assert recorded(added(WITH_CLAIM), recorder=recorder) == []
    kinds = {watch.kind for watch in recorder.watches}
    assert {RESOURCE_CLAIM, RESOURCE_SLICE} <= kinds
    (run,) = recorded(*gpu_of_a_claim(), recorder=recorder)
    assert (run.workload.gpu_type, run.workload.gpus) == ("H100", 1.0)


def test_the_gpus_of_claims_that_were_deleted_unseen_with_their_pods_are_known() -> None:
    missed = Missed([Deleted(POD, WITH_CLAIM, LATER)], gpu_of_a_claim())
    (run,) = Recorder().missed(missed, NOW).runs
    assert (run.workload.gpu_type, run.workload.gpus) == ("H100", 1.0)


def test_a_run_does_not_wait_for_its_claims_forever() -> None:
    recorder = Recorder()
    recorded(added(pod(resourceClaims=[{"name": "gpu", "resourceClaimName": "mine"}])), recorder=recorder)
    assert len(recorder.take(Instant(LATER + 31, 31.0)).runs) == 1


def test_a_pod_that_ended_and_was_deleted_unseen_is_recorded_as_its_last_status_says() -> None:
    gone = pod(phase="Succeeded", status=terminated(60))
    (run,) = Recorder().missed(Missed([Deleted(POD, gone, LATER)]), NOW).runs
    assert (run.started, run.ended) == (STARTED, STARTED + 60)
    assert (run.outcome, run.estimated) == (Outcome.COMPLETED, False)


def test_a_pod_that_was_deleted_unseen_while_it_ran_ends_when_it_was_deleted_or_last_known() -> None:
    (run,) = Recorder().missed(Missed([Deleted(POD, pod(), STARTED + 5)]), NOW).runs
    assert (run.ended, run.outcome, run.estimated) == (STARTED + 5, Outcome.DELETED, True)
    (run,) = Recorder().missed(Missed([Deleted(POD, pod(), STARTED + 9, is_exact=True)]), NOW).runs
    assert (run.ended, run.outcome, run.estimated) == (STARTED + 9, Outcome.DELETED, False)


def test_a_pod_that_was_deleted_unseen_before_it_started_is_not_recorded() -> None:
    assert Recorder().missed(Missed([Deleted(POD, pod(phase="Pending"), LATER)]), NOW).runs == []


def test_a_pod_that_exists_was_not_deleted_while_nothing_was_recorded() -> None:
    recorder = Recorder()
    recorder.on_event(added(pod()))
    assert recorder.missed(Missed([Deleted(POD, pod(), LATER)]), NOW).runs == []


def test_the_queue_of_a_pod_is_that_of_its_group_which_was_deleted_unseen_too() -> None:
    group = {"metadata": {"name": "train-x", "namespace": "team", "uid": "g"}, "spec": {"queue": "moved"}}
    batch = Recorder().missed(Missed([Deleted(POD, pod(), LATER), Deleted(POD_GROUP, group, LATER)]), NOW)
    assert batch.runs[0].workload.queue == "moved"
