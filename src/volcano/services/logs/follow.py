"""Logs of a job: what was written so far, or all lines until the job ends."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from volcano.base.clock import Clock
from volcano.kube.api.errors import ApiError, BadRequest, NotFound
from volcano.kube.api.kinds import POD
from volcano.kube.api.manifest import Key, Manifest, key_of, uid_of
from volcano.kube.api.names import JOB_NAME
from volcano.kube.client.http import HttpClient
from volcano.kube.client.protocol import Query, Watch
from volcano.kube.informers.reflector import Reflector, each_event
from volcano.kube.resources.pod_status import pod_status
from volcano.services.errors import ServiceError
from volcano.services.job_watch import ENDS, states, why
from volcano.services.jobs import phase_of
from volcano.services.logs.lines import Line, in_order, parse_line
from volcano.services.logs.sources import Source, Wanted, has_started, place_of, sources, target_of
from volcano.services.logs.streams import LogStreams, OnLines

DRAIN = 10.0  # seconds to read the remaining log lines after the job has ended


@dataclass(frozen=True, slots=True)
class JobLogs:
    """Lines of several containers in the order of time."""

    lines: Sequence[tuple[Source, Line]] = ()
    notes: Sequence[str] = ()  # containers whose logs are missing, and why
    is_unreadable: bool = False  # none of several logs could be read


async def read_logs(client: HttpClient, job: Manifest, wanted: Wanted) -> JobLogs:
    """Lines that exist now."""
    key = key_of(job)
    listed = (await client.list(POD, Query(key.namespace, labels=f"{JOB_NAME}={key.name}"))).items
    pods = sorted(filter(wanted.takes, listed), key=place_of)
    if not pods:
        reason = await why(client, job)
        note = f"job {key} is {phase_of(job)} and has no pods yet" + (f": {reason}" if reason else "")
        return JobLogs(notes=[note])
    notes: list[str] = []
    logs: list[tuple[Source, list[Line]]] = []
    failures = 0
    for pod in pods:
        for source in sources(pod, job, wanted):
            if not has_started(pod, source.container):
                notes.append(f"{source.title}: has not started yet ({pod_status(pod) or 'Pending'})")
                continue
            try:
                reply = await client.raw("GET", target_of(source, wanted))
                logs.append((source, [parse_line(raw) for raw in reply.body.splitlines()]))
            except (BadRequest, NotFound) as error:
                failures += 1
                notes.append(f"{source.title}: {error.message}")
    return JobLogs(list(in_order(logs)), notes, is_unreadable=bool(failures) and not logs)


async def follow_logs(
    client: HttpClient,
    clock: Clock,
    job: Manifest,
    wanted: Wanted,
    *,
    on_lines: OnLines,
    on_note: Callable[[str], None],
) -> str:
    """Delivers lines as they are written, also of later pods and restarts, until the job ends; returns its final
    phase."""
    key, pods = key_of(job), dict[Key, Manifest]()
    failed: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def on_error(error: ApiError) -> None:
        if not failed.done():
            failed.set_exception(error)

    streams = LogStreams(client, clock, wanted, lambda: pods, on_lines, on_error)

    def on_pod(pod: Manifest, *, is_gone: bool) -> None:
        if not wanted.takes(pod):
            return
        if not is_gone:
            pods[key_of(pod)] = pod
        elif (known := pods.get(key_of(pod))) is not None and uid_of(known) == uid_of(pod):
            del pods[key_of(pod)]
        streams.follow(sources(pod, job, wanted))

    reflector = Reflector(
        client,
        Watch(POD, key.namespace, f"{JOB_NAME}={key.name}"),
        each_event(lambda event: on_pod(event.object, is_gone=event.type == "DELETED")),
        clock,
    )
    reflecting = asyncio.create_task(reflector.run())
    ending = asyncio.create_task(_until_ended(client, clock, key, streams, on_note))
    try:
        await asyncio.wait({ending, failed}, return_when=asyncio.FIRST_COMPLETED)
        if failed.done():
            return failed.result()
        await reflector.synced.wait()
        await streams.finish(DRAIN)
        return await ending
    finally:
        for task in (reflecting, ending):
            task.cancel()
        await asyncio.gather(reflecting, ending, return_exceptions=True)
        await streams.close()


async def _until_ended(
    client: HttpClient, clock: Clock, key: Key, streams: LogStreams, on_note: Callable[[str], None]
) -> str:
    """The phase in which a job ends; notes tell why it has no pods yet."""
    said = ""
    async with aclosing(states(client, clock, key)) as seen:
        async for job in seen:
            if job is None:
                on_note(f"job {key} was deleted")
                return "Deleted"
            if phase_of(job) in ENDS:
                return phase_of(job)
            reason = "" if streams.is_following else await why(client, job)
            if reason and reason != said:
                said = reason
                on_note(f"job {key} is {phase_of(job)}: {reason}")
    raise ServiceError(f"job {key} is no longer watched")
