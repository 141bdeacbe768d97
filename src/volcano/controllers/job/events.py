"""Kubernetes events about a job: named after what they say, so that saying it again makes no second one."""

from volcano.clock import Instant
from volcano.controllers.notes import note
from volcano.kube.kinds import JOB
from volcano.kube.manifest import Manifest
from volcano.kube.operations import Create

COMPONENT = "vc-controller-manager"


def say(
    job: Manifest, reason: str, message: str, now: Instant, *, warning: bool = False, occasion: str = ""
) -> Create:
    """The write that records an event; `occasion` tells one occurrence from the next of the same text."""
    return note(job, JOB, reason, message, now, source=COMPONENT, warning=warning, occasion=occasion)
