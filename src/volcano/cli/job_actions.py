"""Actions on a job, which commands and `vcctl top` share: suspend, resume, delete."""

from volcano.cli import objects
from volcano.cli.errors import CommandError
from volcano.cli.session import Session
from volcano.kube.api.kinds import JOB
from volcano.kube.api.manifest import Key, Manifest

SUSPENDED = ("Aborting", "Aborted")
ENDED = ("Completed", "Failed", "Terminated", "Completing", "Terminating")
SUSPEND, RESUME, DELETE = "suspend", "resume", "delete"


async def suspend_job(session: Session, key: Key) -> None:
    """Requests that a job is aborted; an error if it has ended or is suspended."""
    job = await objects.find(session, JOB, key)
    phase = phase_of(job)
    if phase in ENDED:
        raise CommandError(f"job {key} has ended ({phase}); only a job that waits or runs can be suspended")
    if phase in SUSPENDED:
        raise CommandError(f"job {key} is suspended already ({phase})")
    await objects.send_command(session, job, "AbortJob", key.namespace)
    await objects.until(session, JOB, key, lambda job: phase_of(job) in (*SUSPENDED, *ENDED))


async def resume_job(session: Session, key: Key) -> None:
    """Requests that a job is resumed; an error if it is not suspended."""
    job = await objects.find(session, JOB, key)
    phase = phase_of(job)
    if phase not in SUSPENDED:
        raise CommandError(f"job {key} is not suspended ({phase})")
    await objects.send_command(session, job, "ResumeJob", key.namespace)
    await objects.until(session, JOB, key, lambda job: phase_of(job) not in SUSPENDED)


async def delete_job(session: Session, key: Key) -> None:
    """Deletes a job and its pods."""
    await objects.delete(session, JOB, key)


def phase_of(job: Manifest) -> str:
    """Phase of a job; Pending before the controller has set it."""
    return str(((job.get("status") or {}).get("state") or {}).get("phase") or "Pending")


ACTIONS = {SUSPEND: suspend_job, RESUME: resume_job, DELETE: delete_job}
