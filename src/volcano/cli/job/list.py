"""`vcctl job list`: jobs with phase and pod counts."""

import argparse
from collections.abc import Mapping, Sequence

from volcano.cli import flags
from volcano.cli.job.history import add_history, check_history, show_history
from volcano.cli.listing import Listing, Objects, show
from volcano.cli.printing.tables import Column, Place, fixed, longest
from volcano.cli.session import Session
from volcano.kube.api.kinds import JOB, POD_GROUP
from volcano.kube.api.manifest import Manifest, labels_of, uid_of
from volcano.views.jobs import WAITING, waiting_reasons
from volcano.views.times import age, day

FAILED = ("Failed", "Aborted", "Terminated")
JOB_TYPE = "volcano.sh/job-type"


def run_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-q", "--queue", default="", help="only jobs of this queue")
    parser.add_argument("-S", "--scheduler", default="", help="only jobs for this scheduler")
    parser.add_argument(
        "--selector", default="", metavar="TEXT", help="only jobs with this text in their name"
    )
    parser.add_argument(
        "--start",
        dest="expected_starts",
        action="store_true",
        help="show when jobs that wait are expected to start, and why then",
    )
    flags.add_list(parser)
    add_history(parser)


async def run(arguments: argparse.Namespace, session: Session) -> int:
    """Lists jobs."""
    if getattr(arguments, "expected_starts", False):
        from volcano.cli.job.starts import show_starts

        return await show_starts(keep_of(arguments), arguments, session)
    check_history(arguments)
    if arguments.history:
        return await show_history(arguments, session)
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
    """Listing of jobs: in files the columns of Volcano, on terminals also queue, age and reason for waiting."""
    now = session.clock.now().wall
    terminal, file = Place.TERMINAL, Place.FILE

    def columns(objects: Objects) -> Sequence[Column]:
        reasons = waiting_reasons(objects[POD_GROUP])
        return (
            Column("Name", lambda job: job["metadata"]["name"], longest(3)),
            Column("Queue", _queue, only_in=terminal, spare=2),
            Column(
                "Creation", lambda job: day(job["metadata"].get("creationTimestamp")), fixed(15), only_in=file
            ),
            Column("Phase", lambda job: _state(job).get("phase", ""), fixed(12), coloured=True),
            Column("JobType", lambda job: labels_of(job).get(JOB_TYPE) or "Batch", fixed(12), only_in=file),
            Column("Replicas", lambda job: str(replicas(job)), fixed(12), only_in=file),
            Column("Min", lambda job: _count(job, "minAvailable"), fixed(6), spare=5),
            Column("Pending", lambda job: _count(job, "pending"), fixed(10), spare=7),
            Column("Running", lambda job: _count(job, "running"), fixed(10), only_in=file),
            Column("Running", lambda job: f"{_count(job, 'running')}/{replicas(job)}", only_in=terminal),
            Column("Succeeded", lambda job: _count(job, "succeeded"), fixed(12), spare=6),
            Column("Failed", lambda job: _count(job, "failed"), fixed(10), spare=3),
            Column("Unknown", lambda job: _count(job, "unknown"), fixed(12), spare=9),
            Column("RetryCount", lambda job: _count(job, "retryCount"), fixed(10), spare=8),
            Column("Queue", _queue, longest(3), wide=True, only_in=file),
            Column(
                "Age",
                lambda job: age(job["metadata"].get("creationTimestamp"), now),
                longest(3),
                wide=True,
                only_in=file,
            ),
            Column(
                "Age",
                lambda job: age(job["metadata"].get("creationTimestamp"), now),
                only_in=terminal,
                spare=1,
            ),
            Column("Reason", lambda job: _reason(job, reasons), sentence=True, only_in=terminal),
        )

    return Listing(JOB, columns, keep, also=(POD_GROUP,))


def _queue(job: Manifest) -> str:
    return str((job.get("spec") or {}).get("queue") or "")


def _reason(job: Manifest, reasons: Mapping[str, str]) -> str:
    """Why the job waits, or why it ended."""
    state = _state(job)
    if state.get("phase", "Pending") in WAITING:
        return reasons.get(uid_of(job)) or str(state.get("message") or "")
    return str(state.get("message") or state.get("reason") or "") if state.get("phase") in FAILED else ""


def replicas(job: Manifest) -> int:
    """Number of pods the job requests."""
    return sum(task.get("replicas") or 0 for task in (job.get("spec") or {}).get("tasks") or ())


def _state(job: Manifest) -> Manifest:
    return (job.get("status") or {}).get("state") or {}


def _count(job: Manifest, field: str) -> str:
    return str((job.get("status") or {}).get(field) or 0)
