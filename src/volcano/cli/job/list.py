"""`vcctl job list`: jobs with phase and pod counts."""

import argparse

from volcano.cli import flags
from volcano.cli.listing import Listing, show
from volcano.cli.printing.tables import Column, fixed, longest
from volcano.cli.printing.times import age, day
from volcano.cli.session import Session
from volcano.kube.kinds import JOB
from volcano.kube.manifest import Manifest, labels_of

JOB_TYPE = "volcano.sh/job-type"


def run_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-q", "--queue", default="", help="only jobs of this queue")
    parser.add_argument("-S", "--scheduler", default="", help="only jobs for this scheduler")
    parser.add_argument(
        "--selector", default="", metavar="TEXT", help="only jobs with this text in their name"
    )
    flags.add_list(parser)


async def run(arguments: argparse.Namespace, session: Session) -> int:
    """Lists jobs."""
    return await show(listing(session, keep_of(arguments)), arguments, session)


def keep_of(arguments: argparse.Namespace) -> "Keep":
    """Filter described by the flags."""
    return Keep(getattr(arguments, "queue", ""), arguments.scheduler, arguments.selector)


class Keep:
    """Filter of jobs; empty values match all."""

    def __init__(self, queue: str, scheduler: str, part: str) -> None:
        self._queue, self._scheduler, self._part = queue, scheduler, part

    def __call__(self, job: Manifest) -> bool:
        spec = job.get("spec") or {}
        return (
            self._queue in ("", spec.get("queue"))
            and self._scheduler in ("", spec.get("schedulerName"))
            and self._part in job["metadata"]["name"]
        )


def listing(session: Session, keep: Keep) -> Listing:
    """Listing of jobs."""
    now = session.clock.now().wall
    columns = (
        Column("Name", lambda job: job["metadata"]["name"], longest(3)),
        Column("Creation", lambda job: day(job["metadata"].get("creationTimestamp")), fixed(15), spare=8),
        Column("Phase", lambda job: _state(job).get("phase", ""), fixed(12), coloured=True),
        Column("JobType", lambda job: labels_of(job).get(JOB_TYPE) or "Batch", fixed(12), spare=9),
        Column("Replicas", lambda job: str(replicas(job)), fixed(12)),
        Column("Min", lambda job: _count(job, "minAvailable"), fixed(6), spare=4),
        Column("Pending", lambda job: _count(job, "pending"), fixed(10)),
        Column("Running", lambda job: _count(job, "running"), fixed(10)),
        Column("Succeeded", lambda job: _count(job, "succeeded"), fixed(12)),
        Column("Failed", lambda job: _count(job, "failed"), fixed(10)),
        Column("Unknown", lambda job: _count(job, "unknown"), fixed(12), spare=7),
        Column("RetryCount", lambda job: _count(job, "retryCount"), fixed(10), spare=6),
        Column("Queue", lambda job: (job.get("spec") or {}).get("queue", ""), longest(3), wide=True),
        Column(
            "Age",
            lambda job: age(job["metadata"].get("creationTimestamp"), now),
            longest(3),
            wide=True,
            spare=5,
        ),
    )
    return Listing(JOB, lambda objects: columns, keep)


def replicas(job: Manifest) -> int:
    """Number of pods the job requests."""
    return sum(task.get("replicas") or 0 for task in (job.get("spec") or {}).get("tasks") or ())


def _state(job: Manifest) -> Manifest:
    return (job.get("status") or {}).get("state") or {}


def _count(job: Manifest, field: str) -> str:
    return str((job.get("status") or {}).get(field) or 0)
