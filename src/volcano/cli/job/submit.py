"""`vcctl submit`: creates a gang from a command line."""

import argparse
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from volcano.cli import flags
from volcano.cli.errors import CommandError, NoServer, UsageError, near
from volcano.cli.job import batch_options
from volcano.cli.job.env_file import read_env_file
from volcano.cli.job.node_facts import inspect_nodes
from volcano.cli.job.pod_files import NO_FILES, FileObjects, PodFiles, add_files
from volcano.cli.job.submission_files import FileRequest, plan_files
from volcano.cli.objects import find, namespace
from volcano.cli.printing.output import render_one
from volcano.cli.session import Session
from volcano.kube.api import quantity
from volcano.kube.api.errors import Forbidden
from volcano.kube.api.kinds import JOB, PRIORITY_CLASS
from volcano.kube.api.manifest import Key, Manifest, key_of
from volcano.kube.api.names import SCHEDULER_NAME
from volcano.kube.client.protocol import Options

# Job plugins that connect the pods.
PLUGINS = ("svc", "env", "ssh", "pytorch", "mpi", "tensorflow")
FRAMEWORKS = ("pytorch", "mpi", "tensorflow")
# The first worker is the leader, except with mpi, which has a separate launcher without devices.
LED_BY_A_WORKER, LED_BY_A_LAUNCHER = ("pytorch",), ("mpi",)
# Default images by program.
IMAGES = (("python", "python:3"), ("", "busybox"))
DEFAULT_IMAGE = "VOLCANO_DEFAULT_IMAGE"
GPU = "nvidia.com/gpu"
SSHD = ["/bin/sh", "-c", "mkdir -p /var/run/sshd && exec /usr/sbin/sshd -D"]
NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class Submission:
    """Parsed command line."""

    command: Sequence[str]
    name: str = ""
    workers: int = 1
    gpus: int = 0
    gpu_resource: str = GPU
    cpus: str = "1"
    memory: str = "1Gi"
    image: str = "busybox"
    queue: str = ""
    min_available: int | None = None
    priority_class: str = ""
    retries: int = 0
    env: Mapping[str, str] = field(default_factory=dict)
    plugins: Sequence[str] = ()
    keep: int | None = None
    files: PodFiles = NO_FILES


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
    await check_priority_class(session, submission.priority_class)
    files = await plan_files(_file_request(arguments, submission), session, await inspect_nodes(session))
    created = await create_job(session, files, home, make_job)
    key = key_of(created)
    if arguments.output:
        session.write(render_one(arguments.output, JOB, created))
    else:
        session.write(f"submitted job {key}")
    session.stdout.flush()
    return await _accompanied(arguments, session, created, key)


async def create_job(
    session: Session, files: PodFiles, namespace: str, make_job: Callable[[PodFiles], Manifest]
) -> Manifest:
    """Creates the job and the objects that its files need; none of them stays if the job is rejected."""
    async with FileObjects(session, files, namespace) as objects:
        await objects.create()
        created = await session.client.create(JOB, make_job(files), options=Options(field_manager="vcctl"))
        await objects.set_owner(created)
    return created


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


async def check_priority_class(session: Session, name: str) -> None:
    """Raises an error if the class does not exist: the job's pods would be rejected later, one by one."""
    if not name:
        return
    try:
        await find(session, PRIORITY_CLASS, Key("", name))
    except Forbidden:  # without permission to read the class, the server decides
        return


def _home(arguments: argparse.Namespace, session: Session) -> str:
    """Namespace to submit to; a dry run needs no cluster."""
    try:
        return namespace(arguments, session)
    except NoServer:
        if not arguments.dry_run:
            raise
        return "default"


async def _accompanied(arguments: argparse.Namespace, session: Session, job: Manifest, key: Key) -> int:
    """Follows the job as requested; the exit code is the job's result."""
    if arguments.follow:
        from volcano.cli.job.log_follow import follow
        from volcano.cli.job.log_sources import Wanted

        phase = await follow(session, job, Wanted())
        if phase != "Completed":
            raise CommandError(f"job {key} ended {phase}")
    elif arguments.wait:
        from volcano.cli.job.wait import wait_for

        session.write(f"job {key} {await wait_for(session, key, ('Completed',))}")
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
        try:
            quantity.parse(getattr(arguments, flag))
        except ValueError as error:
            raise UsageError(f"--{flag}: {error}") from None
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


def command_of(words: Sequence[str]) -> list[str]:
    """Command as given; a single word with spaces is run by a shell."""
    return ["/bin/sh", "-c", words[0]] if len(words) == 1 and len(words[0].split()) > 1 else list(words)


