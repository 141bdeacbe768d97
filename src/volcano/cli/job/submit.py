"""`vcctl submit`: creates a gang from a command line."""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace

from volcano.cli import flags
from volcano.cli.errors import CommandError, UsageError, near, value_of
from volcano.cli.job import batch_options
from volcano.cli.job.env_file import read_env_file
from volcano.cli.objects import namespace
from volcano.cli.printing.output import render_one
from volcano.cli.session import Session
from volcano.kube.api import quantity
from volcano.kube.api.kinds import JOB
from volcano.kube.api.manifest import Key, Manifest, key_of
from volcano.services.errors import Unreachable
from volcano.services.jobs import check_priority_class
from volcano.services.submit.files import FileRequest, plan_files
from volcano.services.submit.node_facts import inspect_nodes
from volcano.services.submit.pod_files import NO_FILES, PodFiles
from volcano.services.submit.submission import (
    GPU,
    NAME,
    PLUGINS,
    Submission,
    command_of,
    create_job,
    image_for,
    job_of,
    name_from,
    roles,
)

DEFAULT_IMAGE = "VOLCANO_DEFAULT_IMAGE"


def run_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--name", "-N", default="", help="name of the job (default: name of the script with a suffix)")
    flags.add_namespace(parser)
    add(
        "--workers",
        "-w",
        type=int,
        default=1,
        metavar="N",
        help="number of pods that run the command (default 1)",
    )
    add("--gpus", type=int, default=0, metavar="N", help="GPUs of each worker (default 0)")
    add("--gpu-resource", default=GPU, metavar="NAME", help=f"resource name of the devices (default {GPU})")
    add("--cpus", default="1", metavar="AMOUNT", help="CPUs of each worker (default 1)")
    add("--memory", default="1Gi", metavar="AMOUNT", help="memory of each worker (default 1Gi)")
    add(
        "--image",
        "-i",
        default="",
        help=f"image (default: ${DEFAULT_IMAGE}, else python:3 for Python and busybox otherwise)",
    )
    add("--queue", "-q", default="", help="queue (default: the cluster's default queue)")
    add(
        "--min-available",
        "-m",
        type=int,
        default=None,
        metavar="N",
        help="number of pods that start together (default: all)",
    )
    add("--priority-class", default="", metavar="NAME", help="the priority class")
    add(
        "--retries",
        type=int,
        default=0,
        metavar="N",
        help="how often the job is restarted when a pod fails (default 0)",
    )
    add(
        "--env",
        "-e",
        action="append",
        default=[],
        metavar="K=V",
        help="variable; K alone copies the value from your environment; repeatable",
    )
    add(
        "--env-file",
        action="append",
        default=[],
        metavar="FILE",
        help="file of variables, NAME=value on each line; --env overrides it; repeatable",
    )
    _add_file_flags(parser)
    add("--plugin", action="append", default=[], metavar="NAME", help=f"{', '.join(PLUGINS)}; repeatable")
    add("--ttl", type=int, default=None, metavar="SECONDS", help="delete this many seconds after it finishes")
    add("--dry-run", action="store_true", help="print the job instead of submitting it (-o yaml or json)")
    add("-o", "--output", default="", type=flags.output_format, metavar="FORMAT", help="json, yaml or name")
    add("--follow", "-f", action="store_true", help="print the pods' logs until the job ends")
    add("--wait", action="store_true", help="wait until the job is completed")
    add("words", nargs="*", metavar="COMMAND", help="after two dashes: command of every worker")
    batch_options.add_arguments(parser)
    parser.usage = "%(prog)s [FLAGS] -- COMMAND [ARGUMENT ...]"


def _add_file_flags(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--workdir",
        default="",
        metavar="DIR",
        help="directory to run in, mounted read-write on local nodes (default: the current directory)",
    )
    add(
        "--upload",
        action="store_true",
        help="send a copy of the directory instead, without what .gitignore excludes (8 MiB at most)",
    )
    add(
        "--output-claim",
        default="",
        metavar="NAME",
        help="PersistentVolumeClaim for $VOLCANO_OUTPUT (default: a new one on local nodes, else none)",
    )


