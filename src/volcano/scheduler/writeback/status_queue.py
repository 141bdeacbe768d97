"""Status queue: debounces status patches and events; sent after 0.5 s without a change, after 3 s at the latest."""

from dataclasses import dataclass, replace

from volcano.base.workqueue import WorkQueue
from volcano.model.decisions import (
    Decision,
    Nominate,
    RecordEvent,
    RemoveGate,
    SetPodCondition,
    SetPodGroup,
    SetQueue,
)

QUIET = 0.5  # seconds without a change before a status is sent
LONGEST = 3.0  # seconds for which changes delay it at most
POD_CREATION = 5.0  # seconds that the pods of an admitted gang are given to be created
MISSING = "Not enough valid"  # in the message of the gang plugin when pods are missing
NO_OBJECT = "does not exist"  # end of the message about a PodGroup or queue
# The job controller creates pods when their PodGroup reaches one of these phases: sent without delay.
URGENT_PHASES = frozenset({"Inqueue"})

StatusKey = tuple[str, ...]


@dataclass(slots=True)
class _Pending:
    decision: Decision
    due: float
    latest: float


class StatusQueue:
    """Status decisions by object, each with a due time; one about a queued object is merged with the queued one."""

    def __init__(
        self, quiet: float = QUIET, longest: float = LONGEST, pod_creation: float = POD_CREATION
    ) -> None:
        self._quiet = quiet
        self._longest = longest
        self._pod_creation = pod_creation
        self._pending: dict[StatusKey, _Pending] = {}
        self._queue: WorkQueue[StatusKey] = WorkQueue()
        self._admitted: dict[tuple[str, str], float] = {}  # gang → until when its pods may still be missing

    def __len__(self) -> int:
        return len(self._pending)

    def put(self, decision: Decision, now: float) -> Decision | None:
        """Queues a decision; returns the part of it that has to be sent at once."""
        key = status_key(decision)
        known = self._pending.pop(key, None)
        self._queue.discard(key)
        merged = decision if known is None else merge(known.decision, decision)
        if isinstance(merged, Nominate | RemoveGate):
            return merged
        urgent = None
        if isinstance(merged, SetPodGroup) and merged.phase in URGENT_PHASES:
            urgent = replace(merged, conditions=None, counts=None, annotations=None)
            merged = replace(merged, phase=None)
            self._admitted[merged.namespace, merged.name] = now + self._pod_creation
        if not is_empty(merged):
            latest = known.latest if known else now + self._longest
            due = self._due(merged, known, latest, now)
            self._pending[key] = _Pending(merged, due, latest)
            self._queue.add_at(key, due)
        return urgent

    def _due(self, decision: Decision, known: _Pending | None, latest: float, now: float) -> float:
        if isinstance(decision, SetPodGroup) and decision.phase is not None:
            # A changed phase is not delayed by the changes that follow it.
            return known.due if known is not None and _changes_phase(known.decision) else now + self._quiet
        if isinstance(decision, SetPodCondition) and decision.message.endswith(NO_OBJECT):
            return now + self._pod_creation  # the pod may have been observed before its PodGroup
        due = min(now + self._quiet, latest)
        if isinstance(decision, SetPodGroup | RecordEvent) and _reports_missing_pods(decision):
            due = max(due, self._admitted.get((decision.namespace, decision.name), due))
        return due

    def get(self, now: float) -> Decision | None:
        """Takes out the next decision that is due, if any."""
        while self._admitted and (oldest := next(iter(self._admitted.items())))[1] <= now:
            del self._admitted[oldest[0]]
        for key in self._queue.get(now, 1):
            self._queue.done(key)
            return self._pending.pop(key).decision
        return None

    def next_due(self) -> float | None:
        """Time at which the next decision is due; None when there is none."""
        return self._queue.next_due()

    def discard(self, key: StatusKey) -> None:
        """Removes a decision that no longer holds."""
        self._pending.pop(key, None)
        self._queue.discard(key)


def _reports_missing_pods(decision: SetPodGroup | RecordEvent) -> bool:
    """Whether it reports that a gang has too few pods: those of a gang admitted just now are being created."""
    if isinstance(decision, RecordEvent):
        return MISSING in decision.message
    return decision.conditions is None or any(MISSING in each.message for each in decision.conditions)


def status_key(decision: Decision) -> StatusKey:
    """Object and field that a decision is about: later decisions with the same key replace earlier ones."""
    match decision:
        case SetQueue(name):
            return "SetQueue", name
        case RecordEvent(_, namespace, name, _, reason):
            # Scheduled and Unschedulable exclude each other.
            return (
                RecordEvent.__name__,
                namespace,
                name,
                "" if reason in ("Scheduled", "Unschedulable") else reason,
            )
        case _:
            return type(decision).__name__, decision.namespace, decision.name


def condition_key(namespace: str, pod: str) -> StatusKey:
    """Key of the PodScheduled condition of a pod."""
    return SetPodCondition.__name__, namespace, pod


def group_keys(namespace: str, group: str) -> tuple[StatusKey, StatusKey]:
    """Keys of a PodGroup's status, and of the event that reports whether it can be scheduled."""
    return (SetPodGroup.__name__, namespace, group), (RecordEvent.__name__, namespace, group, "")


def is_empty(decision: Decision) -> bool:
    """Whether a PodGroup patch has no field left."""
    if not isinstance(decision, SetPodGroup):
        return False
    fields = (decision.phase, decision.conditions, decision.counts, decision.annotations)
    return all(field is None for field in fields)


def merge(earlier: Decision, later: Decision) -> Decision:
    """Both decisions in one; the later one wins where both set a field."""
    match earlier, later:
        case SetPodGroup(), SetPodGroup():
            return replace(
                later,
                phase=earlier.phase if later.phase is None else later.phase,
                conditions=earlier.conditions if later.conditions is None else later.conditions,
                counts=earlier.counts if later.counts is None else later.counts,
                annotations={**(earlier.annotations or {}), **(later.annotations or {})} or None,
            )
        case SetQueue(_, _, dropped), SetQueue():
            removed = {*dropped, *later.dropped} - later.allocated.keys()
            return replace(later, dropped=tuple(sorted(removed)))
        case _:
            return later


def _changes_phase(decision: Decision) -> bool:
    return isinstance(decision, SetPodGroup) and decision.phase is not None
