"""batch/v1 CronJobs start a Job at every due time, within their concurrency policy and history limits."""

from typing import Any

import pytest

from tests.cluster import SmallCluster
from volcano.controllers.kubernetes.cronjob import BatchCronJobController
from volcano.controllers.kubernetes.job.controller import BatchJobController
from volcano.kube.api.kinds import BATCH_CRON_JOB, BATCH_JOB, EVENT, POD
from volcano.kube.api.manifest import Manifest
from volcano.nodes.pools import nodes_of, parse_pools
from volcano.nodes.simulated.controller import SimulatedNodes

POD_SPEC = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox"}]}


def spec(schedule: str = "*/1 * * * *", **fields: Any) -> Manifest:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"template": {"spec": POD_SPEC}}}
    return {"schedule": schedule, "jobTemplate": template, **fields}


async def finish(cluster: SmallCluster, name: str, kind: str = "Complete") -> None:
    now = cluster.clock.now().timestamp()
    condition = {"type": kind, "status": "True", "reason": "Test", "lastTransitionTime": now}
    done = {"completionTime": now} if kind == "Complete" else {}
    await cluster.patch(BATCH_JOB, name, {"status": {"conditions": [condition], **done}}, "status")


async def reasons(cluster: SmallCluster) -> list[str]:
    return [event["reason"] for event in await cluster.all(EVENT)]


@pytest.fixture
async def small() -> Any:
    async with SmallCluster(BatchCronJobController()) as cluster:
        yield cluster


async def test_a_job_is_created_every_minute_and_listed_while_it_is_active(small: SmallCluster) -> None:
    await small.create(BATCH_CRON_JOB, "tick", spec=spec())
    assert await small.names(BATCH_JOB) == []
    await small.pass_time(61)
    name = f"tick-{int(small.clock.now().wall) // 60}"
    assert await small.names(BATCH_JOB) == [name]
    job = await small.get(BATCH_JOB, name)
    assert job["metadata"]["labels"]["a"] == "b"
    assert job["metadata"]["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"].endswith(":00Z")
    assert job["metadata"]["ownerReferences"][0]["kind"] == "CronJob"
    status = (await small.get(BATCH_CRON_JOB, "tick"))["status"]
    assert [reference["name"] for reference in status["active"]] == [name]
    assert status["lastScheduleTime"].endswith(":00Z")
    await finish(small, name)
    status = (await small.get(BATCH_CRON_JOB, "tick"))["status"]
    assert "active" not in status
    assert status["lastSuccessfulTime"]
    assert sorted(await reasons(small)) == ["SawCompletedJob", "SuccessfulCreate"]


@pytest.mark.parametrize(
    ("policy", "jobs", "event"),
    [("Allow", 3, ""), ("Forbid", 1, "JobAlreadyActive"), ("Replace", 1, "SuccessfulDelete")],
)
async def test_the_concurrency_policy_decides_while_a_run_is_active(
    small: SmallCluster, policy: str, jobs: int, event: str
) -> None:
    await small.create(BATCH_CRON_JOB, "tick", spec=spec(concurrencyPolicy=policy))
    await small.pass_time(185, step=5)
    assert len(await small.names(BATCH_JOB)) == jobs
    assert not event or event in await reasons(small)


async def test_a_forbidden_run_starts_when_the_active_one_has_ended(small: SmallCluster) -> None:
    await small.create(BATCH_CRON_JOB, "tick", spec=spec(concurrencyPolicy="Forbid"))
    await small.pass_time(100, step=5)
    (first,) = await small.names(BATCH_JOB)
    await small.pass_time(30, step=5)
    await finish(small, first)
    assert len(await small.names(BATCH_JOB)) == 2


async def test_the_history_is_limited(small: SmallCluster) -> None:
    limited = spec(successfulJobsHistoryLimit=2, failedJobsHistoryLimit=0)
    await small.create(BATCH_CRON_JOB, "tick", spec=limited)
    for kind in ("Complete", "Failed", "Complete", "Complete"):
        await small.pass_time(61, step=5)
        for job in await small.all(BATCH_JOB):
            if not job["status"].get("conditions"):
                await finish(small, job["metadata"]["name"], kind)
    kept = [job["status"]["conditions"][0]["type"] for job in await small.all(BATCH_JOB)]
    assert kept == ["Complete", "Complete"]


async def test_a_suspended_cron_job_starts_nothing_and_later_only_the_last_run(small: SmallCluster) -> None:
    await small.create(BATCH_CRON_JOB, "tick", spec=spec(suspend=True))
    await small.pass_time(600, step=30)
    assert await small.names(BATCH_JOB) == []
    await small.patch(BATCH_CRON_JOB, "tick", {"spec": {"suspend": False}})
    assert len(await small.names(BATCH_JOB)) == 1


