"""batch/v1 Jobs: what ends them, what is counted, and which pods are created again."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cluster import SmallCluster
from tests.controllers.kubernetes.test_jobs import job
from volcano.controllers.indexes import format_indexes, parse_indexes
from volcano.controllers.kubernetes.job.controller import BatchJobController
from volcano.kube.api.kinds import BATCH_JOB, EVENT, NAMESPACE, POD
from volcano.kube.api.manifest import Key, Manifest, condition_of
from volcano.kube.client.protocol import Options

FINALIZER = "batch.kubernetes.io/job-tracking"
INDEX = "batch.kubernetes.io/job-completion-index"
FAILURES = "batch.kubernetes.io/job-index-failure-count"


async def end(cluster: SmallCluster, pod: str, phase: str = "Failed", code: int = 1, **status: Any) -> None:
    """A pod ends, as its kubelet reports it."""
    terminated = {"exitCode": code, "finishedAt": cluster.clock.now().timestamp()}
    containers = [{"name": "main", "state": {"terminated": terminated}, "ready": False}]
    await cluster.patch(
        POD, pod, {"status": {"phase": phase, "containerStatuses": containers, **status}}, "status"
    )


async def active(cluster: SmallCluster) -> dict[str, str]:
    """The names of pods that have not ended, by completion index (or name)."""
    return {
        pod["metadata"].get("annotations", {}).get(INDEX, pod["metadata"]["name"]): pod["metadata"]["name"]
        for pod in await cluster.all(POD)
        if pod["status"]["phase"] in ("Pending", "Running") and not pod["metadata"].get("deletionTimestamp")
    }


async def status_of(cluster: SmallCluster, name: str = "j") -> Manifest:
    status: Manifest = (await cluster.get(BATCH_JOB, name))["status"]
    return status


async def reasons(cluster: SmallCluster) -> dict[str, str]:
    """The reasons of a job's true conditions."""
    conditions = (await status_of(cluster)).get("conditions") or ()
    return {each["type"]: each["reason"] for each in conditions if each["status"] == "True"}


def indexed(completions: int = 3, **fields: Any) -> Manifest:
    return job(completions=completions, parallelism=completions, completionMode="Indexed", **fields)


@pytest.fixture
async def small() -> Any:
    async with SmallCluster(BatchJobController()) as cluster:
        yield cluster


# --- the tracking finalizer


@pytest.mark.parametrize("propagation", ["Background", "Foreground", "Orphan"])
async def test_a_deleted_job_leaves_no_pod_that_cannot_be_deleted(
    small: SmallCluster, propagation: str
) -> None:
    await small.create(BATCH_JOB, "j", spec=job(parallelism=2))
    assert all(pod["metadata"]["finalizers"] == [FINALIZER] for pod in await small.all(POD))
    await small.client.delete(BATCH_JOB, Key("default", "j"), options=Options(propagation=propagation))
    await small.rest()
    for pod in await small.all(POD):  # their kubelet ends them
        assert not pod["metadata"].get("finalizers")
        await small.delete(POD, pod["metadata"]["name"], grace=0)
    assert await small.names(POD) == []
    assert await small.names(BATCH_JOB) == []


async def test_pods_of_a_job_deleted_while_no_controller_ran_are_released() -> None:
    async with SmallCluster() as cluster:
        first = cluster.start(BatchJobController())
        await cluster.rest()
        await cluster.create(BATCH_JOB, "j", spec=job())
        first.cancel()
        await cluster.client.delete(BATCH_JOB, Key("default", "j"), options=Options(propagation="Background"))
        await cluster.create(BATCH_JOB, "j", spec=job(suspend=True))  # another one of that name
        cluster.start(BatchJobController())
        await cluster.rest()
        assert not any(pod["metadata"].get("finalizers") for pod in await cluster.all(POD))


async def test_a_namespace_with_a_job_can_be_deleted(small: SmallCluster) -> None:
    await small.create(NAMESPACE, "n")
    await small.create(BATCH_JOB, "j", namespace="n", spec=job(parallelism=2))
    await small.delete(NAMESPACE, "n")
    for pod in await small.all(POD):
        await small.delete(POD, pod["metadata"]["name"], namespace="n", grace=0)
    await small.pass_time(10)
    assert "n" not in await small.names(NAMESPACE)


