"""CycleHistory: ring buffer of the last cycles, bounded in bytes, in memory and, with a directory, on disk."""

import zlib
from collections import deque
from collections.abc import Iterator, Sequence
from math import inf
from typing import NamedTuple

import msgspec

from volcano.model.decisions import Bind, Decision, Evict, SetPodGroup
from volcano.model.snapshot import Snapshot
from volcano.scheduler.engine.session import Outcome
from volcano.scheduler.history.records import Cycle, Evicted, Placed, Waiting, evicted, scores, waiting
from volcano.scheduler.history.segments import Segments

MEMORY_BYTES = 4 * 1024 * 1024
LARGEST_PART = 8  # a record may have at most this part of the bytes with its messages
LONGEST_MESSAGE = 1000  # characters

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Cycle).decode


class Kept(NamedTuple):
    """An encoded record in the ring buffer."""

    number: int
    at: float
    data: bytes  # compressed


class CycleHistory:
    """Records cycles; the oldest are dropped when the bytes are used up. Cycles that decided nothing are not kept."""

    def __init__(self, most_bytes: int = MEMORY_BYTES, segments: Segments | None = None) -> None:
        self._most_bytes = most_bytes
        self._segments = segments
        self._kept: deque[Kept] = deque()
        self._bytes = 0
        self._base: dict[str, Waiting] = {}  # diagnoses before the first cycle that is kept
        self._codes: dict[str, str] = {}  # of the jobs that wait now
        self.last = 0  # number of the last cycle
        for data in segments.read() if segments is not None else ():
            record = _decode(zlib.decompress(data))
            self._add(record, data)
            self._codes.update((each.job, each.code) for each in record.diagnoses)
            for job in record.ended:
                self._codes.pop(job, None)
            self.last = record.number

    @property
    def enabled(self) -> bool:
        return self._most_bytes > 0

    @property
    def size(self) -> int:
        """Bytes in use."""
        return self._bytes

    def record(
        self, outcome: Outcome, snapshot: Snapshot, decisions: Sequence[Decision], seconds: float
    ) -> None:
        """Keeps what a cycle decided; `decisions` are those of the outcome that are carried out."""
        if not self.enabled:
            return
        self.last += 1
        found = self._cycle(outcome, snapshot, decisions, seconds)
        if not (
            found.placed or found.evicted or found.admitted or found.diagnoses or found.ended or found.errors
        ):
            return
        data = _encode(found)
        if len(data) > self._most_bytes // LARGEST_PART:
            found = msgspec.structs.replace(found, scores=[])
            data = _encode(found)
        if len(data) > self._most_bytes // LARGEST_PART:
            short = [msgspec.structs.replace(each, message="") for each in found.diagnoses]
            found = msgspec.structs.replace(found, diagnoses=short)
            data = _encode(found)
        data = zlib.compress(data, 1)
        self._add(found, data)
        if self._segments is not None:
            self._segments.append(data)

    def cycles(self) -> Iterator[Cycle]:
        """All records, oldest first."""
        return (_decode(zlib.decompress(kept.data)) for kept in self._kept)

    def newest_first(self, before: float = inf) -> Iterator[Cycle]:
        """Records of the cycles with a smaller number than `before`."""
        older = (kept for kept in reversed(self._kept) if kept.number < before)
        return (_decode(zlib.decompress(kept.data)) for kept in older)

    def numbers(self) -> list[tuple[int, float]]:
        """Number and time of each record, oldest first."""
        return [(kept.number, kept.at) for kept in self._kept]

    def diagnoses(self, until: int) -> dict[str, Waiting]:
        """Diagnoses of the jobs that waited at the end of a cycle."""
        found = dict(self._base)
        for cycle in self.cycles():
            if cycle.number > until:
                break
            _apply(found, cycle)
        return found

    def _cycle(
        self, outcome: Outcome, snapshot: Snapshot, decisions: Sequence[Decision], seconds: float
    ) -> Cycle:
        placed: dict[str, dict[str, str]] = {}
        victims: list[Evicted] = []
        admitted: list[str] = []
        bound: list[Bind] = []
        for decision in decisions:
            if type(decision) is Bind:
                placed.setdefault(decision.job, {})[decision.name] = decision.node
                bound.append(decision)
            elif type(decision) is Evict:
                victims.append(evicted(decision, snapshot))
            elif type(decision) is SetPodGroup and decision.phase == "Inqueue":
                admitted.append(decision.job)
        codes, jobs = self._codes, snapshot.jobs
        changed: list[Waiting] = []
        for uid, diagnosis in outcome.diagnoses.items():
            if codes.get(uid) != diagnosis.code:
                codes[uid] = diagnosis.code
                found = waiting(diagnosis, jobs.get(uid))
                if len(found.message) > LONGEST_MESSAGE:
                    found = msgspec.structs.replace(found, message=f"{found.message[:LONGEST_MESSAGE]}…")
                changed.append(found)
        ended: list[str] = []
        if len(codes) > len(outcome.diagnoses):
            ended = [uid for uid in codes if uid not in outcome.diagnoses]
            for uid in ended:
                del codes[uid]
        return Cycle(
            self.last,
            snapshot.now,
            round(seconds, 6),
            len(snapshot.nodes),
            len(jobs),
            len(outcome.diagnoses),
            [Placed(job, pods) for job, pods in placed.items()],
            victims,
            admitted,
            changed,
            ended,
            list(outcome.errors),
            scores(outcome.scores, bound, snapshot),
        )

    def _add(self, record: Cycle, data: bytes) -> None:
        self._kept.append(Kept(record.number, record.at, data))
        self._bytes += len(data)
        while self._bytes > self._most_bytes and len(self._kept) > 1:
            oldest = self._kept.popleft()
            self._bytes -= len(oldest.data)
            _apply(self._base, _decode(zlib.decompress(oldest.data)))


def _apply(diagnoses: dict[str, Waiting], cycle: Cycle) -> None:
    diagnoses.update((each.job, each) for each in cycle.diagnoses)
    for job in cycle.ended:
        diagnoses.pop(job, None)
