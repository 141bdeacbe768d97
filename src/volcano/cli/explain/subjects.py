"""Data of each subject of `vcctl explain`: computed from the cluster, or taken from the record of cycles."""

import argparse
from typing import Any

from volcano.base.clock import timestamp
from volcano.cli.errors import CommandError, Missing, UsageError, near
from volcano.cli.explain.reading import NoHistory, Reading, read_case, read_history
from volcano.cli.explain.restricted import job_of_namespace, pod_of_namespace
from volcano.cli.session import Session
from volcano.kube.api.errors import ApiError
from volcano.kube.api.kinds import EVENT, JOB
from volcano.kube.api.manifest import Key, Manifest
from volcano.kube.client.protocol import Query

Data = dict[str, Any]
SUGGESTIONS = 4  # at most, on one screen
MOST_ENTRIES = 8  # of the history on a screen


async def of_job(session: Session, arguments: argparse.Namespace) -> Data:
    """A job: its Job or PodGroup by name."""
    from volcano.analysis.rerun.state import MissingRights

    key: Key = arguments.key
    if _past(arguments):
        return await _past_of_job(session, arguments, key)
    try:
        reading = await read_case(session)
    except MissingRights as error:
        return await job_of_namespace(session, key, str(error))
    return await _explained_job(session, arguments, key, reading)


async def _explained_job(session: Session, arguments: argparse.Namespace, key: Key, reading: Reading) -> Data:
    from volcano.analysis.explain.details import details
    from volcano.analysis.explain.job import explain_job
    from volcano.analysis.explain.suggested import MOST_RERUNS, reruns_within, suggested

    case = reading.case
    uid = case.find_job(key.namespace, key.name)
    manifest = await _job_object(session, key)
    other = _other_scheduler(case, manifest)
    if uid is None or other:
        if manifest is None:
            raise Missing(
                f"job {key.name!r} not found in namespace {key.namespace!r}"
                + near(key.name, case.names_in(key.namespace))
            )
        return _without_group(key, manifest, other, reading)
    found, notes = explain_job(case, uid), [*reading.notes]
    if found["state"] == "waiting":
        reruns = arguments.reruns or reruns_within(case)
        found["changes"] = suggested(case, uid, limit=SUGGESTIONS, reruns=reruns)
        if reruns < MOST_RERUNS:
            text = f"a cycle takes {case.cycle_seconds:.1f} s here: changes were searched with {reruns} re-runs only"
            notes.append(f"{text}; --reruns {MOST_RERUNS} searches longer")
        found["estimate"] = await _estimate(session, case, uid)
    for part in arguments.verbose:
        found.setdefault("details", {})[part] = details(case, uid, part)
    found["history"], note = await _history(session, job=uid)
    if note and not found["history"]:
        found["history"] = await _events_of(session, uid)
    found["notes"] = [*notes, *([note] if note else [])]
    return found


async def _estimate(session: Session, case: Any, uid: str) -> Data | None:
    from volcano.analysis.explain.estimated import estimated, is_estimated
    from volcano.cli.run_history import read_run_history

    if not is_estimated(case, uid):
        return None
    return estimated(case, uid, await read_run_history(session, case.snapshot))


async def _job_object(session: Session, key: Key) -> Manifest | None:
    try:
        return await session.client.get(JOB, key)
    except ApiError:
        return None


def _other_scheduler(case: Any, manifest: Manifest | None) -> str:
    """Name of another scheduler that the pods of a Job name; "" when this one decides."""
    name = str(((manifest or {}).get("spec") or {}).get("schedulerName") or "")
    return name if name and not case.serves(name) else ""


def _without_group(key: Key, manifest: Manifest, other: str, reading: Reading) -> Data:
    """A Job that the scheduler has nothing to do with: another scheduler decides, or it has not begun or has ended."""
    state = (manifest.get("status") or {}).get("state") or {}
    phase = state.get("phase") or "Pending"
    found: Data = {"kind": "JobExplanation", "job": f"{key.namespace}/{key.name}", "phase": phase}
    if other:
        text = f"{key.name} cannot start until something is corrected: its pods name the scheduler {other!r}"
        found |= {"state": "waiting", "summary": f"{text}, which decides about them."}
        found["diagnosis"] = {"code": "OtherScheduler", "class": "CONFIG", "message": text, "since": 0.0}
    else:
        said = f": {state['message']}" if state.get("message") else ""
        found |= {"state": phase.lower(), "summary": f"{key.name} has no PodGroup: the Job is {phase}{said}."}
    found["notes"] = list(reading.notes)
    return found


