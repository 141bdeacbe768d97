"""`vcctl job logs`: the logs of a job's pods, interleaved, each line under the name of its pod."""

import argparse
import asyncio
import math
from collections.abc import Coroutine, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from volcano.apiserver.tables.reading import at, items, number
from volcano.cli import flags
from volcano.cli.errors import CommandError, Missing, UsageError, near
from volcano.cli.following import ENDS, ended, phase_of, states, why
from volcano.cli.loglines import Line, Seen, colour_of, in_order, parse_line
from volcano.cli.naming import find, target
from volcano.cli.session import Session
from volcano.clients.requests import path_of, with_query
from volcano.kube import duration
from volcano.kube.client import Query
from volcano.kube.errors import ApiError, BadRequest, InternalError, NotFound, TooManyRequests, Unavailable
from volcano.kube.kinds import JOB, POD
from volcano.kube.manifest import Key, Manifest, annotations_of, key_of, labels_of, uid_of
from volcano.kube.mirror import Mirror
from volcano.kube.names import JOB_NAME, TASK_INDEX, TASK_SPEC
from volcano.kube.reconciler import Watch

DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"
PLAIN = "\x1b[0m"
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 10.0
DRAIN = 10.0  # seconds in which pods may say their last after their job has ended


def run_arguments(parser: argparse.ArgumentParser) -> None:
    flags.add_target(parser, "job")
    add = parser.add_argument
    add(
        "-f", "--follow", action="store_true", help="stay, follow pods that start later, and end with the job"
    )
    add(
        "-t",
        "--task",
        default="",
        metavar="TASK",
        help="only this task's pods (default: the pods of every task)",
    )
    add("-i", "--index", type=int, default=None, metavar="N", help="only the pods of this index")
    add("--all", action="store_true", help="every container of every pod, init containers included")
    add("-c", "--container", default="", metavar="NAME", help="this container (default: each pod's main one)")
    add("--tail", type=int, default=None, metavar="N", help="only the last N lines of each pod")
    add("--since", default="", metavar="TIME", help="only lines younger than this, such as 10s, 5m or 1h")
    add("-p", "--previous", action="store_true", help="of the container that ran before the last restart")
    add("--timestamps", action="store_true", help="print when each line was written")
    add("--no-prefix", action="store_true", help="print the lines alone, without the pod's name")
    parser.epilog = "All pods of the job are shown unless --task or --index says otherwise."


async def run(arguments: argparse.Namespace, session: Session) -> int:
    wanted = wanted_of(arguments)
    key = target(arguments, session, "job name is mandatory to read the logs of a particular job")
    job = await find(session, JOB, key)
    check(wanted, job)
    if arguments.follow:
        await follow(session, job, wanted)
        return 0
    return await print_once(session, job, wanted)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which lines of which containers are asked for."""

    task: str = ""
    index: int | None = None
    container: str = ""
    all_containers: bool = False
    tail: int | None = None
    since: float | None = None
    previous: bool = False
    timestamps: bool = False
    prefix: bool = True

    def takes(self, pod: Manifest) -> bool:
        task, index = place_of(pod)
        return self.task in ("", task) and self.index in (None, index)


def wanted_of(arguments: argparse.Namespace) -> Wanted:
    """What the flags ask for."""
    if arguments.tail is not None and arguments.tail < 0:
        raise UsageError(f"--tail: {arguments.tail} is negative; give a number of lines")
    if arguments.all and arguments.container:
        raise UsageError("--all and --container exclude each other: all containers, or one")
    if arguments.follow and arguments.previous:
        raise UsageError("--follow and --previous exclude each other: what is over cannot be followed")
    since = None
    if arguments.since:
        try:
            since = duration.parse(arguments.since)
        except ValueError as error:
            raise UsageError(f"--since: {error}") from None
    return Wanted(
        arguments.task, arguments.index, arguments.container, arguments.all, arguments.tail, since,
        arguments.previous, arguments.timestamps, not arguments.no_prefix,
    )  # fmt: skip


def check(wanted: Wanted, job: Manifest) -> None:
    """Refuses tasks and indices that the job does not have."""
    replicas = {str(task.get("name", "")): number(task, "replicas") for task in items(job, "spec", "tasks")}
    name = job["metadata"]["name"]
    if wanted.task and wanted.task not in replicas:
        known = ", ".join(replicas)
        raise Missing(f"job {name!r} has no task {wanted.task!r}, but {known}{near(wanted.task, replicas)}")
    containers = {
        str(container.get("name", ""))
        for task in items(job, "spec", "tasks")
        for part in ("containers", "initContainers")
        for container in items(task, "template", "spec", part)
    }
    if wanted.container and wanted.container not in containers:
        known = ", ".join(sorted(containers))
        raise Missing(
            f"job {name!r} has no container {wanted.container!r}, but {known}{near(wanted.container, containers)}"
        )
    chosen = [replicas[wanted.task]] if wanted.task else list(replicas.values())
    if wanted.index is not None and not 0 <= wanted.index < max(chosen, default=0):
        raise Missing(f"job {name!r} has no pod of index {wanted.index}: they go from 0 to {max(chosen) - 1}")


def place_of(pod: Manifest) -> tuple[str, int]:
    """The task and index of a pod; the pod's own name stands in for a task."""
    task = labels_of(pod).get(TASK_SPEC) or annotations_of(pod).get(TASK_SPEC) or key_of(pod).name
    index = labels_of(pod).get(TASK_INDEX) or annotations_of(pod).get(TASK_INDEX) or "0"
    return task, int(index) if index.isdecimal() else 0