async def run(arguments: argparse.Namespace, session: Session) -> int:
    submission = parse_submission(arguments, session.environment)
    home = _home(arguments, session)

    def make_job(files: PodFiles) -> Manifest:
        return batch_options.apply_options(job_of(replace(submission, files=files), home), arguments)

    job = make_job(NO_FILES)  # invalid options are reported before anything is created
    if arguments.dry_run:
        session.write(render_one(arguments.output or "yaml", JOB, job))
        return 0
    await check_priority_class(session.client, submission.priority_class)
    request, nodes = _file_request(arguments, submission), await inspect_nodes(session.client)
    plan = await plan_files(request, session.connection, nodes)
    for note in plan.notes:
        session.warn(note)
    created = await create_job(session.client, plan.files, home, make_job, session.warn)
    key = key_of(created)
    if arguments.output:
        session.write(render_one(arguments.output, JOB, created))
    else:
        session.write(f"submitted job {key}")
    session.stdout.flush()
    return await _accompanied(arguments, session, created, key)


def _file_request(arguments: argparse.Namespace, submission: Submission) -> FileRequest:
    devices = {submission.gpu_resource: str(submission.gpus)} if submission.gpus else {}
    return FileRequest(
        stem=submission.name or name_from(submission.command),
        command=submission.command,
        requests={"cpu": submission.cpus, "memory": submission.memory, **devices},
        image=arguments.image,
        working_directory=arguments.workdir,
        upload=arguments.upload,
        output_claim=arguments.output_claim,
    )


def _home(arguments: argparse.Namespace, session: Session) -> str:
    """Namespace to submit to; a dry run needs no cluster."""
    try:
        return namespace(arguments, session)
    except Unreachable:
        if not arguments.dry_run:
            raise
        return "default"


async def _accompanied(arguments: argparse.Namespace, session: Session, job: Manifest, key: Key) -> int:
    """Follows the job as requested; the exit code is the job's result."""
    if arguments.follow:
        from volcano.cli.job.logs import follow
        from volcano.services.logs.sources import Wanted

        phase = await follow(session, job, Wanted())
        if phase != "Completed":
            raise CommandError(f"job {key} ended {phase}")
    elif arguments.wait:
        from volcano.cli.job.wait import wait

        await wait(session, key)
    return 0


def parse_submission(arguments: argparse.Namespace, environment: Mapping[str, str]) -> Submission:
    """Validates the flags."""
    if not arguments.words:
        raise UsageError(
            "say what to run after two dashes, such as: vcctl submit --workers 4 -- python train.py"
        )
    for flag, least in (("workers", 1), ("gpus", 0), ("retries", 0), ("ttl", 0)):
        value = getattr(arguments, flag)
        if value is not None and value < least:
            raise UsageError(f"--{flag}: must be {least} or more (got {value})")
    for flag in ("cpus", "memory"):
        with value_of(f"--{flag}"):
            quantity.parse(getattr(arguments, flag))
    if arguments.name and not NAME.fullmatch(arguments.name):
        raise UsageError(f"--name: {arguments.name!r} must be lower case letters, digits and dashes")
    for plugin in arguments.plugin:
        if plugin not in PLUGINS:
            raise UsageError(f"--plugin: {plugin!r} is none of {', '.join(PLUGINS)}{near(plugin, PLUGINS)}")
    if arguments.dry_run and (arguments.workdir or arguments.upload or arguments.output_claim):
        raise UsageError(
            "--dry-run prints the job alone, without files: leave out --workdir, --upload and --output-claim"
        )
    from_files = {name: value for path in arguments.env_file for name, value in read_env_file(path).items()}
    submission = Submission(
        command=command_of(arguments.words),
        name=arguments.name,
        workers=arguments.workers,
        gpus=arguments.gpus,
        gpu_resource=arguments.gpu_resource,
        cpus=arguments.cpus,
        memory=arguments.memory,
        image=arguments.image or environment.get(DEFAULT_IMAGE) or image_for(arguments.words),
        queue=arguments.queue,
        min_available=arguments.min_available,
        priority_class=arguments.priority_class,
        retries=arguments.retries,
        env=from_files | variables(arguments.env, environment),
        plugins=tuple(dict.fromkeys(arguments.plugin)),
        keep=arguments.ttl,
    )
    pods = sum(role.replicas for role in roles(submission))
    if submission.min_available is not None and not 1 <= submission.min_available <= pods:
        raise UsageError(
            f"--min-available: {submission.min_available} is not between 1 and {pods}, the number of pods"
        )
    return submission


def variables(given: Sequence[str], environment: Mapping[str, str]) -> dict[str, str]:
    """`K=V` as given, `K` with its value in this environment."""
    found = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not name or (not equals and name not in environment):
            raise UsageError(f"--env: {text!r} must be K=V, or the name of a variable that is set here")
        found[name] = value if equals else environment[name]
    return found
