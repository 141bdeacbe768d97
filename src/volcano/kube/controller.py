"""Controllers that do no I/O: events in, operations out, time as an argument."""

import heapq
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from types import MappingProxyType
from typing import Protocol

from volcano.clock import Instant
from volcano.kube.client import Event, EventType
from volcano.kube.errors import ApiError
from volcano.kube.indexer import Indexer
from volcano.kube.kinds import Kind
from volcano.kube.manifest import Manifest, key_of, uid_of
from volcano.kube.operations import Create, Delete, Get, Operation, Together, refused
from volcano.log import Log

log = Log("reconciler")

FIRST_RETRY = 0.05
LONGEST_RETRY = 30.0
# Keys looked at in one step; others in the process get their turn before the rest.
MOST_AT_ONCE = 32
# Reports under way at a time: a server that is busy is not kept from work by what we have to say about it.
REPORTS_AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class Watch:
    """Objects a controller wants to hear of."""

    kind: Kind
    namespace: str = ""
    labels: str = ""
    fields: str = ""


@dataclass(frozen=True, slots=True)
class WorkItem:
    """Writes that belong together, done in order; the first refusal ends them.

    `groups` are ranges of `operations` (start, stop) that may be done side by side: all of a group are tried, the
    refused ones answered with their Status, and the first refusal among them ends the work after its group.
    """

    key: Hashable
    operations: tuple[Operation, ...]
    groups: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class WorkResult:
    """What became of one piece of work: each operation's answer, and the refusal that ended it, if any."""

    work: WorkItem
    results: tuple[Manifest, ...]
    error: ApiError | None = None


class Controller(Protocol):
    """What a runner (or a simulator under a virtual clock) drives."""

    @property
    def name(self) -> str: ...

    @property
    def watches(self) -> Sequence[Watch]:
        """The same object as long as nothing changes; a different one changes the subscriptions while it runs."""
        ...

    def on_event(self, event: Event) -> None:
        """Takes in one change. Cheap; decides nothing."""
        ...

    def step(self, now: Instant) -> list[WorkItem]:
        """What should be written now. Work under one key never overlaps: the next waits for `settle`."""
        ...

    def on_result(self, done: WorkResult, now: Instant) -> None:
        """Hears what became of a piece of work."""
        ...

    def next_due(self) -> float | None:
        """The monotonic moment at which `step` has work even without a new event; None when never."""
        ...


@dataclass(frozen=True, slots=True)
class Plan:
    """What reconciling one key came to: writes in order, and when to look again (seconds from now), if ever.

    A `report` changes nothing for anybody but who reads it: while many are under way, the key is looked at again later.
    """

    operations: Sequence[Operation | Together] = ()
    again_after: float | None = None
    report: bool = False


NOTHING = Plan()


@dataclass(slots=True)
class _Retry:
    failures: int = 0


@dataclass(slots=True)
class _Queue:
    """Keys that need a look: at once, or at a moment. One entry a key; keys in flight wait."""

    ready: dict[Hashable, None] = field(default_factory=dict)
    due: list[tuple[float, int, Hashable]] = field(default_factory=list)
    due_at: dict[Hashable, float] = field(default_factory=dict)
    busy: dict[Hashable, bool] = field(default_factory=dict)  # in flight → touched meanwhile
    count: int = 0

    def add(self, key: Hashable) -> None:
        if key in self.busy:
            self.busy[key] = True
        else:
            self.ready[key] = None

    def add_at(self, key: Hashable, moment: float) -> None:
        if self.due_at.get(key, float("inf")) > moment:
            self.due_at[key] = moment
            self.count += 1
            heapq.heappush(self.due, (moment, self.count, key))

    def take(self, moment: float) -> list[Hashable]:
        while self.due and self.due[0][0] <= moment:
            at, _, key = heapq.heappop(self.due)
            if self.due_at.get(key) == at:
                del self.due_at[key]
                self.add(key)
        keys = list(islice(self.ready, MOST_AT_ONCE))
        for key in keys:
            del self.ready[key]
        return keys