async def test_a_pod_is_counted_once_whatever_happens_between_two_writes(small: SmallCluster) -> None:
    await small.create(BATCH_JOB, "j", spec=job(parallelism=2, completions=4))
    for name in (await active(small)).values():
        await end(small, name, "Succeeded", 0)
        await small.delete(POD, name, grace=0)
    await small.pass_time(2)
    status = await status_of(small)
    assert (status["succeeded"], status["active"], status["uncountedTerminatedPods"]) == (2, 2, {})


# --- suspension, deadline, deletion


async def test_suspending_deletes_the_pods_without_counting_them_and_resets_the_start(
    small: SmallCluster,
) -> None:
    await small.create(BATCH_JOB, "j", spec=job(parallelism=2, activeDeadlineSeconds=100))
    await small.pass_time(60)
    started = (await status_of(small))["startTime"]
    await small.patch(BATCH_JOB, "j", {"spec": {"suspend": True}})
    await small.pass_time(2)
    status = await status_of(small)
    assert await active(small) == {}
    assert "startTime" not in status
    assert status.get("failed", 0) == status.get("active", 0) == 0
    assert await reasons(small) == {"Suspended": "JobSuspended"}
    await small.pass_time(200, step=20)
    await small.patch(BATCH_JOB, "j", {"spec": {"suspend": False}})
    await small.pass_time(2)
    status = await status_of(small)
    assert status["startTime"] > started
    assert status["active"] == 2
    assert condition_of({"status": status}, "Suspended")["status"] == "False"  # type: ignore[index]
    events = {event["reason"] for event in await small.all(EVENT)}
    assert {"Suspended", "Resumed", "SuccessfulCreate", "SuccessfulDelete"} <= events


async def test_a_job_of_another_controller_is_left_alone(small: SmallCluster) -> None:
    await small.create(BATCH_JOB, "j", spec=job(managedBy="example.com/queue"))
    assert await small.names(POD) == []
    assert not (await small.get(BATCH_JOB, "j")).get("status")


async def test_a_failed_job_waits_for_its_terminating_pods(small: SmallCluster) -> None:
    await small.create(BATCH_JOB, "j", spec=job(parallelism=2, backoffLimit=0))
    first, second = (await active(small)).values()
    for name in (first, second):
        await small.patch(POD, name, {"metadata": {"finalizers": [FINALIZER, "example.com/slow"]}})
    await end(small, first)
    await small.pass_time(2)
    assert await reasons(small) == {"FailureTarget": "BackoffLimitExceeded"}
    assert (await status_of(small))["terminating"] == 1
    for name in (first, second):
        await small.patch(POD, name, {"metadata": {"finalizers": None}})
    await small.delete(POD, second, grace=0)
    await small.pass_time(2)
    assert await reasons(small) == {
        "FailureTarget": "BackoffLimitExceeded",
        "Failed": "BackoffLimitExceeded",
    }
    status = await status_of(small)
    assert (status["failed"], status["terminating"], status.get("active", 0)) == (2, 0, 0)


async def test_containers_that_restart_in_place_reach_the_limit(small: SmallCluster) -> None:
    spec = job(backoffLimit=3)
    spec["template"]["spec"]["restartPolicy"] = "OnFailure"
    await small.create(BATCH_JOB, "j", spec=spec)
    (name,) = (await active(small)).values()
    for restarts, is_over in ((2, False), (3, True)):
        containers = [{"name": "main", "restartCount": restarts}]
        await small.patch(
            POD, name, {"status": {"phase": "Running", "containerStatuses": containers}}, "status"
        )
        assert ("FailureTarget" in await reasons(small)) == is_over


async def test_back_off_doubles_with_consecutive_failures_and_a_success_resets_it(
    small: SmallCluster,
) -> None:
    await small.create(BATCH_JOB, "j", spec=job(completions=3))
    for pause in (10, 20):
        (name,) = (await active(small)).values()
        await end(small, name)
        await small.pass_time(pause - 2)
        assert await active(small) == {}
        await small.pass_time(4)
    (name,) = (await active(small)).values()
    await end(small, name, "Succeeded", 0)
    await small.pass_time(1)
    (name,) = (await active(small)).values()
    await end(small, name)
    await small.pass_time(8)
    assert await active(small) == {}
    await small.pass_time(4)
    assert len(await active(small)) == 1


# --- podFailurePolicy


def rules(*given: Manifest) -> Manifest:
    return {"podFailurePolicy": {"rules": list(given)}}


