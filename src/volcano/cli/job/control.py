"""`vcctl job requeue`, `hold`, `release` and `update`."""

import argparse

from volcano.cli import flags, objects
from volcano.cli.errors import UsageError
from volcano.cli.job.manage import MANDATORY, request_resume, suspend_arguments
from volcano.cli.session import Session
from volcano.services.jobs import hold_job, requeue_job, update_job

requeue_arguments = hold_arguments = release_arguments = suspend_arguments


async def requeue(arguments: argparse.Namespace, session: Session) -> int:
    """Restarts a job from the beginning: its pods are deleted and it waits in its queue again."""
    key = objects.target(arguments, session, MANDATORY.format("requeue"))
    resumed = await requeue_job(session.client, session.clock, key)
    session.write(f"{'resume' if resumed else 'requeue'} job {key.name} successfully")
    return 0


async def hold(arguments: argparse.Namespace, session: Session) -> int:
    """Keeps a waiting job from starting."""
    key = objects.target(arguments, session, MANDATORY.format("hold"))
    await hold_job(session.client, session.clock, key)
    session.write(f"suspend job {key.name} successfully")
    return 0


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
    await update_job(
        session.client, key, priority=arguments.priority, queue=arguments.queue, workers=arguments.workers
    )
    session.write(f"update job {key.name} successfully")
    return 0