async def test_a_run_is_not_started_after_its_deadline(small: SmallCluster) -> None:
    await small.create(
        BATCH_CRON_JOB, "tick", spec=spec("0 * * * *", suspend=True, startingDeadlineSeconds=60)
    )
    now = small.clock.now().wall
    await small.pass_time(3600 - now % 3600 + 120, step=60)
    await small.patch(BATCH_CRON_JOB, "tick", {"spec": {"suspend": False}})
    assert await small.names(BATCH_JOB) == []


async def test_many_missed_runs_are_reported_and_one_is_started(small: SmallCluster) -> None:
    await small.create(BATCH_CRON_JOB, "tick", spec=spec(suspend=True))
    await small.pass_time(3 * 3600, step=600)
    await small.patch(BATCH_CRON_JOB, "tick", {"spec": {"suspend": False}})
    assert len(await small.names(BATCH_JOB)) == 1
    assert "TooManyMissedTimes" in await reasons(small)


async def test_a_schedule_is_read_in_its_time_zone(small: SmallCluster) -> None:
    await small.create(BATCH_CRON_JOB, "tick", spec=spec("30 12 * * *", timeZone="Asia/Kolkata"))
    await small.pass_time(24 * 3600 + 60, step=600)
    (job,) = await small.all(BATCH_JOB)
    stamp = job["metadata"]["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"]
    assert stamp.endswith("T12:30:00+05:30")


async def test_a_job_created_before_a_restart_is_adopted(small: SmallCluster) -> None:
    made = await small.create(BATCH_CRON_JOB, "tick", spec=spec(suspend=True))
    await small.pass_time(65, step=5)
    owner = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "name": "tick",
        "uid": made["metadata"]["uid"],
        "controller": True,
    }
    name = f"tick-{int(small.clock.now().wall) // 60}"
    metadata = {"ownerReferences": [owner]}
    await small.create(BATCH_JOB, name, metadata=metadata, spec={"template": {"spec": POD_SPEC}})
    await small.patch(BATCH_CRON_JOB, "tick", {"spec": {"suspend": False}})
    assert await small.names(BATCH_JOB) == [name]
    status = (await small.get(BATCH_CRON_JOB, "tick"))["status"]
    assert [reference["name"] for reference in status["active"]] == [name]
    assert status["lastScheduleTime"]
    await small.delete(BATCH_JOB, name)
    assert "MissingJob" in await reasons(small)
    assert "active" not in (await small.get(BATCH_CRON_JOB, "tick"))["status"]


async def test_a_job_of_that_name_with_another_owner_is_left_alone(small: SmallCluster) -> None:
    await small.create(BATCH_CRON_JOB, "tick", spec=spec(suspend=True))
    await small.pass_time(65, step=5)
    name = f"tick-{int(small.clock.now().wall) // 60}"
    await small.create(BATCH_JOB, name, spec={"template": {"spec": POD_SPEC}})
    await small.patch(BATCH_CRON_JOB, "tick", {"spec": {"suspend": False}})
    assert "FailedCreate" in await reasons(small)
    assert not (await small.get(BATCH_JOB, name))["metadata"].get("ownerReferences")


async def test_a_cron_job_runs_its_pods_to_the_end() -> None:
    nodes = SimulatedNodes(nodes_of(parse_pools([1], [])))
    async with SmallCluster(BatchCronJobController(), BatchJobController(), nodes) as cluster:
        pod = {
            "nodeName": "node-0",
            **POD_SPEC,
            "containers": [{"name": "main", "image": "i", "command": ["sleep", "5"]}],
        }
        template = {"spec": {"template": {"spec": pod}}}
        await cluster.create(BATCH_CRON_JOB, "tick", spec={**spec(), "jobTemplate": template})
        await cluster.pass_time(80)
        assert [pod["status"]["phase"] for pod in await cluster.all(POD)] == ["Succeeded"]
        assert (await cluster.get(BATCH_CRON_JOB, "tick"))["status"]["lastSuccessfulTime"]


async def test_a_job_that_was_rejected_at_first_is_reported_when_it_is_created(small: SmallCluster) -> None:
    wrong = {**spec()["jobTemplate"], "metadata": {"labels": {"a": "no label!"}}}
    await small.create(BATCH_CRON_JOB, "tick", spec={**spec("0 0 1 1 *"), "jobTemplate": wrong})
    await small.patch(BATCH_CRON_JOB, "tick", {"spec": {"schedule": "*/1 * * * *"}})
    await small.pass_time(65, step=1)
    assert await reasons(small) == ["FailedCreate"]
    await small.patch(BATCH_CRON_JOB, "tick", {"spec": {"jobTemplate": {"metadata": {"labels": {"a": "b"}}}}})
    await small.pass_time(31, step=1)
    assert len(await small.names(BATCH_JOB)) == 1
    assert "SuccessfulCreate" in await reasons(small)
