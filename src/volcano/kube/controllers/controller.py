"""Controllers that do no I/O: events in, operations out, time as an argument."""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from types import MappingProxyType
from typing import ClassVar, Generic, Protocol, TypeVar, cast, runtime_checkable

from volcano.base.clock import Instant
from volcano.base.log import Log
from volcano.base.workqueue import WorkQueue
from volcano.kube.api.errors import ApiError
from volcano.kube.api.kinds import Kind
from volcano.kube.api.manifest import Key, Manifest, controller_of, is_deleting, key_of, uid_of
from volcano.kube.client.operations import Concurrent, Create, Delete, Get, Operation, is_rejected
from volcano.kube.client.protocol import Event, EventType, Watch
from volcano.kube.controllers.write_loops import WriteLoopDetector
from volcano.kube.informers.indexer import Indexer

log = Log("reconciler")

K = TypeVar("K", bound=Hashable)

# Keys reconciled in one step; other tasks of the process run before the rest.
MAX_KEYS_PER_STEP = 32
# Keys with low-priority writes in flight, so that status reports do not delay a busy server's other work.
MAX_LOW_PRIORITY = 4


@dataclass(frozen=True, slots=True)
class WorkItem:
    """Writes for one key, done in order; the first error ends them.

    `concurrent` are ranges of `operations` (start, stop) that may be done concurrently: all of a range are tried, a
    failed one has its Status as result, and the first error among them ends the item after the range.
    """

    key: Hashable
    operations: tuple[Operation, ...]
    concurrent: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class WorkResult:
    """The result of each operation of a WorkItem, and the error that ended it, if any."""

    work: WorkItem
    results: tuple[Manifest, ...]
    error: ApiError | None = None

    @property
    def failed(self) -> Operation | None:
        """The operation that ended the item with `error`."""
        if self.error is None:
            return None
        rejected = (place for place, result in enumerate(self.results) if is_rejected(result))
        return self.work.operations[min(next(rejected, len(self.results)), len(self.work.operations) - 1)]


class Controller(Protocol):
    """A controller without I/O, driven by a ControllerRunner or by a simulation under a virtual clock."""

    @property
    def name(self) -> str: ...

    @property
    def watches(self) -> Sequence[Watch]:
        """The same object as long as nothing changes; a different one changes the subscriptions while it runs."""
        ...

    def on_event(self, event: Event) -> None:
        """Records one change. Cheap; decides nothing."""
        ...

    def step(self, now: Instant) -> list[WorkItem]:
        """Returns the writes to do now. Items of one key never overlap: the next one follows `on_result`."""
        ...

    def on_result(self, done: WorkResult, now: Instant) -> None:
        """Receives the result of one WorkItem."""
        ...

    def next_due(self) -> float | None:
        """Returns the monotonic time at which `step` has work even without a new event; None for never."""
        ...


@dataclass(frozen=True, slots=True)
class Plan:
    """Result of reconciling one key: writes in order, and after how many seconds to reconcile it again, if at all.

    A `low_priority` plan, such as one that only updates counters, is postponed while many others are in flight.
    """

    operations: Sequence[Operation | Concurrent] = ()
    requeue_after: float | None = None
    low_priority: bool = False


NOTHING = Plan()


@dataclass(frozen=True, slots=True)
class _UnmappedObject:
    """A key of the work queue: an object whose event failed before its keys were known."""

    kind: Kind
    key: Key


class SteppedWhenDue:
    """Base of controllers whose `next_due` tells when recorded events require a step: others are stepped after every
    batch of events."""


@runtime_checkable
class HandlesBatches(Protocol):
    """A controller that is called once for a batch of events, instead of `on_event` for each."""

    def on_events(self, batch: Sequence[Event]) -> None:
        """Records changes, in order. A change that cannot be recorded must not stop the others: the error is raised at
        the end."""
        ...


