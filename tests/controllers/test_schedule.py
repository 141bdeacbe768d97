"""Due times of CronJobs: times that clients wrote to the status are tolerated, whatever they are."""

from datetime import UTC

import pytest

from volcano.base.clock import Instant
from volcano.controllers.schedule import find_due
from volcano.kube.api import cron

NOW = Instant(monotonic=0.0, wall=1_800_000_000.0)


@pytest.mark.parametrize("last", ["9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z"])
def test_a_last_run_at_the_end_of_the_calendar_is_tolerated(last: str) -> None:
    cron_job = {
        "metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"schedule": "* * * * *"},
        "status": {"lastScheduleTime": last},
    }
    due = find_due(cron_job, cron.parse("* * * * *"), UTC, NOW)
    assert (due.at is None) == last.startswith("9999")  # a run in the future: nothing is due
