"""Explains a pod: why it has its node, or why it has none; also one that was evicted."""

from collections.abc import Sequence
from dataclasses import replace

from volcano.analysis.explain.details import details as details_of
from volcano.analysis.explain.explanations import Eviction, GonePod, PodExplanation
from volcano.analysis.explain.pod import explain_pod as explained
from volcano.analysis.explain.recorded import evictions, recorded_pod
from volcano.analysis.rerun.state import MissingRights
from volcano.base.clock import Clock
from volcano.kube.api.manifest import Key
from volcano.kube.client.http import HttpClient
from volcano.services.cluster_state import read_case
from volcano.services.errors import NotFoundError
from volcano.services.explain.conditions import events_about, pod_of_namespace
from volcano.services.explain.jobs import check_details, history_of
from volcano.services.explain.record import read_entries

SCORES = "scores"


async def explain_pod(
    client: HttpClient,
    clock: Clock,
    key: Key,
    *,
    details: Sequence[str] = (),
    cycle: int | None = None,
    at: str = "",
) -> PodExplanation:
    """Explains a pod as it is, with details of `nodes`, `scores`, `victims` or `plugins`, or as it was after a cycle or
    at a time."""
    name = str(key)
    if cycle is not None or at:
        check_details(details, SCORES)
        entries = (await read_entries(client, pod=name, cycle=cycle, at=at)).entries
        if not entries:
            raise NotFoundError(f"the record of cycles has nothing about pod {name} up to then")
        return recorded_pod(name, entries, everything=SCORES in details)
    try:
        case = await read_case(client, clock)
    except MissingRights as error:
        return await pod_of_namespace(client, key, str(error))
    history, note = await history_of(client, pod=name)
    found: PodExplanation
    task, evicted = case.find_pod(name), evictions(history)
    if task is None:
        found = await _gone(client, key, evicted, case.notes)
    else:
        found = explained(case, task, everything=SCORES in details)
        if not task.node:
            found = replace(found, details=details_of(case, task.job, details))
    notes = (*case.notes, *([note] if note else []))
    return replace(found, evictions=evicted, history=history, notes=notes)


async def _gone(client: HttpClient, key: Key, evicted: Sequence[Eviction], notes: tuple[str, ...]) -> GonePod:
    """A pod that does not exist any more; NotFoundError when nothing is known about it."""
    if evicted:
        why = evicted[-1].why
    else:
        said = [each for each in await events_about(client, key.namespace, key.name) if each.code == "Evict"]
        if not said:
            raise NotFoundError(
                f"pod {key.name!r} not found in namespace {key.namespace!r}, and nothing is recorded about it"
            )
        why = f"{said[-1].text}."
    summary = f"{key.name} was evicted: {why}"
    return GonePod(pod=str(key), status="Gone", summary=summary, evictions=(), history=(), notes=notes)
