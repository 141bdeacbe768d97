"""Words wait: what is merely said about a thing is held back until there is no news of it, and said once."""

import heapq
from dataclasses import dataclass, replace

from volcano.model.decisions import (
    Decision,
    Nominate,
    RecordEvent,
    RemoveGate,
    SetPodCondition,
    SetPodGroup,
    SetQueue,
)

QUIET = 0.5  # seconds without news after which something is said
LONGEST = 3.0  # seconds that it is held back at most
ARRIVING = 5.0  # seconds for which a gang that was let in may well be without its pods
MISSING = "Not enough valid"  # as gang words it
# Jobs get their pods when their PodGroups reach these: not held back at all.
URGENT_PHASES = frozenset({"Inqueue"})

Subject = tuple[str, ...]


@dataclass(slots=True)
class _Word:
    decision: Decision
    due: float
    latest: float


class StatusQueue:
    """Things to be said, each at its moment; a later word about the same thing joins the earlier one."""

    def __init__(self, quiet: float = QUIET, longest: float = LONGEST, arriving: float = ARRIVING) -> None:
        self._quiet = quiet
        self._longest = longest
        self._arriving = arriving
        self._statuses: dict[Subject, _Word] = {}
        self._agenda: list[tuple[float, int, Subject]] = []
        self._count = 0
        self._let_in: dict[tuple[str, str], float] = {}  # gangs and until when their pods may be on their way

    def __len__(self) -> int:
        return len(self._statuses)

    def put(self, decision: Decision, now: float) -> Decision | None:
        """Takes a word over. What of it must not wait is handed back."""
        subject = subject_of(decision)
        known = self._statuses.pop(subject, None)
        merged = decision if known is None else join(known.decision, decision)
        if isinstance(merged, Nominate | RemoveGate):
            return merged
        urgent = None
        if isinstance(merged, SetPodGroup) and merged.phase in URGENT_PHASES:
            urgent, merged = replace(merged, conditions=None, counts=None), replace(merged, phase=None)
            self._let_in[merged.namespace, merged.name] = now + self._arriving
        if says_something(merged):
            latest = known.latest if known else now + self._longest
            due = self._due(merged, known, latest, now)
            self._statuses[subject] = _Word(merged, due, latest)
            self._count += 1
            heapq.heappush(self._agenda, (due, self._count, subject))
        return urgent

    def _due(self, decision: Decision, known: _Word | None, latest: float, now: float) -> float:
        if isinstance(decision, SetPodGroup) and decision.phase is not None:
            # News of a changed phase is not put off by what follows it.
            return known.due if known is not None and _moves(known.decision) else now + self._quiet
        due = min(now + self._quiet, latest)
        if isinstance(decision, SetPodGroup | RecordEvent) and _misses_pods(decision):
            due = max(due, self._let_in.get((decision.namespace, decision.name), due))
        return due

    def take(self, now: float) -> Decision | None:
        """The next word that is due, if any."""
        while self._let_in and (oldest := next(iter(self._let_in.items())))[1] <= now:
            del self._let_in[oldest[0]]
        while self._agenda and self._agenda[0][0] <= now:
            due, _, subject = heapq.heappop(self._agenda)
            word = self._statuses.get(subject)
            if word is not None and word.due == due:
                del self._statuses[subject]
                return word.decision
        return None

    def next_due(self) -> float | None:
        """When the next word may be due; None when there is none."""
        return self._agenda[0][0] if self._agenda else None

    def drop(self, subject: Subject) -> None:
        """Takes a word back: it is no longer true."""
        self._statuses.pop(subject, None)


def _misses_pods(decision: SetPodGroup | RecordEvent) -> bool:
    """Whether it says that a gang has too few pods: those of one that was just let in are on their way."""
    if isinstance(decision, RecordEvent):
        return MISSING in decision.message
    return decision.conditions is None or any(MISSING in each.message for each in decision.conditions)


def subject_of(decision: Decision) -> Subject:
    """What a decision is about: later words about the same thing replace earlier ones."""
    match decision:
        case SetQueue(name):
            return "SetQueue", name
        case RecordEvent(_, namespace, name, _, reason):
            # Whether a gang can be scheduled is one thing, whatever the answer.
            return (
                RecordEvent.__name__,
                namespace,
                name,
                "" if reason in ("Scheduled", "Unschedulable") else reason,
            )
        case _:
            return type(decision).__name__, decision.namespace, decision.name


def unschedulable(namespace: str, name: str) -> Subject:
    """The subject of what is said about a pod that waits."""
    return SetPodCondition.__name__, namespace, name


def about_group(namespace: str, name: str) -> tuple[Subject, Subject]:
    """The subjects of what is said about a gang: its status, and whether it can be scheduled."""
    return (SetPodGroup.__name__, namespace, name), (RecordEvent.__name__, namespace, name, "")


def says_something(decision: Decision) -> bool:
    """Whether anything is left to say."""
    if not isinstance(decision, SetPodGroup):
        return True
    return not (decision.phase is None and decision.conditions is None and decision.counts is None)


def join(earlier: Decision, later: Decision) -> Decision:
    """Both words in one: the later one decides where both speak."""
    match earlier, later:
        case SetPodGroup(), SetPodGroup():
            return replace(
                later,
                phase=earlier.phase if later.phase is None else later.phase,
                conditions=earlier.conditions if later.conditions is None else later.conditions,
                counts=earlier.counts if later.counts is None else later.counts,
            )
        case SetQueue(_, _, dropped), SetQueue():
            gone = {*dropped, *later.dropped} - later.allocated.keys()
            return replace(later, dropped=tuple(sorted(gone)))
        case _:
            return later


def _moves(decision: Decision) -> bool:
    return isinstance(decision, SetPodGroup) and decision.phase is not None
