"""Actions on a job: suspend, resume, delete, requeue, hold, update."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from volcano.base.clock import Clock
from volcano.kube.api.errors import Forbidden
from volcano.kube.api.kinds import JOB, PRIORITY_CLASS
from volcano.kube.api.manifest import Key, Manifest
from volcano.kube.client.protocol import Client
from volcano.services.errors import Rejected
from volcano.services.objects import delete_object, find, send_command, until

SUSPENDED = ("Aborting", "Aborted")
ENDED = ("Completed", "Failed", "Terminated", "Completing", "Terminating")
RESTARTABLE = ("Pending", "Running")
SUSPEND, RESUME, DELETE = "suspend", "resume", "delete"


async def suspend_job(client: Client, clock: Clock, key: Key) -> None:
    """Requests that a job is aborted; Rejected if it has ended or is suspended."""
    job = await find(client, JOB, key)
    phase = phase_of(job)
    if phase in ENDED:
        raise Rejected(f"job {key} has ended ({phase}); only a job that waits or runs can be suspended")
    if phase in SUSPENDED:
        raise Rejected(f"job {key} is suspended already ({phase})")
    await send_command(client, job, "AbortJob", key.namespace)
    await until(client, clock, JOB, key, lambda job: phase_of(job) in (*SUSPENDED, *ENDED))


async def resume_job(client: Client, clock: Clock, key: Key) -> None:
    """Requests that a job is resumed; Rejected if it is not suspended."""
    job = await find(client, JOB, key)
    phase = phase_of(job)
    if phase not in SUSPENDED:
        raise Rejected(f"job {key} is not suspended ({phase})")
    await send_command(client, job, "ResumeJob", key.namespace)
    await until(client, clock, JOB, key, lambda job: phase_of(job) not in SUSPENDED)


async def delete_job(client: Client, clock: Clock, key: Key) -> None:
    """Deletes a job and its pods."""
    await delete_object(client, JOB, key)


ACTIONS: Mapping[str, Callable[[Client, Clock, Key], Awaitable[None]]] = {
    SUSPEND: suspend_job,
    RESUME: resume_job,
    DELETE: delete_job,
}


async def requeue_job(client: Client, clock: Clock, key: Key) -> bool:
    """Restarts a job from the beginning; one that is suspended is resumed. Returns whether it was resumed."""
    job = await find(client, JOB, key)
    phase = phase_of(job)
    if phase in SUSPENDED:
        await resume_job(client, clock, key)
        return True
    if phase in ENDED:
        raise Rejected(f"job {key} has ended ({phase}); submit it again")
    if phase not in RESTARTABLE:
        raise Rejected(f"job {key} is {phase}; only a job that waits or runs can be requeued")
    await send_command(client, job, "RestartJob", key.namespace)
    return False


async def hold_job(client: Client, clock: Clock, key: Key) -> None:
    """Keeps a waiting job from starting."""
    phase = phase_of(await find(client, JOB, key))
    if phase not in ("Pending", *SUSPENDED, *ENDED):
        raise Rejected(
            f"job {key} is {phase}; only a waiting job can be held, and suspend stops a running one"
        )
    await suspend_job(client, clock, key)


async def update_job(
    client: Client,
    key: Key,
    *,
    priority: str | None = None,
    queue: str | None = None,
    workers: int | None = None,
) -> None:
    """Changes priority class, queue or the number of workers of a job; None leaves a value as it is."""
    job = await find(client, JOB, key)
    phase = phase_of(job)
    if phase in ENDED:
        raise Rejected(f"job {key} has ended ({phase})")
    if queue is not None and phase not in ("Pending", "Aborted"):
        raise Rejected(f"job {key} is {phase}; the queue can be changed only while the job waits")
    spec: dict[str, Any] = {}
    if priority is not None:
        await check_priority_class(client, priority)
        spec["priorityClassName"] = priority
    if queue is not None:
        spec["queue"] = queue
    if workers is not None:
        spec |= _resized(job, key, workers)
    version = job["metadata"]["resourceVersion"]
    await client.patch(JOB, key, {"metadata": {"resourceVersion": version}, "spec": spec})


async def check_priority_class(client: Client, name: str) -> None:
    """Raises NotFoundError if the class does not exist: the job's pods would be rejected later, one by one."""
    if not name:
        return
    try:
        await find(client, PRIORITY_CLASS, Key("", name))
    except Forbidden:  # without permission to read the class, the server decides
        return


def phase_of(job: Manifest) -> str:
    """Phase of a job; Pending before the controller has set it."""
    return str(((job.get("status") or {}).get("state") or {}).get("phase") or "Pending")


def _resized(job: Manifest, key: Key, workers: int) -> dict[str, Any]:
    """Tasks with another number of workers; the gang's minimum follows if it was all pods."""
    tasks = [dict(task) for task in job["spec"].get("tasks") or ()]
    chosen = [task for task in tasks if task.get("name") == "worker"] or (tasks if len(tasks) == 1 else [])
    if len(chosen) != 1:
        names = ", ".join(str(task.get("name")) for task in tasks)
        raise Rejected(f"job {key} has no task named worker (it has {names}); edit it with kubectl")
    (task,) = chosen
    before = task.get("replicas") or 1
    total = sum(each.get("replicas") or 1 for each in tasks)
    task["replicas"] = workers
    if task.get("minAvailable") is not None:
        task["minAvailable"] = (
            workers if task["minAvailable"] == before else min(task["minAvailable"], workers)
        )
    least = job["spec"].get("minAvailable")
    total_after = total - before + workers
    resized: dict[str, Any] = {"tasks": tasks}
    if least is not None:
        resized["minAvailable"] = total_after if least == total else min(least, total_after)
    return resized
