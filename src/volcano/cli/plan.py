"""`vcctl plan`: shows what would happen to a job, without creating it."""

import argparse
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from volcano.cli import flags
from volcano.cli.errors import CommandError, NoServer, UsageError
from volcano.cli.plan_screen import show
from volcano.cli.printing.output import render
from volcano.cli.session import Session
from volcano.kube.api.errors import ApiError
from volcano.kube.api.kinds import JOB, NAMESPACE
from volcano.kube.api.manifest import Key, Manifest
from volcano.services.objects import find

if TYPE_CHECKING:
    from volcano.analysis.plan.plan import PlannedJob, Subject
    from volcano.analysis.rerun.state import ClusterState
    from volcano.scheduler.engine.config import Config
    from volcano.scheduler.options import SchedulerOptions

NOT_NOW = 5  # exit code: the job would not start now
OUTPUTS = ("", "table", "json", "yaml")


def run_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "-f",
        "--filename",
        default="",
        metavar="FILE",
        help="YAML or JSON file with jobs; - for standard input",
    )
    add("--from-running", default="", metavar="NAME", help="a job that exists, with another number of pods")
    add("--replicas", type=int, default=None, metavar="N", help="with --from-running: the number of pods")
    add("--task", default="", metavar="TASK", help="with --replicas: the task that is scaled")
    add(
        "--allow-preempt",
        action="store_true",
        help="let the scheduler evict pods for the job, and show which",
    )
    add(
        "--scheduler-conf",
        default="",
        metavar="FILE",
        help="configuration to plan with (default: that of the scheduler)",
    )
    flags.add_namespace(parser)
    add("-o", "--output", default="", metavar="FORMAT", help="table, json or yaml")


async def run(arguments: argparse.Namespace, session: Session) -> int:
    """Plans the jobs of a file, or a running job with other replicas. Creates nothing."""
    _check(arguments)
    from volcano.analysis.plan.plan import as_data

    namespace = arguments.namespace or arguments.short_n or session.namespace
    planned = (
        await _plan_running(arguments, session, namespace)
        if arguments.from_running
        else await plan_new(
            session,
            _documents(arguments.filename),
            namespace,
            source=arguments.filename,
            scheduler_conf=arguments.scheduler_conf,
            allow_preempt=arguments.allow_preempt,
        )
    )
    if arguments.output in ("json", "yaml"):
        session.write(render(arguments.output, {"jobs": [as_data(job) for job in planned]}))
    else:
        show(session, planned, allow_preempt=arguments.allow_preempt)
    return 0 if all(job.starts for job in planned) else NOT_NOW


async def plan_new(
    session: Session,
    documents: Sequence[Manifest],
    namespace: str,
    *,
    source: str,
    scheduler_conf: str = "",
    allow_preempt: bool,
) -> "list[PlannedJob]":
    """Plans of jobs that do not exist yet. `namespace` is that of objects that name none, `source` is where they are
    from; what the plan does not take into account is written to the session's standard error."""
    from volcano.analysis.plan.plan import plan

    options, config, state = await _read(session, scheduler_conf)
    subjects, state = await _new(session, documents, namespace, source, state, options)
    return plan(state, config, subjects, allow_preempt=allow_preempt)


async def _plan_running(
    arguments: argparse.Namespace, session: Session, namespace: str
) -> "list[PlannedJob]":
    from volcano.analysis.plan.plan import plan

    _, config, state = await _read(session, arguments.scheduler_conf)
    subjects = await _scaled(arguments, session, namespace, state)
    return plan(state, config, subjects, allow_preempt=arguments.allow_preempt)


def _check(arguments: argparse.Namespace) -> None:
    if bool(arguments.filename) is bool(arguments.from_running):
        raise UsageError("give either a file with -f, or a job that exists with --from-running")
    if arguments.replicas is not None and not arguments.from_running:
        raise UsageError("--replicas belongs to --from-running; in a file, change the replicas of the task")
    if arguments.replicas is not None and arguments.replicas < 1:
        raise UsageError(f"--replicas: {arguments.replicas} is less than 1")
    if arguments.from_running and arguments.replicas is None:
        raise UsageError("--from-running needs --replicas N")
    if arguments.output not in OUTPUTS:
        raise UsageError(f"-o: {arguments.output!r} is none of table, json, yaml")