class Reconciler(SteppedWhenDue, ABC, Generic[K]):
    """A controller that reconciles one key at a time; its work is queued by keys of type `K`.

    A controller names the kinds it watches in `watches`. Each event updates `indexer`, and `keys` maps its object to
    the keys to reconcile, often the object's own key or that of its owner. `step` takes due keys from the work queue
    and calls `reconcile`, which compares the desired with the actual state, both read from `indexer`, and returns a
    `Plan`: the writes to do, and optionally when to reconcile the key again. The runner does the writes and passes
    their results to `on_result`, which updates `indexer`, so that the next reconcile sees them, and queues the key
    again: at once after success, until there is nothing left to write, or after a back-off when a write failed. A key
    is never reconciled while its writes are in flight, and one whose writes loop is delayed by `write_loops`.
    """

    name: str = ""
    watches: Sequence[Watch] = ()
    # Kinds of which only objects with a controller of one of the given kinds (None: without a controller) are needed.
    # Filters events of shared informers; other events may arrive nevertheless and are left to `accepts`.
    owner_kinds: Mapping[Kind, Sequence[Kind | None]] = MappingProxyType({})

    def __init__(self) -> None:
        self.indexer = Indexer()
        self._queue: WorkQueue[K | _UnmappedObject] = WorkQueue()
        # Keys with low-priority writes in flight.
        self._low_priority: set[K | _UnmappedObject] = set()
        # Keys whose low-priority writes wait, in order.
        self._postponed: dict[K | _UnmappedObject, None] = {}
        self.write_loops = WriteLoopDetector(self.name)
        # The event that is applied is the result of an own write.
        self._is_own_result = False

    @abstractmethod
    def keys(self, event: Event) -> Iterable[K]:
        """Returns the keys to reconcile for an object; called for its previous and its present version."""

    @abstractmethod
    def reconcile(self, key: K, now: Instant) -> Plan:
        """Returns the writes that move the cluster towards the desired state of `key`. Reads `self.indexer` only."""

    def on_written(self, operation: Operation, result: Manifest) -> None:
        """Called after each successful write, when the indexer has been updated."""

    def on_done(self, key: K, done: WorkResult, now: Instant) -> None:
        """Called with the results of a plan's writes, before the indexer is updated."""

    def accepts(self, event: Event) -> bool:
        """Whether an object is of this controller's concern. Cheap; keeps other objects out of the indexer."""
        return True

    def is_irrelevant(self, event: Event) -> bool:
        """Whether no key is concerned by an object at present, neither by its previous nor by its new version, so that
        the event can be deferred until the indexer is read. Must not read objects of the event's kind."""
        return False

    def on_event(self, event: Event) -> None:
        if event.type is EventType.BOOKMARK or not self.accepts(event):
            return
        object_key = event.key or key_of(event.object)
        if event.type is not EventType.DELETED and self.is_irrelevant(event):
            self.indexer.defer(event, object_key)
            return
        known = self.indexer.get(event.kind, object_key)
        if not self.indexer.update(event, object_key, known):
            return
        try:
            if known is None:
                concerned = self.keys(event)
            else:  # the keys of the previous version too: the object may have moved to another owner
                concerned = {*self.keys(Event(event.type, event.kind, known)), *self.keys(event)}
        except Exception:
            self._queue.add(_UnmappedObject(event.kind, object_key))  # mapped again, with back-off
            raise
        for key in concerned:
            self._queue.add(key)
            if not self._is_own_result:
                self.write_loops.on_event(key, event.kind, object_key, known=known, new=event.object)

    def on_unsubscribed(self, watch: Watch) -> None:
        """Removes the objects of a watch that is not among `watches` any more."""
        self.indexer.drop(watch.kind, watch.namespace)

    def enqueue(self, key: K) -> None:
        """Queues `key` for the next step."""
        self._queue.add(key)
        if not self._is_own_result:
            self.write_loops.on_enqueued(key)

    def step(self, now: Instant) -> list[WorkItem]:
        queue = self._queue
        items = []
        for key in queue.get(now.monotonic, MAX_KEYS_PER_STEP):
            self._postponed.pop(key, None)
            if delay := self.write_loops.delay(key, self.indexer, now.monotonic):
                queue.add_at(key, now.monotonic + delay)
                queue.done(key)
                continue
            try:
                plan = self._map_again(key) if isinstance(key, _UnmappedObject) else self.reconcile(key, now)
            except Exception as error:  # a bug that one key triggers must not stop the others
                log.error("reconcile failed", controller=self.name, key=key, error=error)
                queue.retry(key, now.monotonic)
                queue.done(key)
                continue
            if plan.requeue_after is not None:
                queue.add_at(key, now.monotonic + plan.requeue_after)
            if plan.low_priority and len(self._low_priority) >= MAX_LOW_PRIORITY:
                self._postponed[key] = None
                queue.done(key)
            elif plan.operations:
                if plan.low_priority:
                    self._low_priority.add(key)
                items.append(_work_item(key, plan.operations))  # done when `on_result` is called
            else:
                queue.forget(key)
                queue.done(key)
        self._enqueue_postponed()
        return items

    def _map_again(self, unmapped: "_UnmappedObject") -> Plan:
        """Queues the keys of an object for which `keys` raised before."""
        manifest = self.indexer.get(unmapped.kind, unmapped.key)
        if manifest is not None:
            for key in self.keys(Event(EventType.MODIFIED, unmapped.kind, manifest)):
                self._queue.add(key)
        return NOTHING

    def _enqueue_postponed(self) -> None:
        """Queues as many postponed keys as there are free low-priority slots."""
        for key in list(islice(self._postponed, max(MAX_LOW_PRIORITY - len(self._low_priority), 0))):
            del self._postponed[key]
            self._queue.add(key)

    def on_result(self, done: WorkResult, now: Instant) -> None:
        key = cast(K, done.work.key)
        self.on_done(key, done, now)
        for operation, result in zip(done.work.operations, done.results, strict=False):
            if is_rejected(result):
                continue
            self._is_own_result = True
            try:
                self._update_indexer(operation, result)
            finally:
                self._is_own_result = False
            self.write_loops.on_written(key, operation, result, now.monotonic)
            self.on_written(operation, result)
        self._low_priority.discard(key)
        if done.error is not None:
            self._queue.retry(key, now.monotonic)
        else:
            self._queue.forget(key)
            # Own writes may require more writes: reconcile until there is nothing left to write.
            self._queue.add(key)
        self._queue.done(key)

    def next_due(self) -> float | None:
        return self._queue.next_due()

    def _update_indexer(self, operation: Operation, result: Manifest) -> None:
        """Applies the result of a write as an event, so that the next reconcile sees it."""
        if isinstance(operation, Get) and not result:
            return  # what is known under the key may be another object than the one that was read
        if not result and getattr(operation, "if_present", False):
            known = self.indexer.get(operation.kind, operation.key)
            if known is not None:
                self.on_event(Event(EventType.DELETED, operation.kind, known))
            return
        if isinstance(operation, Delete) and result.get("kind") == "Status":
            self._apply_deletion(operation, result)
            return
        if getattr(operation, "subresource", "") not in ("", "status") or "metadata" not in result:
            return
        if result.get("kind") not in (None, operation.kind.kind):
            return  # a Status: the change arrives with the watch
        if isinstance(operation, Delete):
            metadata = result["metadata"]
            is_deleted = not metadata.get("deletionTimestamp") and not metadata.get("finalizers")
            event_type = EventType.DELETED if is_deleted else EventType.MODIFIED
        else:
            event_type = EventType.ADDED if isinstance(operation, Create) else EventType.MODIFIED
        self.on_event(Event(event_type, operation.kind, result))

    def _apply_deletion(self, operation: Delete, status: Manifest) -> None:
        """Removes an object whose deletion was answered with a Status: it is complete.

        An object that still waits for its finalizers is returned instead of a Status.
        """
        known = self.indexer.get(operation.kind, operation.key)
        if known is None or status.get("status") != "Success" or known["metadata"].get("finalizers"):
            return
        if (status.get("details") or {}).get("uid") in (None, "", uid_of(known)):
            self.on_event(Event(EventType.DELETED, operation.kind, known))


