"""CronJobs start a Job at every due moment, the latest missed one only, within their policies and limits."""

from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tests.cluster import SmallCluster
from volcano.base.clock import Instant, timestamp
from volcano.controllers.cronjob import CronJobController
from volcano.controllers.schedule import find_due
from volcano.kube.api import cron
from volcano.kube.api.kinds import CRON_JOB, EVENT, JOB
from volcano.kube.api.manifest import Manifest

TEMPLATE = {
    "spec": {"tasks": [{"replicas": 1, "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}]}
}


def spec(schedule: str = "*/1 * * * *", **fields: Any) -> Manifest:
    return {"schedule": schedule, "jobTemplate": TEMPLATE, **fields}


async def finish(cluster: SmallCluster, name: str, phase: str = "Completed") -> None:
    moment = cluster.clock.now().timestamp()
    await cluster.patch(
        JOB, name, {"status": {"state": {"phase": phase, "lastTransitionTime": moment}}}, "status"
    )


async def test_a_job_starts_every_minute_and_is_named_by_its_minute() -> None:
    async with SmallCluster(CronJobController()) as cluster:
        await cluster.create(CRON_JOB, "tick", spec=spec())
        assert await cluster.names(JOB) == []
        await cluster.pass_time(61)
        minute = int(cluster.clock.now().wall) // 60
        assert await cluster.names(JOB) == [f"tick-{minute}"]
        job = await cluster.get(JOB, f"tick-{minute}")
        assert "volcano.sh/cronjob-scheduled-timestamp" in job["metadata"]["annotations"]
        status = (await cluster.get(CRON_JOB, "tick"))["status"]
        assert [reference["name"] for reference in status["active"]] == [f"tick-{minute}"]
        await cluster.pass_time(60)
        assert len(await cluster.names(JOB)) == 2


@pytest.mark.parametrize(
    ("policy", "jobs"),
    [
        pytest.param("Allow", 3, id="Allow: several run side by side"),
        pytest.param("Forbid", 1, id="Forbid: a run is skipped while one is active"),
        pytest.param("Replace", 1, id="Replace: the old one goes"),
    ],
)
async def test_what_happens_while_an_earlier_run_is_active(policy: str, jobs: int) -> None:
    async with SmallCluster(CronJobController()) as cluster:
        await cluster.create(CRON_JOB, "tick", spec=spec(concurrencyPolicy=policy))
        await cluster.pass_time(185, step=5)
        assert len(await cluster.names(JOB)) == jobs


async def test_finished_jobs_are_kept_up_to_the_limits() -> None:
    async with SmallCluster(CronJobController()) as cluster:
        await cluster.create(
            CRON_JOB, "tick", spec=spec(successfulJobsHistoryLimit=2, failedJobsHistoryLimit=1)
        )
        for round_number in range(6):
            await cluster.pass_time(60, step=5)
            for name in await cluster.names(JOB):
                if not (await cluster.get(JOB, name)).get("status", {}).get("state"):
                    await finish(cluster, name, "Failed" if round_number % 2 else "Completed")
        phases = [job["status"]["state"]["phase"] for job in await cluster.all(JOB) if job.get("status")]
        assert (phases.count("Completed"), phases.count("Failed")) == (2, 1)
        assert (await cluster.get(CRON_JOB, "tick"))["status"]["lastSuccessfulTime"]


async def test_a_suspended_cron_job_starts_nothing() -> None:
    async with SmallCluster(CronJobController()) as cluster:
        await cluster.create(CRON_JOB, "tick", spec=spec(suspend=True))
        await cluster.pass_time(180, step=10)
        assert await cluster.names(JOB) == []


async def test_after_a_long_absence_only_the_latest_run_is_started() -> None:
    async with SmallCluster() as cluster:
        await cluster.create(CRON_JOB, "tick", spec=spec())
        cluster.clock.advance(3 * 3600)
        cluster.start(CronJobController())
        await cluster.rest()
        assert await cluster.names(JOB) == [f"tick-{int(cluster.clock.now().wall) // 60}"]
        assert "TooManyMissedTimes" in {event["reason"] for event in await cluster.all(EVENT)}


async def test_a_start_later_than_the_deadline_is_skipped() -> None:
    async with SmallCluster() as cluster:
        await cluster.create(CRON_JOB, "tick", spec=spec("0 0 * * *", startingDeadlineSeconds=60))
        cluster.clock.advance(24 * 3600)
        cluster.start(CronJobController())
        await cluster.rest()
        assert await cluster.names(JOB) == []


async def test_a_schedule_that_cannot_be_read_is_said_once() -> None:
    async with SmallCluster(CronJobController()) as cluster:
        await cluster.create(CRON_JOB, "tick", spec=spec("every now and then"))
        await cluster.pass_time(120, step=10)
        assert [e["reason"] for e in await cluster.all(EVENT)] == ["UnParseableCronJobSchedule"]


@pytest.mark.parametrize(
    ("schedule", "after", "due"),
    [
        pytest.param(
            "*/15 * * * *", "2026-01-01T10:07:30", "2026-01-01T10:15:00", id="every quarter of an hour"
        ),
        pytest.param(
            "0 9-17/4 * * mon-fri", "2026-01-02T17:00:00", "2026-01-05T09:00:00", id="over a weekend"
        ),
        pytest.param("0 0 29 2 *", "2026-03-01T00:00:00", "2028-02-29T00:00:00", id="29 February"),
        pytest.param(
            "0 0 13 * 5", "2026-01-01T00:00:00", "2026-01-02T00:00:00", id="either day field suffices"
        ),
        pytest.param("@monthly", "2026-01-01T00:00:00", "2026-02-01T00:00:00", id="a descriptor"),
        pytest.param("@every 90m", "2026-01-01T00:00:00", "2026-01-01T01:30:00", id="an interval"),
        pytest.param(
            "0 0 */10 * 1", "2026-01-01T00:00:00", "2026-01-05T00:00:00", id="a stepped star restricts"
        ),
        pytest.param("0 0 31 12 7", "2026-12-27T00:00:00", "2026-12-31T00:00:00", id="day 7 is Sunday"),
    ],
)
def test_when_a_schedule_is_next_due(schedule: str, after: str, due: str) -> None:
    moment = datetime.fromisoformat(after).replace(tzinfo=UTC)
    assert cron.parse(schedule).next_after(moment) == datetime.fromisoformat(due).replace(tzinfo=UTC)


def test_a_schedule_is_read_in_its_time_zone() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    due = cron.parse("30 8 * * *").next_after(datetime(2026, 7, 1, 12, tzinfo=berlin))
    assert due == datetime(2026, 7, 2, 6, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    "text", ["", "* * * *", "60 * * * *", "* * 0 * *", "*/0 * * * *", "5-1 * * * *", "@often", "x * * * *"]
)
def test_a_wrong_schedule_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"fields|between|step|descriptor|number"):
        cron.parse(text)


@pytest.mark.parametrize(
    ("schedule", "after", "due"),
    [
        # Berlin sets its clocks forward from 2 to 3 on 29 March 2026, and back from 3 to 2 on 25 October.
        pytest.param("30 2 * * *", "2026-03-28T12:00Z", "2026-03-30T00:30Z", id="an hour that is left out"),
        pytest.param("0 * * * *", "2026-03-29T00:30Z", "2026-03-29T01:00Z", id="hourly over the gap"),
        pytest.param("0 * * * *", "2026-10-25T00:00Z", "2026-10-25T01:00Z", id="the hour that comes twice"),
        pytest.param("*/20 * * * *", "2026-10-25T00:50Z", "2026-10-25T01:00Z", id="minutes go on"),
        pytest.param("@every 1h", "2026-10-25T00:10Z", "2026-10-25T01:10Z", id="an interval is real time"),
        pytest.param("0 9 * * *", "2026-10-25T00:10Z", "2026-10-25T08:00Z", id="nine is nine on the wall"),
    ],
)
def test_schedules_when_the_clocks_change(schedule: str, after: str, due: str) -> None:
    moment = datetime.fromisoformat(after).astimezone(ZoneInfo("Europe/Berlin"))
    found = cron.parse(schedule).next_after(moment)
    assert found is not None
    assert found.astimezone(UTC) == datetime.fromisoformat(due)


@pytest.mark.parametrize(
    ("schedule", "created", "now", "due"),
    [
        pytest.param(
            "0,1 9 * * *", "2026-01-01T00:00Z", "2026-01-05T08:00Z", "2026-01-04T09:01Z", id="irregular gaps"
        ),
        pytest.param(
            "@every 7m",
            "2026-01-01T00:00Z",
            "2026-01-01T10:00Z",
            "2026-01-01T09:55Z",
            id="intervals stay aligned",
        ),
        pytest.param(
            "0 0 1 1 *", "2020-06-01T00:00Z", "2026-01-01T00:30Z", "2026-01-01T00:00Z", id="years of silence"
        ),
    ],
)
def test_the_latest_missed_run_is_always_found(schedule: str, created: str, now: str, due: str) -> None:
    wall = datetime.fromisoformat(now).timestamp()
    manifest = {"metadata": {"creationTimestamp": created}, "spec": {"schedule": schedule}}
    found = find_due(manifest, cron.parse(schedule), UTC, Instant(wall, 0.0))
    assert found.at == datetime.fromisoformat(due)
    assert found.next is not None
    assert found.next.timestamp() > wall


async def test_a_job_that_is_refused_is_said_and_tried_again() -> None:
    async with SmallCluster(CronJobController()) as cluster:
        wrong: Manifest = {**TEMPLATE, "metadata": {"labels": {"a": "no label!"}}}
        await cluster.create(CRON_JOB, "tick", spec={**spec(), "jobTemplate": wrong})
        await cluster.pass_time(65, step=1)
        assert [event["reason"] for event in await cluster.all(EVENT)] == ["FailedCreate"]
        assert "lastScheduleTime" not in ((await cluster.get(CRON_JOB, "tick")).get("status") or {})
        mended = {"metadata": {"labels": {"a": "label"}}}
        await cluster.patch(CRON_JOB, "tick", {"spec": {"jobTemplate": mended}})
        await cluster.pass_time(31, step=1)
        assert len(await cluster.names(JOB)) == 1
        assert "SuccessfulCreate" in {event["reason"] for event in await cluster.all(EVENT)}


async def test_a_zone_within_the_schedule_is_followed_and_frowned_upon() -> None:
    async with SmallCluster(CronJobController()) as cluster:
        await cluster.create(CRON_JOB, "tick", spec=spec("TZ=Asia/Tokyo */1 * * * *"))
        await cluster.pass_time(65, step=13)
        assert len(await cluster.names(JOB)) == 1
        assert "UnsupportedSchedule" in {event["reason"] for event in await cluster.all(EVENT)}


async def test_a_job_deleted_by_a_user_leaves_the_active_list() -> None:
    async with SmallCluster(CronJobController()) as cluster:
        await cluster.create(CRON_JOB, "tick", spec=spec())
        await cluster.pass_time(65, step=13)
        (name,) = await cluster.names(JOB)
        await cluster.delete(JOB, name)
        assert not (await cluster.get(CRON_JOB, "tick"))["status"].get("active")
        assert "StaleReference" in {event["reason"] for event in await cluster.all(EVENT)}
        assert await cluster.names(JOB) == [], "a run that was started is not started again"


async def test_a_job_has_the_user_of_its_cron_job() -> None:
    async with SmallCluster(CronJobController()) as cluster:
        await cluster.create(
            CRON_JOB, "tick", metadata={"annotations": {"volcano.sh/user": "jane"}}, spec=spec()
        )
        await cluster.pass_time(61)
        (name,) = await cluster.names(JOB)
        job = await cluster.get(JOB, name)
        assert job["metadata"]["annotations"]["volcano.sh/user"] == "jane"


async def test_a_last_run_ahead_of_the_clock_does_not_stop_a_schedule() -> None:
    async with SmallCluster(CronJobController()) as cluster:
        await cluster.create(CRON_JOB, "tick", spec=spec())
        ahead = timestamp(cluster.clock.now().wall + 86_400)
        await cluster.patch(CRON_JOB, "tick", {"status": {"lastScheduleTime": ahead}}, "status")
        assert "TimeAhead" in {event["reason"] for event in await cluster.all(EVENT)}
        await cluster.pass_time(61)
        assert len(await cluster.names(JOB)) == 1
        assert [event["reason"] for event in await cluster.all(EVENT)].count("TimeAhead") == 1