def image_for(words: Sequence[str]) -> str:
    """Default image for the program of a command line."""
    program = words[0].split()[0].rpartition("/")[2] if words[0].split() else ""
    return next(image for start, image in IMAGES if program.startswith(start))


def variables(given: Sequence[str], environment: Mapping[str, str]) -> dict[str, str]:
    """`K=V` as given, `K` with its value in this environment."""
    found = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not name or (not equals and name not in environment):
            raise UsageError(f"--env: {text!r} must be K=V, or the name of a variable that is set here")
        found[name] = value if equals else environment[name]
    return found


def name_from(words: Sequence[str]) -> str:
    """Job name from the script or program: `python train.py` gives `train`."""
    scripts = [word for word in words if re.fullmatch(r"[^\s-]\S*\.(py|sh|R|jl|js|pl)", word)]
    stem = (
        (scripts or [words[0].split()[0] if words[0].split() else "job"])[0]
        .rpartition("/")[2]
        .partition(".")[0]
    )
    cleaned = re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-")[:40]
    return cleaned.strip("-") or "job"


@dataclass(frozen=True, slots=True)
class Role:
    """One task of the job."""

    name: str
    replicas: int
    command: Sequence[str]
    devices: bool = True
    leads: bool = False


def roles(submission: Submission) -> list[Role]:
    """Tasks of the job: workers, and a leader if needed."""
    if any(plugin in LED_BY_A_LAUNCHER for plugin in submission.plugins):
        launcher = Role("master", 1, submission.command, devices=False, leads=True)
        return [launcher, Role("worker", submission.workers, SSHD)]
    if any(plugin in LED_BY_A_WORKER for plugin in submission.plugins):
        rest = [Role("worker", submission.workers - 1, submission.command)] if submission.workers > 1 else []
        return [Role("master", 1, submission.command, leads=True), *rest]
    return [Role("worker", submission.workers, submission.command)]


def job_of(submission: Submission, namespace: str) -> Manifest:
    """Builds the job."""
    tasks = roles(submission)
    pods = sum(role.replicas for role in tasks)
    metadata: Manifest = (
        {"name": submission.name}
        if submission.name
        else {"generateName": f"{name_from(submission.command)}-"}
    )
    policies = [{"event": "PodEvicted", "action": "RestartJob"}]
    if submission.retries:
        policies.append({"event": "PodFailed", "action": "RestartJob"})
    spec: Manifest = {
        "minAvailable": pods if submission.min_available is None else submission.min_available,
        "schedulerName": SCHEDULER_NAME,
        **({"queue": submission.queue} if submission.queue else {}),
        **({"priorityClassName": submission.priority_class} if submission.priority_class else {}),
        **({"ttlSecondsAfterFinished": submission.keep} if submission.keep is not None else {}),
        **({"plugins": {name: [] for name in wiring(submission)}} if wiring(submission) else {}),
        **({"maxRetry": submission.retries} if submission.retries else {}),
        "policies": policies,
        "tasks": [_task(role, submission) for role in tasks],
    }
    return {
        "apiVersion": JOB.api_version,
        "kind": JOB.kind,
        "metadata": {**metadata, "namespace": namespace},
        "spec": spec,
    }


def wiring(submission: Submission) -> list[str]:
    """Requested plugins and the plugins they depend on (svc for names, ssh for keys)."""
    needed = list(submission.plugins)
    if any(plugin in FRAMEWORKS for plugin in needed) and "svc" not in needed:
        needed.append("svc")
    if "mpi" in needed and "ssh" not in needed:
        needed.append("ssh")
    return needed


def _task(role: Role, submission: Submission) -> Manifest:
    requests = {"cpu": submission.cpus, "memory": submission.memory}
    resources: Manifest = {"requests": requests}
    if submission.gpus and role.devices:
        devices = {submission.gpu_resource: str(submission.gpus)}
        resources = {"requests": {**requests, **devices}, "limits": devices}
    container: Manifest = {
        "name": role.name,
        "image": submission.image,
        "imagePullPolicy": "IfNotPresent",
        "command": list(role.command),
        "resources": resources,
    }
    if submission.env:
        container["env"] = [{"name": name, "value": value} for name, value in submission.env.items()]
    pod_spec: Manifest = {"restartPolicy": "Never", "containers": [container]}
    add_files(submission.files, pod_spec, submission.image)
    task: Manifest = {"name": role.name, "replicas": role.replicas, "template": {"spec": pod_spec}}
    if role.leads:
        # The job is complete when the leader has completed.
        task["policies"] = [{"event": "TaskCompleted", "action": "CompleteJob"}]
    return task