def _documents(path: str) -> list[Manifest]:
    from volcano.embedded.files import FileError, read_files

    try:
        documents = read_files([path])
    except FileError as error:
        raise CommandError(str(error)) from None
    if not documents:
        raise CommandError(f"{path}: there is no object in this file")
    return [document.manifest for document in documents]


async def _read(session: Session, scheduler_conf: str) -> "tuple[SchedulerOptions, Config, ClusterState]":
    """The scheduler's options, its configuration or the chosen one, and the objects that it reads."""
    from volcano.analysis.rerun.live_config import read_options

    options = await read_options(session.client)
    config = await _config(scheduler_conf, session)
    return options, config, await _state(session, options, config)


async def _config(chosen: str, session: Session) -> "Config":
    """The configuration of the scheduler, or the chosen one."""
    from volcano.analysis.rerun.live_config import read_config
    from volcano.scheduler.engine.config import PRESETS, ConfigError, parse, shipped

    if not chosen:
        live = await read_config(session.client)
        if live.note:
            session.warn(f"note: {live.note}")
        return live.config
    try:
        if chosen in PRESETS:
            return parse(shipped(PRESETS[chosen]), chosen)
        with open(chosen, encoding="utf-8") as file:
            return parse(file.read(), chosen)
    except ConfigError as error:
        raise CommandError(str(error)) from None


async def _state(session: Session, options: "SchedulerOptions", config: "Config") -> "ClusterState":
    from volcano.analysis.rerun.state import ClusterState, MissingRights

    try:
        state = await ClusterState.read(session.client, session.clock, options, config=config)
    except MissingRights as error:
        raise NoServer(f"a plan needs the objects that the scheduler reads, and {error}") from None
    if state.not_listed:
        names = ", ".join(kind.plural for kind in state.not_listed)
        session.warn(f"note: you may not list {names}; the plan does not take them into account")
    return state


async def _new(
    session: Session,
    documents: Sequence[Manifest],
    namespace: str,
    source: str,
    state: "ClusterState",
    options: "SchedulerOptions",
) -> "tuple[list[Subject], ClusterState]":
    """The jobs of a file, and the state with the other objects of it."""
    from volcano.analysis.plan.new_jobs import InvalidManifest, new_objects
    from volcano.analysis.plan.plan import Subject
    from volcano.embedded.admission import admission_options

    used = {(document["metadata"].get("namespace") or namespace) for document in documents}
    try:
        found = new_objects(
            documents,
            state,
            namespace=namespace,
            options=admission_options(),
            namespaces=await _namespaces(session, used),
            serves_default=options.serve_default,
        )
    except InvalidManifest as error:
        raise CommandError(str(error)) from None
    for title in found.ignored:
        session.warn(f"note: {title} is not scheduled and has no part in the plan")
    if not found.jobs:
        raise CommandError(f"{source}: there is no Job, PodGroup or Pod in this file")
    subjects = [Subject(job.uid, job.title, job.change) for job in found.jobs]
    return subjects, state.with_events(found.others) if found.others else state


async def _namespaces(session: Session, used: set[str]) -> Mapping[str, Manifest]:
    """The namespaces that may be read: their annotations choose queues."""
    found = {}
    for name in sorted(used):
        try:
            found[name] = await session.client.get(NAMESPACE, Key("", name))
        except ApiError:
            continue
    return found


async def _scaled(
    arguments: argparse.Namespace, session: Session, namespace: str, state: "ClusterState"
) -> "list[Subject]":
    """A job that exists, with other replicas."""
    import orjson

    from volcano.analysis.plan.plan import Subject
    from volcano.analysis.plan.scaling import ScaleJob, ScalingError, scaled

    key = Key(namespace, arguments.from_running)
    job = await find(session.client, JOB, key)
    try:
        wanted = scaled(job, arguments.replicas, arguments.task)
    except ScalingError as error:
        raise UsageError(str(error)) from None
    uid = f"{key.namespace}/{key.name}-{job['metadata']['uid']}"
    if state.group(uid) is None:
        phase = ((job.get("status") or {}).get("state") or {}).get("phase") or "Pending"
        raise CommandError(f"job {key} is {phase} and has no PodGroup; plan a new one with -f")
    change: Any = ScaleJob(orjson.dumps(wanted))
    return [Subject(uid, f"Job {key} with {arguments.replicas} replicas", change, whole=True)]
