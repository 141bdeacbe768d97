"""Finished jobs that ask for it are deleted after a while."""

from volcano.clock import Instant, parse_timestamp
from volcano.controllers.job.spec import Job
from volcano.controllers.job.status import Status
from volcano.controllers.job.terms import FINISHED
from volcano.kube.client import Options
from volcano.kube.kinds import JOB
from volcano.kube.manifest import Manifest
from volcano.kube.operations import Delete


def seconds_left(job: Job, status: Status, now: Instant) -> float | None:
    """How long a finished job is still to be kept; None when it is not finished or to be kept for good."""
    if job.ttl is None or status.phase not in FINISHED or not status.since:
        return None
    return parse_timestamp(status.since) + job.ttl - now.wall


def clean_up(job: Job, manifest: Manifest) -> Delete:
    """The write that deletes a job with all it owns, if it is still the one that was looked at."""
    version = manifest["metadata"].get("resourceVersion", "")
    options = Options(uid=job.uid, resource_version=version, propagation="Foreground")
    return Delete(JOB, job.key, options, if_present=True)