class ObjectReconciler(Reconciler[Key]):
    """A Reconciler of the objects of one kind: an event of such an object, or of one that it controls, queues it."""

    kind: ClassVar[Kind]
    # Kinds whose objects are found by `indexer.owned`.
    owns: ClassVar[Sequence[Kind]] = ()

    def __init__(self) -> None:
        super().__init__()
        for kind in self.owns:
            self.indexer.add_controller_index(kind)

    @abstractmethod
    def reconcile_object(self, manifest: Manifest, now: Instant) -> Plan:
        """Returns the writes that move the cluster towards the desired state of an object that exists and is not being
        deleted."""

    def on_gone(self, key: Key) -> None:
        """Drops what is known of an object that does not exist, or is being deleted."""

    def keys(self, event: Event) -> Iterable[Key]:
        return (event.object_key(),) if event.kind == self.kind else owner_keys(event.object, self.kind)

    def reconcile(self, key: Key, now: Instant) -> Plan:
        manifest = self.indexer.get(self.kind, key)
        if manifest is not None and not is_deleting(manifest):
            return self.reconcile_object(manifest, now)
        self.on_gone(key)
        return NOTHING


def owner_keys(manifest: Manifest, kind: Kind) -> tuple[Key, ...]:
    """The key of the object that controls another, if it is of this kind."""
    owner = controller_of(manifest)
    if owner is None or (owner["kind"], owner["apiVersion"].rpartition("/")[0]) != (kind.kind, kind.group):
        return ()
    return (Key(key_of(manifest).namespace if kind.namespaced else "", owner["name"]),)


def _work_item(key: Hashable, operations: Sequence[Operation | Concurrent]) -> WorkItem:
    """Flattens operations into a WorkItem that records the ranges of concurrent ones."""
    flat: list[Operation] = []
    ranges = []
    for operation in operations:
        if isinstance(operation, Concurrent):
            ranges.append((len(flat), len(flat) + len(operation.operations)))
            flat.extend(operation.operations)
        else:
            flat.append(operation)
    return WorkItem(key, tuple(flat), tuple(ranges))
