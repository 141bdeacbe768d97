"""Queue controller: opens and closes queues, propagates states in a hierarchy, and counts PodGroups by phase."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from volcano.base.clock import Instant
from volcano.base.metrics import CollectorRegistry
from volcano.controllers.metrics import QueueMetrics
from volcano.kube.api.kinds import COMMAND, POD_GROUP, QUEUE
from volcano.kube.api.manifest import Key, Manifest, annotations_of, is_deleting, key_of, uid_of, version_of
from volcano.kube.api.names import DEFAULT_QUEUE, ROOT_QUEUE
from volcano.kube.client.operations import Create, Delete, Operation, Patch
from volcano.kube.client.protocol import Event, Watch
from volcano.kube.controllers.controller import NOTHING, Plan, Reconciler
from volcano.kube.controllers.events import record_event

CLOSED_BY_PARENT = "volcano.sh/closed-by-parent"
CLOSED_STATES = ("Closed", "Closing")
STATES = ("Open", "Closed", "Closing", "Unknown")
# PodGroup phase → its counter in the status.
COUNTERS = {
    "Pending": "pending",
    "": "pending",
    "Inqueue": "inqueue",
    "Running": "running",
    "Unknown": "unknown",
    "Completed": "completed",
}
COUNTERS_DELAY = 1.0  # seconds for which changes of counters are collected into one write
WELL_KNOWN = {ROOT_QUEUE: False, DEFAULT_QUEUE: True}  # name → reclaimable
SOURCE = "queue-controller"


class QueueController(Reconciler[str]):
    """Writes `status.state` and the counters of a Queue, and nothing else of its status."""

    name = SOURCE

    def __init__(
        self,
        registry: CollectorRegistry | None = None,
        *,
        calm: float = COUNTERS_DELAY,
        commands: bool = True,
    ) -> None:
        """Without `commands`, queues are not opened and closed by Commands."""
        super().__init__()
        self.watches = (Watch(QUEUE), Watch(POD_GROUP), *((Watch(COMMAND),) if commands else ()))
        self._calm = calm
        self._metrics = QueueMetrics(registry or CollectorRegistry())
        self._counts: dict[str, Counter[str]] = {}  # PodGroups by phase, for each queue
        self._counters_due: dict[str, float] = {}  # when counters that changed have to be written
        self.indexer.add_index(QUEUE, "parent", lambda queue: ((queue.get("spec") or {}).get("parent", ""),))
        self.indexer.add_index(COMMAND, "queue", _commanded)
        for name in WELL_KNOWN:
            self.enqueue(name)

    def on_event(self, event: Event) -> None:
        if event.kind != POD_GROUP:
            super().on_event(event)
            return
        key = key_of(event.object)
        before = self.indexer.get(POD_GROUP, key)
        super().on_event(event)
        for group, change in ((before, -1), (self.indexer.get(POD_GROUP, key), 1)):
            if group is not None:
                self._counts.setdefault(_queue_of(group), Counter())[_phase(group)] += change

    def keys(self, event: Event) -> Iterable[str]:
        manifest: Manifest = event.object
        if event.kind == POD_GROUP:
            return (_queue_of(manifest),)
        if event.kind == COMMAND:
            return _commanded(manifest)
        name = key_of(manifest).name
        return (name, *(key_of(child).name for child in self.indexer.by_index(QUEUE, "parent", name)))

    def reconcile(self, name: str, now: Instant) -> Plan:
        queue = self.indexer.get(QUEUE, Key("", name))
        commands = self.indexer.by_index(COMMAND, "queue", name)
        if queue is None:
            self._metrics.forget(name)
            return Plan([_well_known(name)] if name in WELL_KNOWN else _consumed(commands))
        if is_deleting(queue):
            return NOTHING
        operations: list[Operation] = []
        if name != ROOT_QUEUE and not (queue.get("spec") or {}).get("parent"):
            operations.append(Patch(QUEUE, Key("", name), {"spec": {"parent": ROOT_QUEUE}}))
        counts = self._counts.get(name, Counter())
        move = self._next_state(queue, self._action(queue, commands), now)
        status = _status(_after_closing(move.state, counts), counts)
        self._metrics.counted(name, {part: n for part, n in status.items() if part != "state"})
        operations += _writes(queue, move.annotation, status)
        if status["state"] in CLOSED_STATES and _state(queue) not in CLOSED_STATES:
            text = "Close queue succeed"
            operations.append(record_event(queue, QUEUE, "CloseQueue", text, now, source=SOURCE))
            if name == DEFAULT_QUEUE:
                text = "jobs that name no queue are rejected until the default queue is opened"
                operations.append(
                    record_event(queue, QUEUE, "CloseQueue", text, now, source=SOURCE, warning=True)
                )
        operations += [*move.notes, *_consumed(commands)]
        same = status["state"] == (queue.get("status") or {}).get("state")
        return self._delay_counters(name, operations, now) if same else Plan(operations)

    def _delay_counters(self, name: str, operations: list[Operation], now: Instant) -> Plan:
        """Delays writes of counters alone, which change all the time."""
        if len(operations) == 1 and _is_status(operations[0]):
            due = self._counters_due.setdefault(name, now.monotonic + self._calm)
            if now.monotonic < due:
                return Plan((), due - now.monotonic)
        self._counters_due.pop(name, None)
        return Plan(operations)

    def _action(self, queue: Manifest, commands: list[Manifest]) -> str:
        """The action of the newest command; commands for a deleted queue of the same name are ignored."""
        meant = [c for c in commands if (c.get("target") or {}).get("uid") in (None, "", uid_of(queue))]
        return str(max(meant, key=version_of).get("action", "")) if meant else ""

    def _next_state(self, queue: Manifest, action: str, now: Instant) -> "_Transition":
        """The state a queue moves to: as commanded, else as its parent moved."""
        state, above = _state(queue), self._parent_state(queue)
        annotation = annotations_of(queue).get(CLOSED_BY_PARENT)
        if action == "OpenQueue":
            if above not in CLOSED_STATES:
                return _Transition("Open", "false")
            text = f"Queue {key_of(queue).name} stays closed until its parent queue is open"
            event = record_event(queue, QUEUE, "OpenQueue", text, now, source=SOURCE, warning=True)
            # Marked as closed by its parent, it opens when the parent opens.
            return _Transition(state if state in CLOSED_STATES else "Closing", "true", (event,))
        if action == "CloseQueue" and key_of(queue).name == ROOT_QUEUE:
            text = "the root queue cannot be closed"
            event = record_event(queue, QUEUE, "CloseQueue", text, now, source=SOURCE, warning=True)
            return _Transition(state, annotation, (event,))
        if action == "CloseQueue":  # no longer closed by its parent
            return _Transition(state if state in CLOSED_STATES else "Closing", "false")
        if above in CLOSED_STATES and state not in CLOSED_STATES:
            return _Transition("Closing", "true")
        if above == "Open" and annotation == "true":
            return _Transition("Open" if state in CLOSED_STATES else state, "false")
        return _Transition(state, annotation)

    def _parent_state(self, queue: Manifest) -> str:
        """The parent's state; empty when the parent is unknown, which changes nothing."""
        parent = (queue.get("spec") or {}).get("parent") or ROOT_QUEUE
        if parent == ROOT_QUEUE or key_of(queue).name == ROOT_QUEUE:
            return "Open"
        above = self.indexer.get(QUEUE, Key("", parent))
        return _state(above) if above is not None else ""


