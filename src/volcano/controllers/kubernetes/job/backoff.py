"""Delays before pods of a job are created again, from the pods that have ended."""

from collections.abc import Iterable

from volcano.base.clock import Instant
from volcano.base.workqueue import Backoff
from volcano.controllers.kubernetes.job.spec import all_index_failures, finished_at, is_failed
from volcano.controllers.kubernetes.pods import phase
from volcano.kube.api.manifest import Manifest

BACKOFF = Backoff(first=10.0, longest=600.0)


def delay(job: Manifest, pods: Iterable[Manifest], now: Instant) -> float:
    """Seconds until another pod may be created: grows with the failures since the last success."""
    failures, last = 0, 0.0
    ended = [pod for pod in pods if phase(pod) == "Succeeded" or is_failed(pod, job)]
    for pod in sorted(ended, key=finished_at):
        if phase(pod) == "Succeeded":
            failures = 0
        else:
            failures, last = failures + 1, finished_at(pod)
    return last + BACKOFF.delay(failures - 1) - now.wall if failures else 0.0


def index_delay(failed: Manifest, now: Instant) -> float:
    """Seconds until the index of a failed pod may be tried again."""
    return finished_at(failed) + BACKOFF.delay(all_index_failures(failed)) - now.wall
