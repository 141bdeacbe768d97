"""Due times of CronJobs, Kubernetes' and Volcano's: from the schedule, its time zone and the last run."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from volcano.base.clock import Instant, parse_timestamp
from volcano.kube.api import cron
from volcano.kube.api.manifest import Manifest

# Missed runs above which a warning is due.
MANY_MISSED = 100
# Times beyond it are treated as it: a calendar ends in the year 9999.
LATEST = datetime(9000, 1, 1, tzinfo=UTC).timestamp()


@dataclass(frozen=True, slots=True)
class Due:
    """The run that is due, if any, the number of missed ones, and the time of the next."""

    at: datetime | None
    missed: int
    next: datetime | None


def read_schedule(cron_job: Manifest) -> tuple[cron.Schedule, tzinfo]:
    """Parses the schedule and its time zone; raises ValueError with the part that is invalid."""
    text, zone = cron_job["spec"].get("schedule") or "", cron_job["spec"].get("timeZone") or "UTC"
    prefix, space, rest = text.strip().partition(" ")
    if space and prefix.startswith(("TZ=", "CRON_TZ=")):
        text, zone = rest, prefix.partition("=")[2]
    schedule = cron.parse(text)
    try:
        return schedule, UTC if zone == "UTC" else ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"invalid timeZone {zone!r}: no such zone is known here") from None


def find_due(cron_job: Manifest, schedule: cron.Schedule, zone: tzinfo, now: Instant) -> Due:
    """The most recent due time of the schedule that has not been handled."""
    status, spec = cron_job.get("status") or {}, cron_job["spec"]
    start = parse_timestamp(status.get("lastScheduleTime") or cron_job["metadata"]["creationTimestamp"])
    if spec.get("startingDeadlineSeconds") is not None:
        start = max(start, now.wall - float(spec["startingDeadlineSeconds"]))
    start = min(max(start, 0.0), LATEST)  # clients can write any time to the status
    # Times are compared in UTC: when clocks are set back, an hour of local time occurs twice.
    first = _utc(schedule.next_after(datetime.fromtimestamp(start, zone)))
    present = datetime.fromtimestamp(now.wall, UTC)
    if first is None or present < first:
        return Due(None, 0, first)
    second = _utc(schedule.next_after(first.astimezone(zone)))
    if second is None or present < second:
        return Due(first, 0, second)
    gap = max(second - first, timedelta(seconds=1))
    missed = (present - first) // gap + 1
    latest = first + (missed - 1) * gap if schedule.every else _latest(schedule, zone, first, present, gap)
    return Due(latest, missed, _utc(schedule.next_after(latest.astimezone(zone))))


def _latest(
    schedule: cron.Schedule, zone: tzinfo, first: datetime, present: datetime, gap: timedelta
) -> datetime:
    """The last due time from `first` until now: searches back over growing intervals, then forward."""
    span = 3 * gap
    while True:
        start = max(first, present - span)
        candidate = _utc(schedule.next_after(start.astimezone(zone)))
        if start == first or (candidate is not None and candidate <= present):
            break
        span *= 4
    latest = first
    while candidate is not None and candidate <= present:
        latest, candidate = candidate, _utc(schedule.next_after(candidate.astimezone(zone)))
    return latest


def _utc(moment: datetime | None) -> datetime | None:
    return moment.astimezone(UTC) if moment is not None else None


def in_zone(at: datetime, zone: tzinfo) -> str:
    """A due time as RFC 3339 in the time zone of the schedule."""
    return at.astimezone(zone).isoformat().replace("+00:00", "Z")