@dataclass(frozen=True, slots=True)
class _Transition:
    """A new state, the value of `closed-by-parent`, and the event about it."""

    state: str
    annotation: str | None
    notes: tuple[Operation, ...] = ()


def _writes(queue: Manifest, annotation: str | None, status: Manifest) -> list[Operation]:
    """Patches of what differs from the desired state."""
    key, known = key_of(queue), queue.get("status") or {}
    writes: list[Operation] = []
    # Absent counters are zero: writing zeros would change nothing.
    counted = {part: known.get(part) or 0 for part in status if part != "state"}
    if {"state": known.get("state"), **counted} != status:
        writes.append(Patch(QUEUE, key, {"status": status}, "status"))
    if annotation != annotations_of(queue).get(CLOSED_BY_PARENT):
        patch = {"metadata": {"annotations": {CLOSED_BY_PARENT: annotation}}}
        # The mark is written first: after a crash in between, the closed queue opens by the mark alone.
        writes.insert(0 if status["state"] in CLOSED_STATES else len(writes), Patch(QUEUE, key, patch))
    return writes


def _is_status(operation: Operation) -> bool:
    return isinstance(operation, Patch) and operation.subresource == "status"


def _consumed(commands: Iterable[Manifest]) -> list[Operation]:
    return [Delete(COMMAND, key_of(command), if_present=True) for command in commands]


def _state(queue: Manifest) -> str:
    return str((queue.get("status") or {}).get("state") or "Open")


def _after_closing(state: str, counts: Counter[str]) -> str:
    """Closing becomes Closed when no PodGroup is active any more; unknown states become Unknown."""
    if state == "Closing":
        busy = sum(count for phase, count in counts.items() if phase != "Completed")
        return "Closing" if busy else "Closed"
    return state if state in STATES else "Unknown"


def _status(state: str, counts: Counter[str]) -> Manifest:
    status: Manifest = {"state": state, **dict.fromkeys(COUNTERS.values(), 0)}
    for phase, count in counts.items():
        status[COUNTERS.get(phase, "unknown")] += count
    return status


def _phase(group: Manifest) -> str:
    return str((group.get("status") or {}).get("phase", ""))


def _queue_of(group: Manifest) -> str:
    return str((group.get("spec") or {}).get("queue") or DEFAULT_QUEUE)


def _commanded(command: Manifest) -> Iterable[str]:
    target = command.get("target") or {}
    ours = target.get("kind") == QUEUE.kind and str(target.get("apiVersion", "")).startswith(
        f"{QUEUE.group}/"
    )
    return (target.get("name", ""),) if ours else ()


def _well_known(name: str) -> Operation:
    spec = {
        "weight": 1,
        "reclaimable": WELL_KNOWN[name],
        **({"parent": ROOT_QUEUE} if name != ROOT_QUEUE else {}),
    }
    manifest = {"apiVersion": QUEUE.api_version, "kind": QUEUE.kind, "metadata": {"name": name}, "spec": spec}
    return Create(QUEUE, manifest, if_absent=True)