def on_codes(action: str, *codes: int, operator: str = "In", **fields: Any) -> Manifest:
    return {"action": action, "onExitCodes": {"operator": operator, "values": list(codes), **fields}}


async def test_an_exit_code_fails_the_job_at_once(small: SmallCluster) -> None:
    await small.create(BATCH_JOB, "j", spec=job(parallelism=2, **rules(on_codes("FailJob", 42))))
    first, _ = (await active(small)).values()
    await end(small, first, code=42)
    await small.pass_time(2)
    for pod in await small.all(POD):
        if pod["metadata"].get("deletionTimestamp"):
            await small.delete(POD, pod["metadata"]["name"], grace=0)
    await small.pass_time(2)
    failed = condition_of(await small.get(BATCH_JOB, "j"), "Failed")
    assert failed is not None
    assert failed["reason"] == "PodFailurePolicy"
    expected = (
        f"Container main for pod default/{first} failed with exit code 42 matching FailJob rule at index 0"
    )
    assert failed["message"] == expected


async def test_ignored_failures_do_not_count_against_the_limit(small: SmallCluster) -> None:
    disruption = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}
    await small.create(BATCH_JOB, "j", spec=job(backoffLimit=0, **rules(disruption, on_codes("Count", 1))))
    conditions = [{"type": "DisruptionTarget", "status": "True"}]
    for _ in range(2):
        (name,) = (await active(small)).values()
        await end(small, name, code=143, conditions=conditions)
        await small.pass_time(50, step=5)
    assert await reasons(small) == {}
    assert (await status_of(small)).get("failed", 0) == 0
    (name,) = (await active(small)).values()
    await end(small, name, code=1)
    await small.pass_time(2)
    assert (await reasons(small))["Failed"] == "BackoffLimitExceeded"


async def test_with_a_failure_policy_a_pod_is_replaced_only_when_it_has_failed(small: SmallCluster) -> None:
    await small.create(BATCH_JOB, "j", spec=job(**rules(on_codes("Ignore", 1))))
    (name,) = (await active(small)).values()
    await small.delete(POD, name)
    await small.pass_time(30, step=5)
    assert (await status_of(small))["terminating"] == 1
    assert await small.names(POD) == [name]
    await end(small, name)
    await small.pass_time(30, step=5)
    assert len(await active(small)) == 1


@pytest.mark.parametrize(("policy", "replaced"), [("Failed", False), ("TerminatingOrFailed", True)])
async def test_terminating_pods_are_replaced_as_the_job_says(
    small: SmallCluster, policy: str, replaced: bool
) -> None:
    await small.create(BATCH_JOB, "j", spec=job(podReplacementPolicy=policy))
    (name,) = (await active(small)).values()
    held = {"metadata": {"finalizers": [FINALIZER, "example.com/slow"]}}
    await small.patch(POD, name, held)
    await small.delete(POD, name)
    await small.pass_time(30, step=5)
    assert (len(await active(small)) == 1) == replaced
    assert (await status_of(small))["terminating"] == 1


# --- indexes


async def test_pods_of_an_indexed_job_know_their_index(small: SmallCluster) -> None:
    await small.create(BATCH_JOB, "j", spec=indexed())
    pod = await small.get(POD, (await active(small))["1"])
    assert pod["metadata"]["name"].startswith("j-1-")
    assert pod["metadata"]["labels"][INDEX] == pod["metadata"]["annotations"][INDEX] == "1"
    assert pod["spec"]["hostname"] == "j-1"
    source = {"fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.labels['{INDEX}']"}}
    assert pod["spec"]["containers"][0]["env"] == [{"name": "JOB_COMPLETION_INDEX", "valueFrom": source}]


async def test_each_index_has_its_own_limit(small: SmallCluster) -> None:
    await small.create(BATCH_JOB, "j", spec=indexed(backoffLimitPerIndex=1))
    await end(small, (await active(small))["0"])
    await small.pass_time(12)
    again = await small.get(POD, (await active(small))["0"])
    assert again["metadata"]["annotations"][FAILURES] == "1"
    await end(small, again["metadata"]["name"])
    await small.pass_time(60, step=5)
    status = await status_of(small)
    assert (status["failedIndexes"], set(await active(small))) == ("0", {"1", "2"})
    for index in ("1", "2"):
        await end(small, (await active(small))[index], "Succeeded", 0)
    await small.pass_time(2)
    status = await status_of(small)
    assert (await reasons(small))["Failed"] == "FailedIndexes"
    assert (status["completedIndexes"], status["succeeded"], status["failed"]) == ("1,2", 2, 2)


