"""Answers about the ring buffer, as JSON: lists of cycles, one cycle, and what happened to a job or pod.

The scheduler serves them under `/debug/cycles`; `volcano up` also under `/debug/scheduler/cycles` of its API server.
"""

from collections.abc import Iterator, Mapping
from itertools import islice
from math import inf

import msgspec

from volcano.base.clock import parse_timestamp
from volcano.scheduler.history.cycle_history import CycleHistory
from volcano.scheduler.history.records import Cycle, Evicted, Record, Scores, Waiting

MOST_CYCLES, MOST_ENTRIES = 50, 200
PARAMETERS = ("number", "at", "job", "pod", "limit", "before", "evictions")


class QueryError(ValueError):
    """A query that cannot be answered: what was wrong, and what would be right."""


class Summary(Record, frozen=True):
    """One line of the list of cycles."""

    number: int
    at: float
    seconds: float
    placed: int
    evicted: int
    admitted: int
    changed: int
    waiting: int


class Entry(Record, frozen=True):
    """Result of one cycle for a job or pod."""

    number: int
    at: float
    what: str  # waits, admitted, placed, evicted, evicts, ends
    code: str = ""
    text: str = ""
    eviction: Evicted | None = None  # of a pod
    scores: Scores | None = None  # of the nodes, for a pod that was placed


class Answer(Record, frozen=True, kw_only=True):
    """Base of the answers: the numbers of the first cycle in the record and of the last one."""

    first: int
    last: int


class CycleList(Answer, frozen=True, kw_only=True):
    """The last cycles that decided something, or those before one, the newest first."""

    cycles: list[Summary]


class OneCycle(Answer, frozen=True, kw_only=True):
    """The cycle that was asked for, or the last before it that decided something, and all diagnoses at its end."""

    cycle: Cycle | None
    asked: int
    diagnoses: list[Waiting]


class Entries(Answer, frozen=True, kw_only=True):
    """What happened to a job or pod, and why the job waits."""

    entries: list[Entry]
    diagnosis: Waiting | None = None


class Evictions(Answer, frozen=True, kw_only=True):
    """Evicted pods of all cycles, the newest first."""

    evictions: list[Entry]


def answer(history: CycleHistory, query: Mapping[str, str]) -> CycleList | OneCycle | Entries | Evictions:
    """Answer to `number=N`, `at=TIME`, `job=NAMESPACE/NAME`, `pod=NAMESPACE/NAME`, `evictions=true` or, without any,
    the last cycles, with `before=N` those before a cycle. Raises QueryError."""
    if not history.enabled:
        raise QueryError("the scheduler keeps no history of cycles; see its flag --cycle-history")
    unknown = query.keys() - set(PARAMETERS)
    if unknown:
        raise QueryError(f"unknown parameter {sorted(unknown)[0]!r}; choose from {', '.join(PARAMETERS)}")
    until = _until(history, query)
    numbers = history.numbers()
    first, last = numbers[0][0] if numbers else 0, history.last
    if query.get("job") or query.get("pod"):
        entries = list(_entries(history, query.get("job", ""), query.get("pod", ""), until))
        diagnosis = history.diagnoses(until).get(query.get("job", ""))
        limit = _limit(query, MOST_ENTRIES)
        return Entries(first=first, last=last, entries=entries[-limit:], diagnosis=diagnosis)
    if query.get("number") or query.get("at"):
        waiting = list(history.diagnoses(until).values())
        found = _last_until(history, until)
        return OneCycle(first=first, last=last, cycle=found, asked=until, diagnoses=waiting)
    if query.get("evictions"):
        evicted = list(islice(_evictions(history), _limit(query, MOST_ENTRIES)))
        return Evictions(first=first, last=last, evictions=evicted)
    cycles = list(islice(_summaries(history, _before(query)), _limit(query, MOST_CYCLES)))
    return CycleList(first=first, last=last, cycles=cycles)