async def of_pod(session: Session, arguments: argparse.Namespace) -> Data:
    """A pod; one that was evicted is found in the record of cycles and in the events."""
    from volcano.analysis.explain.details import details
    from volcano.analysis.explain.pod import explain_pod
    from volcano.analysis.rerun.state import MissingRights

    key: Key = arguments.key
    if _past(arguments):
        return await _past_of_pod(session, arguments, key)
    try:
        reading = await read_case(session)
    except MissingRights as error:
        return await pod_of_namespace(session, key, str(error))
    case, name = reading.case, f"{key.namespace}/{key.name}"
    task = case.find_pod(name)
    history, note = await _history(session, pod=name)
    evictions = [entry for entry in history if entry.get("eviction")]
    if task is None:
        found = await _gone(session, key, evictions)
    else:
        found = explain_pod(case, task, everything="scores" in arguments.verbose)
        if not task.node:
            for part in arguments.verbose:
                found.setdefault("details", {})[part] = details(case, task.job, part)
    found["evictions"] = [eviction_data(entry) for entry in evictions]
    found["history"] = history
    found["notes"] = [*reading.notes, *([note] if note else [])]
    return found


async def _gone(session: Session, key: Key, evictions: list[Data]) -> Data:
    """A pod that does not exist any more; Missing when nothing is known about it."""
    found: Data = {"kind": "PodExplanation", "pod": f"{key.namespace}/{key.name}", "status": "Gone"}
    if evictions:
        found["summary"] = f"{key.name} was evicted: {eviction_data(evictions[-1])['why']}"
        return found
    query = Query(key.namespace, fields=f"involvedObject.name={key.name}")
    try:
        events = (await session.client.list(EVENT, query)).items
    except ApiError:
        events = []
    said = [event for event in events if event.get("reason") == "Evict"]
    if not said:
        raise Missing(
            f"pod {key.name!r} not found in namespace {key.namespace!r}, and nothing is recorded about it"
        )
    found["summary"] = f"{key.name} was evicted: {said[-1].get('message', '')}."
    return found


def eviction_data(entry: Data) -> Data:
    """By which job, by which policy, and why this pod."""
    victim = entry["eviction"]
    action, gains = victim["action"], victim.get("beneficiary", "")
    own, theirs = victim.get("priority", 0), victim.get("beneficiaryPriority", 0)
    if "preempt" in action:
        why = (
            f"preempted by {gains}, whose priority {theirs} is above {own}, in queue {victim.get('queue', '')}; "
            "of the pods that may be evicted, those that are served last go first."
        )
    elif "reclaim" in action:
        why = (
            f"reclaimed by {gains} of queue {victim.get('beneficiaryQueue', '')}, which holds less than it deserves; "
            f"queue {victim.get('queue', '')} held more than it deserves."
        )
    else:
        why = f"selected by the action {action}, for no other job."
    return {"cycle": entry["number"], "at": entry["at"], "why": why, **victim}


async def of_queue(session: Session, arguments: argparse.Namespace) -> Data:
    from volcano.analysis.explain.queue import explain_queue

    name = arguments.key.name
    if _past(arguments):
        return await _past_by_code(session, arguments, queue=name)
    reading = await read_case(session)
    case = reading.case
    if name not in case.snapshot.queues:
        raise Missing(f"queue {name!r} not found" + near(name, case.snapshot.queues))
    return {**explain_queue(case, name), "notes": list(reading.notes)}


async def of_node(session: Session, arguments: argparse.Namespace) -> Data:
    from volcano.analysis.explain.node import explain_node

    reading = await read_case(session)
    case, name = reading.case, arguments.key.name
    if name not in case.snapshot.row_of:
        raise Missing(f"node {name!r} not found" + near(name, case.snapshot.row_of))
    return {**explain_node(case, name), "notes": list(reading.notes)}


async def of_cluster(session: Session, arguments: argparse.Namespace) -> Data:
    from volcano.analysis.explain.cluster import best_change, explain_cluster

    if _past(arguments):
        return await _past_by_code(session, arguments)
    reading = await read_case(session)
    found = explain_cluster(reading.case)
    found["bestChange"] = best_change(reading.case)
    return {**found, "notes": list(reading.notes)}


async def of_cycle(session: Session, arguments: argparse.Namespace) -> Data:
    found = await read_history(session, number=arguments.number, at=arguments.at)
    return {"kind": "CycleExplanation", **found}


# -- the past ------------------------------------------------------------------------------------------


def _past(arguments: argparse.Namespace) -> bool:
    return bool(arguments.cycle or arguments.at)


def _check_parts(arguments: argparse.Namespace, *known: str) -> None:
    """Rejects parts that the record of cycles does not have."""
    others = [part for part in arguments.verbose if part not in known]
    if others:
        has = f"only {known[0]} of pods" if known else "only scores, of pods"
        raise UsageError(f"-v {others[0]} shows the present: the record of cycles has {has}")