async def test_an_index_keeps_its_failures_though_its_failed_pod_is_deleted(small: SmallCluster) -> None:
    await small.create(BATCH_JOB, "j", spec=indexed(1, backoffLimitPerIndex=5))
    name = (await active(small))["0"]
    await end(small, name)
    await small.delete(POD, name)
    assert await small.names(POD) == [name]  # held until its replacement is created
    await small.pass_time(12)
    again = await small.get(POD, (await active(small))["0"])
    assert again["metadata"]["annotations"][FAILURES] == "1"
    assert name not in await small.names(POD)


async def test_too_many_failed_indexes_fail_the_job(small: SmallCluster) -> None:
    await small.create(BATCH_JOB, "j", spec=indexed(backoffLimitPerIndex=0, maxFailedIndexes=1))
    for index in ("0", "1"):
        await end(small, (await active(small))[index])
    await small.pass_time(2)
    assert (await reasons(small))["FailureTarget"] == "MaxFailedIndexesExceeded"
    assert await active(small) == {}


async def test_an_exit_code_fails_an_index(small: SmallCluster) -> None:
    fields = {"backoffLimitPerIndex": 5, **rules(on_codes("FailIndex", 7))}
    await small.create(BATCH_JOB, "j", spec=indexed(2, **fields))
    await end(small, (await active(small))["1"], code=7)
    await small.pass_time(60, step=5)
    assert (await status_of(small))["failedIndexes"] == "1"
    assert set(await active(small)) == {"0"}


@pytest.mark.parametrize(
    ("rule", "succeeding"),
    [
        ({"succeededIndexes": "0,2"}, ("2", "0")),
        ({"succeededIndexes": "0-2", "succeededCount": 2}, ("1", "2")),
        ({"succeededCount": 1}, ("3",)),
    ],
)
async def test_a_success_policy_completes_the_job_early(
    small: SmallCluster, rule: Manifest, succeeding: tuple[str, ...]
) -> None:
    await small.create(BATCH_JOB, "j", spec=indexed(4, successPolicy={"rules": [rule]}))
    for index in succeeding:
        assert await reasons(small) == {}
        await end(small, (await active(small))[index], "Succeeded", 0)
        await small.pass_time(2)
    assert (await reasons(small))["SuccessCriteriaMet"] == "SuccessPolicy"
    assert await active(small) == {}
    for pod in await small.all(POD):
        if pod["metadata"].get("deletionTimestamp"):
            await small.delete(POD, pod["metadata"]["name"], grace=0)
    await small.pass_time(2)
    done = await small.get(BATCH_JOB, "j")
    complete = condition_of(done, "Complete")
    assert complete is not None
    assert (complete["reason"], complete["message"]) == ("SuccessPolicy", "Matched rules at index 0")
    assert done["status"].get("failed", 0) == 0
    assert done["status"]["completionTime"] == complete["lastTransitionTime"]


async def test_scaling_down_keeps_one_pod_for_each_index_and_counts_no_failure(small: SmallCluster) -> None:
    await small.create(BATCH_JOB, "j", spec=indexed(3))
    await small.patch(BATCH_JOB, "j", {"spec": {"parallelism": 2, "completions": 2}})
    await small.pass_time(2)
    assert set(await active(small)) == {"0", "1"}
    assert (await status_of(small)).get("failed", 0) == 0


async def test_without_completions_the_first_success_ends_the_creation_of_pods(small: SmallCluster) -> None:
    spec = job(parallelism=2)
    await small.create(BATCH_JOB, "j", spec=spec)
    first, second = (await active(small)).values()
    await end(small, first, "Succeeded", 0)
    await small.pass_time(20)
    assert list((await active(small)).values()) == [second]
    assert await reasons(small) == {}
    await end(small, second)
    await small.pass_time(2)
    assert (await reasons(small))["Complete"] == "CompletionsReached"


@given(st.sets(st.integers(0, 40)))
def test_indexes_survive_being_written(indexes: set[int]) -> None:
    assert parse_indexes(format_indexes(indexes)) == indexes


def test_indexes_are_written_as_kubernetes_does() -> None:
    assert format_indexes({0, 1, 3, 5, 6, 7, 9}) == "0,1,3,5-7,9"
    assert parse_indexes("0-9", completions=3) == {0, 1, 2}
