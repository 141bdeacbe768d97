"""Explains a job: why it waits, or where it runs; now, or after a cycle in the past."""

from collections.abc import Sequence
from dataclasses import replace

from volcano.analysis.explain.case import Case
from volcano.analysis.explain.explanations import (
    Diagnosis,
    ExpectedStart,
    JobExplanation,
    JobWithoutGroup,
    Outlook,
    RecordedJob,
)
from volcano.analysis.explain.job import explain_job as explained
from volcano.analysis.explain.outlook import MOST_RERUNS, estimated, is_estimated, reruns_within, suggested
from volcano.analysis.explain.recorded import recorded_job
from volcano.analysis.rerun.state import MissingRights
from volcano.base.clock import Clock
from volcano.kube.api.kinds import JOB
from volcano.kube.api.manifest import Key, Manifest
from volcano.kube.client.http import HttpClient
from volcano.scheduler.history.queries import Entry
from volcano.services.cluster_state import read_case
from volcano.services.errors import InvalidInput, NotFoundError, near
from volcano.services.explain.conditions import events_about, find_any, job_of_namespace
from volcano.services.explain.record import NoRecord, read_entries
from volcano.services.job_watch import group_of
from volcano.services.run_history import read_run_history

SUGGESTIONS = 4  # at most, on one screen
MOST_EVENTS = 8  # of the history where there is no record of cycles


async def explain_job(
    client: HttpClient,
    clock: Clock,
    key: Key,
    *,
    details: Sequence[str] = (),
    reruns: int = 0,
    cycle: int | None = None,
    at: str = "",
) -> JobExplanation:
    """Explains a Job or PodGroup: as it is, with details of `nodes`, `scores`, `victims` or `plugins`, or as it was
    after a cycle or at a time. `reruns` limits the search for changes that would start it; 0: those of about 1.5 s.

    To users without rights in the whole cluster, it says what conditions and events tell.
    """
    if cycle is not None or at:
        return await _past(client, key, details, cycle, at)
    try:
        case = await read_case(client, clock)
    except MissingRights as error:
        return await job_of_namespace(client, key, str(error))
    uid, manifest = case.find_job(key.namespace, key.name), await find_any(client, JOB, key)
    if uid is None or _other_scheduler(case, manifest):
        return _without_group(case, key, manifest)
    found, notes = explained(case, uid, details), [*case.notes]
    if found.state == "waiting":
        reruns = reruns or reruns_within(case)
        changes = suggested(case, uid, limit=SUGGESTIONS, reruns=reruns)
        found = replace(found, outlook=Outlook(changes, await _estimate(client, clock, case, uid)))
        if reruns < MOST_RERUNS:
            text = f"a cycle takes {case.cycle_seconds:.1f} s here: changes were searched with {reruns} re-runs only"
            notes.append(f"{text}; --reruns {MOST_RERUNS} searches longer")
    history, note = await history_of(client, job=uid)
    if note:
        history, notes = (await events_about(client, *uid.split("/", 1)))[-MOST_EVENTS:], [*notes, note]
    return replace(found, history=history, notes=tuple(notes))


async def history_of(client: HttpClient, *, job: str = "", pod: str = "") -> tuple[tuple[Entry, ...], str]:
    """What the record of cycles has about a job or pod, or a note that says why it has nothing."""
    try:
        return tuple((await read_entries(client, job=job, pod=pod)).entries), ""
    except NoRecord as error:
        return (), f"no history of cycles: {error}"


def check_details(details: Sequence[str], *recorded: str) -> None:
    """Rejects parts that the record of cycles does not have."""
    for part in details:
        if part not in recorded:
            has = f"only {recorded[0]} of pods" if recorded else "only scores, of pods"
            raise InvalidInput(f"-v {part} shows the present: the record of cycles has {has}")


async def _estimate(client: HttpClient, clock: Clock, case: Case, uid: str) -> ExpectedStart | None:
    if not is_estimated(case, uid):
        return None
    return estimated(case, uid, await read_run_history(client, clock, case.snapshot))


def _other_scheduler(case: Case, manifest: Manifest | None) -> str:
    """Name of another scheduler that the pods of a Job name; "" when this one decides."""
    name = str(((manifest or {}).get("spec") or {}).get("schedulerName") or "")
    return name if name and not case.serves(name) else ""


def _without_group(case: Case, key: Key, manifest: Manifest | None) -> JobWithoutGroup:
    """A Job that the scheduler has nothing to do with: another scheduler decides, or it has not begun or has ended."""
    if manifest is None:
        similar = near(key.name, case.names_in(key.namespace))
        raise NotFoundError(f"job {key.name!r} not found in namespace {key.namespace!r}{similar}")
    state = (manifest.get("status") or {}).get("state") or {}
    phase, other = state.get("phase") or "Pending", _other_scheduler(case, manifest)
    if other:
        text = f"{key.name} cannot start until something is corrected: its pods name the scheduler {other!r}"
        diagnosis = Diagnosis(code="OtherScheduler", class_="CONFIG", message=text, since=0.0)
        status, summary = "waiting", f"{text}, which decides about them."
    else:
        said = f": {state['message']}" if state.get("message") else ""
        diagnosis = None
        status, summary = phase.lower(), f"{key.name} has no PodGroup: the Job is {phase}{said}."
    return JobWithoutGroup(
        job=str(key), phase=phase, state=status, summary=summary, diagnosis=diagnosis, notes=case.notes
    )


async def _past(
    client: HttpClient, key: Key, details: Sequence[str], cycle: int | None, at: str
) -> RecordedJob:
    check_details(details)
    job = await find_any(client, JOB, key)
    group = await group_of(client, job) if job is not None else None
    name = group["metadata"]["name"] if group is not None else key.name
    uid = f"{key.namespace}/{name}"
    return recorded_job(str(key), uid, await read_entries(client, job=uid, cycle=cycle, at=at))
