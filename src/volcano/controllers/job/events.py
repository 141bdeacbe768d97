"""Kubernetes events about a job: named after what they say, so that saying it again makes no second one."""

from volcano.clock import Instant
from volcano.kube.events import NORMAL, WARNING, event, name_after, reference_to
from volcano.kube.kinds import EVENT, JOB
from volcano.kube.manifest import Manifest
from volcano.kube.operations import Create

COMPONENT = "vc-controller-manager"


def say(
    job: Manifest, reason: str, message: str, now: Instant, *, warning: bool = False, occasion: str = ""
) -> Create:
    """The write that records an event; `occasion` tells one occurrence from the next of the same text."""
    target = reference_to(job, JOB)
    manifest = event(
        target,
        name_after(target, reason, message, occasion),
        severity=WARNING if warning else NORMAL,
        reason=reason,
        message=message,
        now=now,
        component=COMPONENT,
    )
    return Create(EVENT, manifest, optional=True)
