"""Objects of a job: ownership, deletion by uid, and events."""

from volcano.base.clock import Instant
from volcano.controllers.job.spec import Job
from volcano.kube.api.kinds import JOB, Kind
from volcano.kube.api.manifest import Manifest, controller_of, key_of, uid_of
from volcano.kube.client.operations import Create, Delete
from volcano.kube.client.protocol import Options
from volcano.kube.controllers.events import record_event

COMPONENT = "vc-controller-manager"


def owning_job(manifest: Manifest) -> tuple[str, str] | None:
    """The name and uid of the job that controls an object, if one does."""
    owner = controller_of(manifest)
    if owner is None or owner.get("kind") != JOB.kind or owner.get("apiVersion") != JOB.api_version:
        return None
    return owner.get("name", ""), owner.get("uid", "")


def is_ours(manifest: Manifest, job: Job) -> bool:
    return owning_job(manifest) == (job.name, job.uid)


def is_left_over(manifest: Manifest, job: Job) -> bool:
    """Whether an object belonged to a deleted job of the same name."""
    owner = owning_job(manifest)
    return owner is not None and owner[0] == job.name and owner[1] != job.uid


def is_foreign(manifest: Manifest, job: Job) -> bool:
    """Whether an object is neither the job's nor one that a deleted job of the same name has left over."""
    return not is_ours(manifest, job) and not is_left_over(manifest, job)


def delete(kind: Kind, manifest: Manifest) -> Delete:
    """Deletes exactly this object, not a later one of the same name."""
    return Delete(kind, key_of(manifest), Options(uid=uid_of(manifest)), if_present=True)


def job_event(
    job: Manifest, reason: str, message: str, now: Instant, *, warning: bool = False, occasion: str = ""
) -> Create:
    """Records an event about a job; `occasion` distinguishes occurrences of the same text."""
    return record_event(job, JOB, reason, message, now, source=COMPONENT, warning=warning, occasion=occasion)