@dataclass(frozen=True, slots=True)
class Source:
    """One container of one pod."""

    pod: Key
    container: str
    title: str
    colour: str


def sources(pod: Manifest, job: Manifest, wanted: Wanted) -> list[Source]:
    """The containers of a pod that are asked for, each with the name and colour its lines go under."""
    task, index = place_of(pod)
    names = [str(each.get("name", "")) for each in items(job, "spec", "tasks")]
    colour = colour_of(names.index(task) if task in names else len(names), index)
    containers = _containers(pod, wanted)
    title = f"{task}-{index}"
    return [
        Source(
            key_of(pod),
            name,
            f"{title}/{name}" if wanted.all_containers and len(containers) > 1 else title,
            colour,
        )
        for name in containers
    ]


def _containers(pod: Manifest, wanted: Wanted) -> list[str]:
    main = [str(container["name"]) for container in items(pod, "spec", "containers")]
    if wanted.all_containers:
        return [*(str(container["name"]) for container in items(pod, "spec", "initContainers")), *main]
    if wanted.container:
        return [wanted.container]
    preferred = annotations_of(pod).get(DEFAULT_CONTAINER, "")
    return [preferred] if preferred in main else main[:1]


def target_of(source: Source, wanted: Wanted, *, follow: bool = False, since: str = "") -> str:
    """Where the log of a container is asked for."""
    seconds = "" if wanted.since is None or since else str(max(math.ceil(wanted.since), 1))
    parameters = {
        "container": source.container,
        "follow": "true" if follow else "",
        "previous": "true" if wanted.previous else "",
        "tailLines": "" if wanted.tail is None or since else str(wanted.tail),
        "sinceSeconds": seconds,
        "sinceTime": since,
        "timestamps": "true",
    }
    return with_query(path_of(POD, source.pod.namespace, source.pod.name, "log"), parameters)


class Printer:
    """Prints lines under their pod's name, in columns that line up."""

    def __init__(self, session: Session, job: Manifest, wanted: Wanted) -> None:
        self._session = session
        self._wanted = wanted
        last = [
            f"{task.get('name', '')}-{max(number(task, 'replicas') - 1, 0)}"
            for task in items(job, "spec", "tasks")
            if wanted.task in ("", task.get("name"))
        ]
        self._width = max(map(len, last), default=0)

    def line(self, source: Source, line: Line) -> None:
        text = f"{line.stamp} {line.text}" if self._wanted.timestamps and line.stamp else line.text
        if self._wanted.prefix:
            self._width = max(self._width, len(source.title))
            prefix = f"{source.title:<{self._width}} |"
            text = f"{source.colour}{prefix}{PLAIN} {text}" if self._session.colour else f"{prefix} {text}"
        self._session.write(text)

    def flush(self) -> None:
        self._session.stdout.flush()


async def print_once(session: Session, job: Manifest, wanted: Wanted) -> int:
    """Prints what there is, in the order of time; returns 1 when nothing could be read from any pod."""
    key = key_of(job)
    pods = [pod for pod in await _pods(session, key) if wanted.takes(pod)]
    chosen = [source for pod in pods for source in sources(pod, job, wanted)]
    if not chosen:
        reason = await why(session, job)
        session.complain(
            f"job {key} is {phase_of(job)} and has no pods yet" + (f": {reason}" if reason else "")
        )
        return 0
    logs: list[tuple[str, list[Line]]] = []
    by_number = {str(position): source for position, source in enumerate(chosen)}
    failures = 0
    for number_, source in by_number.items():
        try:
            reply = await session.client.raw("GET", target_of(source, wanted))
            logs.append((number_, [parse_line(raw) for raw in reply.body.splitlines()]))
        except (BadRequest, NotFound) as error:
            failures += 1
            session.complain(f"{source.title}: {error.message}")
    printer = Printer(session, job, wanted)
    for number_, line in in_order(logs):
        printer.line(by_number[number_], line)
    return 1 if failures == len(chosen) else 0


async def _pods(session: Session, job: Key) -> list[Manifest]:
    query = Query(job.namespace, labels=f"{JOB_NAME}={job.name}")
    return sorted((await session.client.list(POD, query)).items, key=place_of)