async def _past_of_job(session: Session, arguments: argparse.Namespace, key: Key) -> Data:
    _check_parts(arguments)
    uid = await _group_name(session, key)
    answer = await read_history(session, job=uid, number=arguments.cycle, at=arguments.at)
    waiting = answer.get("diagnosis")
    found: Data = {"kind": "JobExplanation", "job": f"{key.namespace}/{key.name}", "podGroup": uid}
    if waiting is None:
        last = answer["entries"][-1]["what"] if answer["entries"] else ""
        text = {"placed": "was placed", "evicted": "lost pods"}.get(
            last, "did not wait, or is not in the record"
        )
        found |= {"state": "past", "summary": f"{key.name} {text}."}
    else:
        from volcano.analysis.explain.sentences import meaning
        from volcano.scheduler.engine.diagnosis.codes import Code

        code = Code(waiting["code"])
        found |= {
            "state": "waiting",
            "queue": waiting["queue"],
            "summary": f"{key.name} waited: {meaning(code)}",
        }
        found["diagnosis"] = {**waiting, "class": str(code.diagnosis_class)}
    found["history"] = answer["entries"]
    found["notes"] = ["from the record of cycles; nodes, position and changes are known for the present only"]
    return found


async def _group_name(session: Session, key: Key) -> str:
    """Key of the PodGroup in the record: that of the Job if there is one."""
    from volcano.services.job_watch import group_of

    manifest = await _job_object(session, key)
    group = await group_of(session.client, manifest) if manifest is not None else None
    name = group["metadata"]["name"] if group is not None else key.name
    return f"{key.namespace}/{name}"


async def _past_of_pod(session: Session, arguments: argparse.Namespace, key: Key) -> Data:
    _check_parts(arguments, "scores")
    name = f"{key.namespace}/{key.name}"
    answer = await read_history(session, pod=name, number=arguments.cycle, at=arguments.at)
    entries = answer["entries"]
    found: Data = {"kind": "PodExplanation", "pod": name, "history": entries}
    found["evictions"] = [eviction_data(entry) for entry in entries if entry.get("eviction")]
    if not entries:
        raise Missing(f"the record of cycles has nothing about pod {name} up to then")
    last = entries[-1]
    done = "was evicted" if last["what"] == "evicted" else f"was placed {last.get('text', '')}"
    found["summary"] = f"{key.name} {done} in cycle {last['number']}, {timestamp(last['at'])}."
    placed = next((entry for entry in reversed(entries) if entry["what"] == "placed"), None)
    if placed is not None and placed.get("scores"):
        found |= _past_scores(name, placed)
    elif "scores" in arguments.verbose:
        found["notes"] = ["the record of cycles has no scores for this pod"]
    return found


def _past_scores(name: str, placed: Data) -> Data:
    """The nodes that were compared when the pod was placed, or the first of the pods like it in that cycle."""
    scores = placed["scores"]
    chosen = scores["nodes"][0]["node"]
    first = scores["pod"] == name
    basis = f"recorded in cycle {placed['number']}"
    ranked = sorted(scores["nodes"], key=lambda each: -each["score"])
    return {
        "node": placed["text"].removeprefix("on "),
        "feasible": scores["feasible"],
        "basis": basis
        if first
        else f"{basis} for {scores['pod']}, the first pod like it, which got {chosen}",
        "ranking": [{"place": place, **each} for place, each in enumerate(ranked, 1)],
    }


async def _past_by_code(session: Session, arguments: argparse.Namespace, queue: str = "") -> Data:
    from volcano.analysis.explain.sentences import meaning
    from volcano.scheduler.engine.diagnosis.codes import Code

    answer = await read_history(session, number=arguments.cycle, at=arguments.at)
    waiting = [each for each in answer["diagnoses"] if not queue or each["queue"] == queue]
    by_code: dict[str, list[str]] = {}
    for each in waiting:
        by_code.setdefault(each["code"], []).append(each["job"])
    codes = [
        {
            "code": code,
            "class": str(Code(code).diagnosis_class),
            "jobs": len(jobs),
            "meaning": meaning(Code(code)),
            "examples": sorted(jobs)[:3],
        }
        for code, jobs in sorted(by_code.items(), key=lambda found: Code(found[0]).rank)
    ]
    where = f" in queue {queue}" if queue else ""
    count = len(waiting)
    return {
        "kind": "ClusterExplanation",
        "summary": f"{count} {'job' if count == 1 else 'jobs'} waited{where} after cycle {answer['asked']}.",
        "codes": codes,
        "notes": ["from the record of cycles"],
    }


async def _history(session: Session, **about: str) -> tuple[list[Data], str]:
    """What the record of cycles has about a job or pod, or a note that says why it has nothing."""
    try:
        return list((await read_history(session, **about)).get("entries", ())), ""
    except NoHistory as error:
        return [], f"no history of cycles: {error}"
    except CommandError as error:
        return [], str(error)


async def _events_of(session: Session, uid: str) -> list[Data]:
    """History of a job as far as the events of its PodGroup tell it."""
    namespace, _, name = uid.partition("/")
    try:
        events = (
            await session.client.list(EVENT, Query(namespace, fields=f"involvedObject.name={name}"))
        ).items
    except ApiError:
        return []
    from volcano.cli.explain.restricted import entry_of_event

    return sorted(map(entry_of_event, events), key=lambda entry: entry["at"])[-MOST_ENTRIES:]
