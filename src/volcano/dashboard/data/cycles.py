"""Cycles of the scheduler from its record: the list, one cycle, and evictions with their beneficiaries."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from volcano.cli.explain.layout import short
from volcano.cli.explain.subjects import eviction_data

Data = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class CycleRow:
    """One cycle that decided something."""

    number: int
    at: float  # wall time
    seconds: float
    placed: int  # pods
    evicted: int
    admitted: int  # jobs
    changed: int  # diagnoses
    waiting: int  # jobs

    @property
    def address(self) -> str:
        return cycle_address(self.number)


@dataclass(frozen=True, slots=True)
class Placement:
    """Pods of one job that a cycle placed."""

    job: str  # namespace/name
    pods: int
    nodes: str


@dataclass(frozen=True, slots=True)
class EvictionRow:
    """One pod that was evicted, and the job that it made room for."""

    cycle: int
    at: float
    pod: str  # namespace/name
    job: str
    node: str
    action: str
    beneficiary: str  # job; "" for none
    why: str
    running: float = 0.0  # seconds for which the pod ran


@dataclass(frozen=True, slots=True)
class WaitingRow:
    """A job that waits, or waits for another reason than before."""

    job: str
    queue: str
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class CycleDetails:
    """Everything that the record has about one cycle."""

    row: CycleRow
    asked: int  # another number than that of the row when that cycle decided nothing
    nodes: int
    jobs: int
    placed: tuple[Placement, ...]
    evicted: tuple[EvictionRow, ...]
    admitted: tuple[str, ...]
    changed: tuple[WaitingRow, ...]
    ended: tuple[str, ...]  # jobs that do not wait any more
    errors: tuple[str, ...]
    waiting: tuple[WaitingRow, ...]  # at the end of the cycle
    first: int  # cycle of the record
    last: int

    def codes(self) -> list[tuple[str, int]]:
        """Jobs that wait at the end of the cycle by code, the most frequent first."""
        return Counter(each.code for each in self.waiting).most_common()


def cycle_address(number: int) -> str:
    return f"/scheduler/cycles/{number}"


def job_address(job: str) -> str:
    """Address of the page of a job that is given as namespace/name."""
    return f"/jobs/{quote(job)}" if "/" in job else ""


def cycle_rows(answer: Data) -> tuple[CycleRow, ...]:
    """The cycles of an answer, the newest first."""
    return tuple(
        CycleRow(
            int(each["number"]),
            float(each["at"]),
            float(each.get("seconds", 0.0)),
            *(int(each.get(name, 0)) for name in ("placed", "evicted", "admitted", "changed", "waiting")),
        )
        for each in answer.get("cycles") or ()
    )


def eviction_rows(entries: Iterable[Data]) -> tuple[EvictionRow, ...]:
    """Evictions of entries of the record."""
    return tuple(_eviction(dict(entry)) for entry in entries if entry.get("eviction"))


def cycle_details(answer: Data) -> CycleDetails | None:
    """The cycle of an answer about one number; None when the record has none up to it."""
    cycle = answer.get("cycle")
    if cycle is None:
        return None
    placed = cycle.get("placed") or ()
    victims = [
        {"number": cycle["number"], "at": cycle["at"], "eviction": each}
        for each in cycle.get("evicted") or ()
    ]
    changed = _waiting(cycle.get("diagnoses") or ())
    admitted = cycle.get("admitted") or ()
    row = CycleRow(
        int(cycle["number"]),
        float(cycle["at"]),
        float(cycle.get("seconds", 0.0)),
        sum(len(each["pods"]) for each in placed),
        len(victims),
        len(admitted),
        len(changed),
        int(cycle.get("waiting", 0)),
    )
    return CycleDetails(
        row,
        int(answer.get("asked", row.number)),
        int(cycle.get("nodes", 0)),
        int(cycle.get("jobs", 0)),
        tuple(Placement(short(each["job"]), len(each["pods"]), _nodes(each["pods"])) for each in placed),
        eviction_rows(victims),
        tuple(map(short, admitted)),
        changed,
        tuple(map(short, cycle.get("ended") or ())),
        tuple(cycle.get("errors") or ()),
        _waiting(answer.get("diagnoses") or ()),
        int(answer.get("first", 0)),
        int(answer.get("last", 0)),
    )


def _eviction(entry: dict[str, Any]) -> EvictionRow:
    found = eviction_data(entry)
    return EvictionRow(
        int(found["cycle"]),
        float(found["at"]),
        str(found["pod"]),
        short(str(found["job"])),
        str(found["node"]),
        str(found["action"]),
        short(str(found.get("beneficiary", ""))),
        short(str(found["why"])),
        float(found.get("running", 0.0)),
    )


def _waiting(diagnoses: Iterable[Data]) -> tuple[WaitingRow, ...]:
    return tuple(
        WaitingRow(
            short(str(each["job"])), str(each.get("queue", "")), str(each["code"]), str(each["message"])
        )
        for each in diagnoses
    )


def _nodes(pods: Mapping[str, str]) -> str:
    counts = Counter(pods.values())
    return ", ".join(f"{node} ({count})" if count > 1 else node for node, count in sorted(counts.items()))