def _until(history: CycleHistory, query: Mapping[str, str]) -> int:
    """Number of the cycle that the query is about; the last one without any."""
    numbers = history.numbers()
    if query.get("number"):
        if not query["number"].isdigit():
            raise QueryError(f"number={query['number']!r} is not the number of a cycle")
        number = int(query["number"])
        if not numbers or number < numbers[0][0] or number > history.last:
            known = f"{numbers[0][0]} to {history.last}" if numbers else "no cycle"
            raise QueryError(f"cycle {number} is not in the history, which has {known}")
        return number
    if query.get("at"):
        try:
            wanted = parse_timestamp(query["at"])
        except ValueError:
            raise QueryError(f"at={query['at']!r} is not a time such as 2026-11-17T18:00:00Z") from None
        earlier = [number for number, at in numbers if at < wanted + 1]
        if not earlier:
            raise QueryError(f"the history of cycles begins after {query['at']}")
        return earlier[-1]
    return history.last


def _limit(query: Mapping[str, str], most: int) -> int:
    text = query.get("limit") or str(most)
    if not text.isdigit() or not int(text):
        raise QueryError(f"limit={text!r} is not a number of at least 1")
    return min(int(text), most)


def _last_until(history: CycleHistory, number: int) -> Cycle | None:
    """The record of a cycle, or of the last before it that decided something."""
    found: Cycle | None = None
    for cycle in history.cycles():
        if cycle.number > number:
            break
        found = cycle
    return found


def _before(query: Mapping[str, str]) -> float:
    text = query.get("before", "")
    if text and not text.isdigit():
        raise QueryError(f"before={text!r} is not the number of a cycle")
    return int(text) if text else inf


def _evictions(history: CycleHistory) -> Iterator[Entry]:
    """Evicted pods of all cycles, the newest first."""
    for cycle in history.newest_first():
        for victim in cycle.evicted:
            yield Entry(cycle.number, cycle.at, "evicted", victim.action, eviction=victim)


def _summaries(history: CycleHistory, before: float) -> Iterator[Summary]:
    for cycle in history.newest_first(before):
        placed = sum(len(each.pods) for each in cycle.placed)
        yield Summary(
            cycle.number,
            cycle.at,
            cycle.seconds,
            placed,
            len(cycle.evicted),
            len(cycle.admitted),
            len(cycle.diagnoses),
            cycle.waiting,
        )


def _entries(history: CycleHistory, job: str, pod: str, until: int) -> Iterator[Entry]:
    for cycle in history.cycles():
        if cycle.number > until:
            return
        yield from _of_job(cycle, job) if job else _of_pod(cycle, pod)


def _of_job(cycle: Cycle, job: str) -> Iterator[Entry]:
    number, at = cycle.number, cycle.at
    if job in cycle.admitted:
        yield Entry(number, at, "admitted")
    for diagnosis in cycle.diagnoses:
        if diagnosis.job == job:
            yield Entry(number, at, "waits", diagnosis.code, diagnosis.message)
    for placed in cycle.placed:
        if placed.job == job:
            text = f"{len(placed.pods)} pods on {len(set(placed.pods.values()))} nodes"
            yield Entry(number, at, "placed", text=text)
    for victim in cycle.evicted:
        if victim.job == job:
            gains = f" for {victim.beneficiary}" if victim.beneficiary else ""
            yield Entry(number, at, "evicted", victim.action, f"{victim.pod} from {victim.node}{gains}")
        elif victim.beneficiary == job:
            yield Entry(number, at, "evicts", victim.action, f"{victim.pod} from {victim.node}")


def _of_pod(cycle: Cycle, pod: str) -> Iterator[Entry]:
    namespace, _, name = pod.partition("/")
    for placed in cycle.placed:
        if placed.job.startswith(f"{namespace}/") and name in placed.pods:
            scores = next((each for each in cycle.scores if each.holds_for(placed.job, name)), None)
            text = f"on {placed.pods[name]}"
            yield Entry(cycle.number, cycle.at, "placed", text=text, scores=_without_jobs(scores))
    for victim in cycle.evicted:
        if victim.pod == pod:
            yield Entry(cycle.number, cycle.at, "evicted", victim.action, eviction=victim)


def _without_jobs(scores: Scores | None) -> Scores | None:
    """Scores for the answer about one pod, which need not name the others."""
    return None if scores is None else msgspec.structs.replace(scores, jobs={})
