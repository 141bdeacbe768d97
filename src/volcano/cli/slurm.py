"""`vsub`, `vjobs`, `vqueues`, `vcancel`, `vsuspend` and `vresume` for Slurm users. Here `-n` is the name."""

import argparse
import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from volcano.cli import flags, objects
from volcano.cli.errors import UsageError, value_of
from volcano.cli.job import manage, submit
from volcano.cli.job.batch_options import command_of_script
from volcano.cli.job.list import keep_of
from volcano.cli.job.list import listing as jobs_listing
from volcano.cli.job.view import view
from volcano.cli.listing import Listing, Objects, show, show_one
from volcano.cli.parsing import Parser
from volcano.cli.printing.tables import Column
from volcano.cli.queue.list import columns as queue_columns
from volcano.cli.session import Session
from volcano.kube.api.kinds import JOB, POD_GROUP, QUEUE
from volcano.kube.api.manifest import Key
from volcano.services.jobs import delete_job
from volcano.services.objects import find
from volcano.services.submit.script import read_script

IMAGE = "VOLCANO_DEFAULT_IMAGE"
NAMESPACE = "VOLCANO_DEFAULT_JOB_NAMESPACE"
SCHEDULER = "VOLCANO_SCHEDULER_NAME"
QUEUE_COLUMNS = ("Name", "Weight", "State", "Inqueue", "Pending", "Running", "Unknown")


def _add_target(parser: argparse.ArgumentParser, *, namespace: str = "") -> None:
    parser.add_argument("position", nargs="?", default="", metavar="NAME", help="name of the job")
    parser.add_argument("-n", "--name", default="", help="name of the job")
    parser.add_argument("-N", "--namespace", default=namespace, help="namespace (default: of the context)")
    parser.set_defaults(short_n="")


def vsub_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds flags; some defaults come from the environment."""
    _add_target(parser, namespace=os.environ.get(NAMESPACE, ""))
    manage.add_job(
        parser,
        image=os.environ.get(IMAGE) or manage.IMAGE,
        scheduler=os.environ.get(SCHEDULER) or manage.SCHEDULER,
    )
    parser.add_argument("-c", "--command", dest="line", default="", help="command line to run")
    parser.add_argument("words", nargs="*", metavar="ARGUMENT", help="arguments of the script")
    parser.description = (
        "Submit a job, or a batch script with #VC, #SBATCH or #BSUB lines: vsub SCRIPT [ARGUMENT ...].\n"
        "#VC lines have the flags of vcctl submit."
    )


async def vsub(arguments: argparse.Namespace, session: Session) -> int:
    """Submits a job, or a batch script."""
    if arguments.position and not arguments.line and Path(arguments.position).is_file():
        return await _submit_script(arguments, session)
    key = objects.target(arguments, session, "job name cannot be left blank")
    with value_of(f"--command: {arguments.line!r}"):
        command = shlex.split(arguments.line)
    created = await session.client.create(JOB, manage.new_job(key, arguments, command))
    session.write(f"run job {created['metadata']['name']} successfully")
    return 0


async def _submit_script(arguments: argparse.Namespace, session: Session) -> int:
    """Submits a script with the options in its lines; a name and a namespace of the command line win."""
    script = read_script(Path(arguments.position))
    for remark in script.remarks:
        session.warn(remark)
    command = command_of_script(script.interpreter, script.content, script.name, arguments.words)
    own = ["--name", arguments.name] if arguments.name else []
    own += ["--namespace", arguments.namespace] if arguments.namespace else []
    parser = Parser(prog=f"vsub {arguments.position}")
    submit.run_arguments(parser)
    try:
        parsed = parser.parse_args([*script.flags, *own, "--", *command])
    except UsageError as error:
        raise UsageError(f"{arguments.position}: {error}") from None
    return await submit.run(parsed, session)


def vjobs_arguments(parser: argparse.ArgumentParser) -> None:
    _add_target(parser)
    parser.add_argument("-S", "--scheduler", default="", help="only jobs for this scheduler")
    parser.add_argument(
        "--selector", default="", metavar="TEXT", help="only jobs with this text in their name"
    )
    flags.add_everywhere(parser)
    flags.add_list_alone(parser)


async def vjobs(arguments: argparse.Namespace, session: Session) -> int:
    """Lists jobs, or shows one."""
    if arguments.position or arguments.name:
        return await view(session, objects.target(arguments, session, ""), arguments.output)
    return await show(jobs_listing(session, keep_of(arguments)), arguments, session)


def vqueues_arguments(parser: argparse.ArgumentParser) -> None:
    flags.add_named(parser, "queue")
    flags.add_list(parser, namespaced=False)


async def vqueues(arguments: argparse.Namespace, session: Session) -> int:
    """Lists queues, or shows one."""
    listing = Listing(QUEUE, _queue_columns, also=(POD_GROUP,))
    name = arguments.position or arguments.name
    if name:
        return await show_one(listing, await find(session.client, QUEUE, Key("", name)), arguments, session)
    return await show(listing, arguments, session)


def _queue_columns(objects: Objects) -> Sequence[Column]:
    return [column for column in queue_columns(objects) if column.header in QUEUE_COLUMNS or column.wide]


def vcancel_arguments(parser: argparse.ArgumentParser) -> None:
    _add_target(parser)


vsuspend_arguments = vresume_arguments = vcancel_arguments


async def vcancel(arguments: argparse.Namespace, session: Session) -> int:
    """Deletes a job."""
    key = objects.target(arguments, session, manage.MANDATORY.format("cancel"))
    await delete_job(session.client, session.clock, key)
    session.write(f"cancel job {key.name} successfully")
    return 0


async def vsuspend(arguments: argparse.Namespace, session: Session) -> int:
    """Suspends a job."""
    await manage.request_suspend(
        session, objects.target(arguments, session, manage.MANDATORY.format("suspend"))
    )
    return 0


async def vresume(arguments: argparse.Namespace, session: Session) -> int:
    """Resumes a suspended job."""
    await manage.request_resume(
        session, objects.target(arguments, session, manage.MANDATORY.format("resume"))
    )
    return 0
