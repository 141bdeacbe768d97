"""batch/v1 Jobs: parallelism, completions, indexes, failures, suspension and time to live."""

from typing import Any

from tests.cluster import SmallCluster
from volcano.base.clock import timestamp
from volcano.controllers.kubernetes.job.controller import BatchJobController
from volcano.kube.api.kinds import BATCH_JOB, EVENT, POD
from volcano.kube.api.manifest import Manifest, condition_of
from volcano.nodes.pools import nodes_of, parse_pools
from volcano.nodes.simulated.controller import SimulatedNodes


def job(command: str = "sleep 5", **fields: Any) -> Manifest:
    pod = {
        "nodeName": "node-0",
        "restartPolicy": "Never",
        "containers": [{"name": "main", "image": "busybox", "command": ["sh", "-c", command]}],
    }
    return {"template": {"spec": pod}, **fields}


def cluster() -> SmallCluster:
    return SmallCluster(BatchJobController(), SimulatedNodes(nodes_of(parse_pools([1], []))))


async def test_a_job_runs_so_many_at_a_time_until_so_many_have_succeeded() -> None:
    async with cluster() as small:
        await small.create(BATCH_JOB, "j", spec=job(parallelism=2, completions=3))
        await small.pass_time(2)
        assert (await small.get(BATCH_JOB, "j"))["status"]["active"] == 2
        await small.pass_time(5)
        assert (await small.get(BATCH_JOB, "j"))["status"]["active"] == 1
        await small.pass_time(6)
        done = await small.get(BATCH_JOB, "j")
        complete = condition_of(done, "Complete")
        assert complete is not None
        assert complete["status"] == "True"
        assert (done["status"]["succeeded"], done["status"].get("failed", 0)) == (3, 0)
        assert all(not p["metadata"].get("finalizers") for p in await small.all(POD))


async def test_an_indexed_job_gives_each_pod_its_number() -> None:
    async with cluster() as small:
        await small.create(BATCH_JOB, "j", spec=job(parallelism=3, completions=3, completionMode="Indexed"))
        await small.pass_time(8)
        done = await small.get(BATCH_JOB, "j")
        assert done["status"]["completedIndexes"] == "0-2"
        indexes = {
            p["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"]
            for p in await small.all(POD)
        }
        assert indexes == {"0", "1", "2"}


async def test_a_job_fails_when_its_pods_have_failed_too_often() -> None:
    async with cluster() as small:
        await small.create(BATCH_JOB, "j", spec=job("exit 1", backoffLimit=2))
        await small.pass_time(120, step=5)
        failed = condition_of(await small.get(BATCH_JOB, "j"), "Failed")
        assert failed is not None
        assert failed["reason"] == "BackoffLimitExceeded"
        assert len(await small.all(POD)) == 3


async def test_a_suspended_job_has_no_pods_and_resumes() -> None:
    async with cluster() as small:
        await small.create(BATCH_JOB, "j", spec=job(suspend=True))
        assert await small.names(POD) == []
        await small.patch(BATCH_JOB, "j", {"spec": {"suspend": False}})
        await small.pass_time(8)
        assert (await small.get(BATCH_JOB, "j"))["status"]["succeeded"] == 1


async def test_a_job_past_its_deadline_fails_and_its_pods_go() -> None:
    async with cluster() as small:
        await small.create(BATCH_JOB, "j", spec=job("sleep 1000", activeDeadlineSeconds=10))
        await small.pass_time(15)
        failed = condition_of(await small.get(BATCH_JOB, "j"), "Failed")
        assert failed is not None
        assert failed["reason"] == "DeadlineExceeded"
        assert await small.names(POD) == []


async def test_a_finished_job_is_deleted_after_its_time_to_live() -> None:
    async with cluster() as small:
        await small.create(BATCH_JOB, "j", spec=job("sleep 1", ttlSecondsAfterFinished=10))
        await small.pass_time(5)
        assert await small.names(BATCH_JOB) == ["j"]
        await small.pass_time(12)
        assert await small.names(BATCH_JOB) == []
        assert await small.names(POD) == []


async def test_a_job_that_ended_ahead_of_the_clock_expires_nevertheless() -> None:
    async with cluster() as small:
        await small.create(BATCH_JOB, "j", spec=job("sleep 1", ttlSecondsAfterFinished=10))
        await small.pass_time(5)
        conditions = (await small.get(BATCH_JOB, "j"))["status"]["conditions"]
        ahead = timestamp(small.clock.now().wall + 86_400)
        moved = [{**condition, "lastTransitionTime": ahead} for condition in conditions]
        await small.patch(BATCH_JOB, "j", {"status": {"conditions": moved}}, "status")
        assert "TimeAhead" in {event["reason"] for event in await small.all(EVENT)}
        await small.pass_time(8)
        assert await small.names(BATCH_JOB) == ["j"]
        await small.pass_time(5)
        assert await small.names(BATCH_JOB) == []


async def test_counts_stay_exact_when_pods_are_deleted_and_the_controller_restarts() -> None:
    async with SmallCluster(SimulatedNodes(nodes_of(parse_pools([1], [])))) as small:
        first = small.start(BatchJobController())
        await small.rest()
        await small.create(BATCH_JOB, "j", spec=job(parallelism=1, completions=3))
        await small.pass_time(8)
        first.cancel()
        for name in await small.names(POD):
            if (await small.get(POD, name))["status"]["phase"] == "Succeeded":
                await small.delete(POD, name)
        small.start(BatchJobController())
        await small.rest()
        await small.pass_time(15)
        done = await small.get(BATCH_JOB, "j")
        assert done["status"]["succeeded"] == 3


async def test_an_indexed_job_of_two_billion_completions_starts_its_first_pods() -> None:
    async with cluster() as small:
        spec = job(parallelism=2, completions=2**31 - 1, completionMode="Indexed")
        await small.create(BATCH_JOB, "j", spec=spec)
        await small.pass_time(1)
        assert len(await small.all(POD)) == 2


async def test_a_status_with_indexes_that_are_none_is_tolerated() -> None:
    async with cluster() as small:
        await small.create(BATCH_JOB, "j", spec=job(parallelism=2, completions=3, completionMode="Indexed"))
        status = {"completedIndexes": "x,5-1,1-2147483647,99999999999999999999,-"}
        await small.patch(BATCH_JOB, "j", {"status": status}, "status")
        await small.pass_time(30)
        assert (await small.get(BATCH_JOB, "j"))["status"]["completedIndexes"] == "0-2"
