"""`vcctl job requeue`, `hold`, `release` and `update`."""

import argparse
from typing import Any

from volcano.cli import flags, objects
from volcano.cli.errors import CommandError, UsageError
from volcano.cli.job.manage import MANDATORY, request_resume, request_suspend
from volcano.cli.job_actions import ENDED, SUSPENDED, phase_of
from volcano.cli.session import Session
from volcano.kube.api.errors import Forbidden
from volcano.kube.api.kinds import JOB, PRIORITY_CLASS
from volcano.kube.api.manifest import Key, Manifest

RESTARTABLE = ("Pending", "Running")


def requeue_arguments(parser: argparse.ArgumentParser) -> None:
    flags.add_target(parser, "job")


async def requeue(arguments: argparse.Namespace, session: Session) -> int:
    """Restarts a job from the beginning: its pods are deleted and it waits in its queue again."""
    key = objects.target(arguments, session, MANDATORY.format("requeue"))
    job = await objects.find(session, JOB, key)
    phase = phase_of(job)
    if phase in SUSPENDED:
        await request_resume(session, key)
        return 0
    if phase in ENDED:
        raise CommandError(f"job {key} has ended ({phase}); submit it again")
    if phase not in RESTARTABLE:
        raise CommandError(f"job {key} is {phase}; only a job that waits or runs can be requeued")
    await objects.send_command(session, job, "RestartJob", key.namespace)
    session.write(f"requeue job {key.name} successfully")
    return 0


def hold_arguments(parser: argparse.ArgumentParser) -> None:
    flags.add_target(parser, "job")


async def hold(arguments: argparse.Namespace, session: Session) -> int:
    """Keeps a waiting job from starting."""
    key = objects.target(arguments, session, MANDATORY.format("hold"))
    phase = phase_of(await objects.find(session, JOB, key))
    if phase not in ("Pending", *SUSPENDED, *ENDED):
        raise CommandError(
            f"job {key} is {phase}; only a waiting job can be held, and suspend stops a running one"
        )
    await request_suspend(session, key)
    return 0


def release_arguments(parser: argparse.ArgumentParser) -> None:
    flags.add_target(parser, "job")


async def release(arguments: argparse.Namespace, session: Session) -> int:
    """Lets a held job start."""
    await request_resume(session, objects.target(arguments, session, MANDATORY.format("release")))
    return 0


def update_arguments(parser: argparse.ArgumentParser) -> None:
    flags.add_target(parser, "job")
    add = parser.add_argument
    add("--priority", default=None, metavar="CLASS", help="priority class")
    add("--queue", "-q", default=None, help="queue, while the job waits")
    add(
        "--workers",
        "-w",
        type=int,
        default=None,
        metavar="N",
        help="number of pods of the task worker",
    )


async def update(arguments: argparse.Namespace, session: Session) -> int:
    """Changes priority, queue or size of a job."""
    key = objects.target(arguments, session, MANDATORY.format("update"))
    if (arguments.priority, arguments.queue, arguments.workers) == (None, None, None):
        raise UsageError("nothing to change; use --priority, --queue or --workers")
    if arguments.workers is not None and arguments.workers < 1:
        raise UsageError(f"--workers: must be 1 or more (got {arguments.workers})")
    job = await objects.find(session, JOB, key)
    if phase_of(job) in ENDED:
        raise CommandError(f"job {key} has ended ({phase_of(job)})")
    if arguments.queue is not None and phase_of(job) not in ("Pending", "Aborted"):
        raise CommandError(f"job {key} is {phase_of(job)}; the queue can be changed only while the job waits")
    spec: dict[str, Any] = {}
    if arguments.priority is not None:
        await _check_priority(session, arguments.priority)
        spec["priorityClassName"] = arguments.priority
    if arguments.queue is not None:
        spec["queue"] = arguments.queue
    if arguments.workers is not None:
        spec |= _resized(job, key, arguments.workers)
    version = job["metadata"]["resourceVersion"]
    await session.client.patch(JOB, key, {"metadata": {"resourceVersion": version}, "spec": spec})
    session.write(f"update job {key.name} successfully")
    return 0


async def _check_priority(session: Session, name: str) -> None:
    try:
        await objects.find(session, PRIORITY_CLASS, Key("", name))
    except Forbidden:  # without permission to read the class, the server decides
        return


def _resized(job: Manifest, key: Key, workers: int) -> dict[str, Any]:
    """Tasks with another number of workers; the gang's minimum follows if it was all pods."""
    tasks = [dict(task) for task in job["spec"].get("tasks") or ()]
    chosen = [task for task in tasks if task.get("name") == "worker"] or (tasks if len(tasks) == 1 else [])
    if len(chosen) != 1:
        names = ", ".join(str(task.get("name")) for task in tasks)
        raise CommandError(f"job {key} has no task named worker (it has {names}); edit it with kubectl")
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