class Reconciler(ABC):
    """A controller that looks at one key at a time: indexes events, queues keys, retries refusals with back-off."""

    name: str = ""
    watches: Sequence[Watch] = ()
    # Of these kinds, only objects that one of the given kinds manages (None: that nobody manages) need be told of.
    # Whoever tells of others does no harm: `wants` has the last word.
    managers: Mapping[Kind, Sequence[Kind | None]] = MappingProxyType({})

    def __init__(self) -> None:
        self.indexer = Indexer()
        self._queue = _Queue()
        self._retries: dict[Hashable, _Retry] = {}
        self._reporting: set[Hashable] = set()  # keys whose reports are under way
        self._unreported: dict[Hashable, None] = {}  # keys that have something to report, in order

    @abstractmethod
    def keys(self, event: Event) -> Iterable[Hashable]:
        """The keys that an object concerns; asked for what it was and for what it is now."""

    @abstractmethod
    def reconcile(self, key: Hashable, now: Instant) -> Plan:
        """What has to be written so that the cluster moves towards what `key` asks for. Reads `self.index` only."""

    def written(self, operation: Operation, result: Manifest) -> None:  # noqa: B027 - optional
        """Hears of one successful write, beyond the index having taken it in."""

    def wants(self, event: Event) -> bool:
        """Whether an object is of any concern. Cheap: it spares the index what is of none, such as others' pods."""
        return True

    def indifferent(self, event: Event) -> bool:
        """Whether nobody could be concerned by an object at present, neither as it was nor as it is now, so that it
        need not be looked at before somebody looks for it. To be answered without a look at objects of its kind."""
        return False

    def on_event(self, event: Event) -> None:
        if event.type is EventType.BOOKMARK or not self.wants(event):
            return
        place = event.key or key_of(event.object)
        if event.type is not EventType.DELETED and self.indifferent(event):
            self.indexer.put_aside(event, place)
            return
        known = self.indexer.get(event.kind, place)
        if not self.indexer.take(event, place, known):
            return
        if known is None:
            concerned = self.keys(event)
        else:  # whom the object concerned before hears of it too: it may have moved away
            concerned = {*self.keys(Event(event.type, event.kind, known)), *self.keys(event)}
        for key in concerned:
            self._queue.add(key)

    def on_unsubscribed(self, watch: Watch) -> None:
        """Removes the objects of a watch that is not among `watches` any more."""
        self.indexer.drop(watch.kind, watch.namespace)

    def enqueue(self, key: Hashable) -> None:
        """Asks for a look at `key` in the next step."""
        self._queue.add(key)

    def enqueue_at(self, key: Hashable, monotonic: float) -> None:
        """Asks for a look at `key` at a moment."""
        self._queue.add_at(key, monotonic)

    def step(self, now: Instant) -> list[WorkItem]:
        works = []
        for key in self._queue.take(now.monotonic):
            self._unreported.pop(key, None)
            try:
                plan = self.reconcile(key, now)
            except Exception as error:  # one key's trouble must not cost the others their turn
                log.error("reconcile failed", controller=self.name, key=key, error=error)
                self._retry(key, now)
                continue
            if plan.again_after is not None:
                self._queue.add_at(key, now.monotonic + plan.again_after)
            if plan.report and len(self._reporting) >= REPORTS_AT_ONCE:
                self._unreported[key] = None
            elif plan.operations:
                if plan.report:
                    self._reporting.add(key)
                self._queue.busy[key] = False
                works.append(_work(key, plan.operations))
            else:
                self._retries.pop(key, None)
        self._ask_for_reports()
        return works

    def _ask_for_reports(self) -> None:
        """Has keys looked at again whose reports there is room for now."""
        for key in list(islice(self._unreported, max(REPORTS_AT_ONCE - len(self._reporting), 0))):
            del self._unreported[key]
            self._queue.add(key)

    def on_result(self, done: WorkResult, now: Instant) -> None:
        for operation, result in zip(done.work.operations, done.results, strict=False):
            if refused(result):
                continue
            self._learn(operation, result)
            self.written(operation, result)
        key = done.work.key
        self._reporting.discard(key)
        touched = self._queue.busy.pop(key, False)
        if done.error is not None:
            self._retry(key, now)
        else:
            self._retries.pop(key, None)
            # Our own writes may ask for more: look again until there is nothing left to write.
            self._queue.add(key)
        if touched:
            self._queue.add(key)

    def next_due(self) -> float | None:
        if self._queue.ready:
            return float("-inf")
        return self._queue.due[0][0] if self._queue.due else None

    def _retry(self, key: Hashable, now: Instant) -> None:
        retry = self._retries.setdefault(key, _Retry())
        delay = min(FIRST_RETRY * 2**retry.failures, LONGEST_RETRY)
        retry.failures += 1
        self._queue.add_at(key, now.monotonic + delay)

    def _learn(self, operation: Operation, result: Manifest) -> None:
        """Feeds the answer to a write back as an event, so that the next look sees it."""
        if isinstance(operation, Get) and not result:
            return  # what is known under the key may be another object than the one that was read
        if not result and getattr(operation, "if_present", False):
            known = self.indexer.get(operation.kind, operation.key)
            if known is not None:
                self.on_event(Event(EventType.DELETED, operation.kind, known))
            return
        if isinstance(operation, Delete) and result.get("kind") == "Status":
            self._learn_of_going(operation, result)
            return
        if getattr(operation, "subresource", "") not in ("", "status") or "metadata" not in result:
            return
        if result.get("kind") not in (None, operation.kind.kind):
            return  # a Status: the watch will tell
        if isinstance(operation, Delete):
            gone = not result["metadata"].get("deletionTimestamp") and not result["metadata"].get(
                "finalizers"
            )
            event_type = EventType.DELETED if gone else EventType.MODIFIED
        else:
            event_type = EventType.ADDED if isinstance(operation, Create) else EventType.MODIFIED
        self.on_event(Event(event_type, operation.kind, result))

    def _learn_of_going(self, operation: Delete, answer: Manifest) -> None:
        """A deletion answered with a Status is done: who waits for something else is answered with the object."""
        known = self.indexer.get(operation.kind, operation.key)
        if known is None or answer.get("status") != "Success" or known["metadata"].get("finalizers"):
            return
        if (answer.get("details") or {}).get("uid") in (None, "", uid_of(known)):
            self.on_event(Event(EventType.DELETED, operation.kind, known))


def _work(key: Hashable, operations: Sequence[Operation | Together]) -> WorkItem:
    """Operations laid out flat, remembering which of them may be done side by side."""
    flat: list[Operation] = []
    groups = []
    for operation in operations:
        if isinstance(operation, Together):
            groups.append((len(flat), len(flat) + len(operation.operations)))
            flat.extend(operation.operations)
        else:
            flat.append(operation)
    return WorkItem(key, tuple(flat), tuple(groups))