async def follow(session: Session, job: Manifest, wanted: Wanted) -> str:
    """Prints lines as they are written until the job has ended; returns the phase it ended in."""
    follower = Follower(session, job, wanted)
    return await follower.run()


class Follower:
    """Follows every container asked for, those of later pods and of restarts included."""

    def __init__(self, session: Session, job: Manifest, wanted: Wanted) -> None:
        self._session = session
        self._job = job
        self._wanted = wanted
        self._printer = Printer(session, job, wanted)
        self._tasks: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._pods: dict[str, Manifest] = {}  # by uid
        self._changes: dict[str, asyncio.Event] = {}
        self._over = asyncio.Event()
        self._failed: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def run(self) -> str:
        key = key_of(self._job)
        mirror = Mirror(
            self._session.client,
            Watch(POD, key.namespace, f"{JOB_NAME}={key.name}"),
            lambda event: self._heard(event.object, gone=event.type == "DELETED"),
            self._session.clock,
        )
        mirroring = asyncio.create_task(mirror.run())
        ending = asyncio.create_task(self._until_ended(key))
        try:
            await asyncio.wait({ending, self._failed}, return_when=asyncio.FIRST_COMPLETED)
            if self._failed.done():
                return self._failed.result()
            await mirror.synced.wait()
            self._over.set()
            for change in self._changes.values():
                change.set()
            if self._tasks:
                await asyncio.wait(self._tasks.values(), timeout=DRAIN)
            return await ending
        finally:
            for task in (mirroring, ending, *self._tasks.values()):
                await ended(task)
            self._printer.flush()

    async def _until_ended(self, key: Key) -> str:
        said = ""
        async with aclosing(states(self._session, key)) as seen:
            async for job in seen:
                if job is None:
                    self._session.complain(f"job {key} was deleted")
                    return "Deleted"
                if phase_of(job) in ENDS:
                    return phase_of(job)
                reason = await why(self._session, job) if not self._pods else ""
                if reason and reason != said:
                    said = reason
                    self._session.complain(f"job {key} is {phase_of(job)}: {reason}")
        raise CommandError(f"job {key} is no longer watched")

    def _heard(self, pod: Manifest, *, gone: bool) -> None:
        if not self._wanted.takes(pod):
            return
        uid = uid_of(pod)
        self._pods[uid] = pod
        self._changes.setdefault(uid, asyncio.Event()).set()
        if gone:
            self._pods[uid] = {**pod, "status": {**(pod.get("status") or {}), "phase": "Failed"}}
        for source in sources(pod, self._job, self._wanted):
            if (uid, source.container) not in self._tasks and not gone:
                work = self._guarded(self._follow(uid, source))
                self._tasks[uid, source.container] = asyncio.create_task(work)

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        """A refusal that waiting does not cure ends everything."""
        try:
            await work
        except ApiError as error:
            if not self._failed.done():
                self._failed.set_exception(error)

    async def _follow(self, uid: str, source: Source) -> None:
        """One container from its start to its pod's end, through restarts and broken connections."""
        seen, pause = Seen(), FIRST_PAUSE
        change = self._changes[uid]
        while True:
            change.clear()
            finished = self._over.is_set() or at(self._pods[uid], "status", "phase") in (
                "Succeeded",
                "Failed",
            )
            if _has_started(self._pods[uid], source.container) and await self._stream(source, seen, finished):
                pause = FIRST_PAUSE
            if finished:
                return
            try:
                await asyncio.wait_for(change.wait(), pause)
            except TimeoutError:
                pause = min(pause * 2, LONGEST_PAUSE)

    async def _stream(self, source: Source, seen: Seen, finished: bool) -> bool:
        """Prints what is new; returns whether anything was."""
        seen.reopened()
        printed = False
        asked = target_of(source, self._wanted, follow=not finished, since=seen.since)
        try:
            async with aclosing(self._session.client.lines(asked)) as blocks:
                async for block in blocks:
                    for raw in block:
                        line = parse_line(bytes(raw))
                        if seen.is_new(line):
                            self._printer.line(source, line)
                            printed = True
                    self._printer.flush()
        except (Unavailable, TooManyRequests, InternalError, NotFound):
            pass  # the connection broke, or the pod has just gone: what follows is decided by the pod's state
        except BadRequest as error:
            if "waiting to start" not in error.message:
                raise
        return printed


def _has_started(pod: Manifest, container: str) -> bool:
    """Whether a container has or had a process; before that there is no log to ask for."""
    statuses: Sequence[object] = [
        *items(pod, "status", "initContainerStatuses"),
        *items(pod, "status", "containerStatuses"),
    ]
    return any(
        at(status, "name") == container
        and (
            at(status, "state", "running")
            or at(status, "state", "terminated")
            or at(status, "lastState", "terminated")
        )
        for status in statuses
    )
