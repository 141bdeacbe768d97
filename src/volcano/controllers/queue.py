"""Queue controller: opens and closes queues, keeps a hierarchy's states together, and counts PodGroups by phase."""

from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import dataclass

from volcano.clock import Instant
from volcano.controllers.events import record_event
from volcano.controllers.metrics import QueueMetrics
from volcano.kube.client import Event
from volcano.kube.controller import NOTHING, Plan, Reconciler, Watch
from volcano.kube.kinds import COMMAND, POD_GROUP, QUEUE
from volcano.kube.manifest import Key, Manifest, annotations_of, is_deleting, key_of, uid_of
from volcano.kube.names import DEFAULT_QUEUE, ROOT_QUEUE
from volcano.kube.operations import Create, Delete, Operation, Patch
from volcano.metrics import CollectorRegistry

CLOSED_BY_PARENT = "volcano.sh/closed-by-parent"
SHUT = ("Closed", "Closing")
STATES = ("Open", "Closed", "Closing", "Unknown")
# PodGroup phase → the counter it is counted under.
COUNTERS = {
    "Pending": "pending",
    "": "pending",
    "Inqueue": "inqueue",
    "Running": "running",
    "Unknown": "unknown",
    "Completed": "completed",
}
CALM = 1.0  # seconds that news of nothing but counters waits for more of its kind
WELL_KNOWN = {ROOT_QUEUE: False, DEFAULT_QUEUE: True}  # name → reclaimable
SOURCE = "queue-controller"


class QueueController(Reconciler):
    """Writes `status.state` and the counters of a Queue, and nothing else of its status."""

    name = SOURCE
    watches = (Watch(QUEUE), Watch(POD_GROUP), Watch(COMMAND))

    def __init__(self, registry: CollectorRegistry | None = None, *, calm: float = CALM) -> None:
        super().__init__()
        self._calm = calm
        self._metrics = QueueMetrics(registry or CollectorRegistry())
        self._counts: dict[str, Counter[str]] = {}  # PodGroups by phase, for each queue
        self._count_due: dict[str, float] = {}  # when counters that changed have to be written
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

    def keys(self, event: Event) -> Iterable[Hashable]:
        manifest: Manifest = event.object
        if event.kind == POD_GROUP:
            return (_queue_of(manifest),)
        if event.kind == COMMAND:
            return _commanded(manifest)
        name = key_of(manifest).name
        return (name, *(key_of(child).name for child in self.indexer.by_index(QUEUE, "parent", name)))

    def reconcile(self, key: Hashable, now: Instant) -> Plan:
        name = str(key)
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
        move = self._moved(queue, self._action(queue, commands), now)
        status = _status(_settled(move.state, counts), counts)
        self._metrics.counted(name, {part: n for part, n in status.items() if part != "state"})
        operations += _writes(queue, move.annotation, status)
        if status["state"] in SHUT and _state(queue) not in SHUT:
            text = "Close queue succeed"
            operations.append(record_event(queue, QUEUE, "CloseQueue", text, now, source=SOURCE))
        operations += [*move.notes, *_consumed(commands)]
        same = status["state"] == (queue.get("status") or {}).get("state")
        return self._in_time(name, operations, now) if same else Plan(operations)

    def _in_time(self, name: str, operations: list[Operation], now: Instant) -> Plan:
        """Counters alone are written once a second: PodGroups come and go all the time."""
        if len(operations) == 1 and _is_status(operations[0]):
            due = self._count_due.setdefault(name, now.monotonic + self._calm)
            if now.monotonic < due:
                return Plan((), due - now.monotonic)
        self._count_due.pop(name, None)
        return Plan(operations)

    def _action(self, queue: Manifest, commands: list[Manifest]) -> str:
        """What the newest command asks for; one for an older queue of this name asks for nothing."""
        meant = [c for c in commands if (c.get("target") or {}).get("uid") in (None, "", uid_of(queue))]
        return str(max(meant, key=_age).get("action", "")) if meant else ""

    def _moved(self, queue: Manifest, action: str, now: Instant) -> "_Move":
        """Where a queue goes: as commanded, else as its parent went."""
        state, above = _state(queue), self._above(queue)
        annotation = annotations_of(queue).get(CLOSED_BY_PARENT)
        if action == "OpenQueue":
            if above not in SHUT:
                return _Move("Open", "false")
            text = f"Queue {key_of(queue).name} stays closed until its parent queue is open"
            said = record_event(queue, QUEUE, "OpenQueue", text, now, source=SOURCE, warning=True)
            # Marked as closed by the parent, it follows as soon as the parent opens.
            return _Move(state if state in SHUT else "Closing", "true", (said,))
        if action == "CloseQueue" and key_of(queue).name == ROOT_QUEUE:
            text = "the root queue cannot be closed"
            said = record_event(queue, QUEUE, "CloseQueue", text, now, source=SOURCE, warning=True)
            return _Move(state, annotation, (said,))
        if action == "CloseQueue":  # closed on its own account from now on
            return _Move(state if state in SHUT else "Closing", "false")
        if above in SHUT and state not in SHUT:
            return _Move("Closing", "true")
        if above == "Open" and annotation == "true":
            return _Move("Open" if state in SHUT else state, "false")
        return _Move(state, annotation)

    def _above(self, queue: Manifest) -> str:
        """The parent's state; empty where the parent is not known, which moves nobody."""
        parent = (queue.get("spec") or {}).get("parent") or ROOT_QUEUE
        if parent == ROOT_QUEUE or key_of(queue).name == ROOT_QUEUE:
            return "Open"
        above = self.indexer.get(QUEUE, Key("", parent))
        return _state(above) if above is not None else ""


@dataclass(frozen=True, slots=True)
class _Move:
    """A state to go to, what `closed-by-parent` becomes, and what is said about it."""

    state: str
    annotation: str | None
    notes: tuple[Operation, ...] = ()


def _writes(queue: Manifest, annotation: str | None, status: Manifest) -> list[Operation]:
    """Patches of what is not as it should be."""
    key, known = key_of(queue), queue.get("status") or {}
    writes: list[Operation] = []
    # Counters that are absent read as zero: writing zeros would be a write without news.
    counted = {part: known.get(part) or 0 for part in status if part != "state"}
    if {"state": known.get("state"), **counted} != status:
        writes.append(Patch(QUEUE, key, {"status": status}, "status"))
    if annotation != annotations_of(queue).get(CLOSED_BY_PARENT):
        patch = {"metadata": {"annotations": {CLOSED_BY_PARENT: annotation}}}
        # Ended in between, we must find the mark with the queue that is shut: it opens by the mark alone.
        writes.insert(0 if status["state"] in SHUT else len(writes), Patch(QUEUE, key, patch))
    return writes


def _is_status(operation: Operation) -> bool:
    return isinstance(operation, Patch) and operation.subresource == "status"


def _consumed(commands: Iterable[Manifest]) -> list[Operation]:
    return [Delete(COMMAND, key_of(command), if_present=True) for command in commands]


def _state(queue: Manifest) -> str:
    return str((queue.get("status") or {}).get("state") or "Open")


def _settled(state: str, counts: Counter[str]) -> str:
    """Closing becomes Closed when nothing is at work any more; unknown words become Unknown."""
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


def _commanded(command: Manifest) -> Iterable[Hashable]:
    target = command.get("target") or {}
    ours = target.get("kind") == QUEUE.kind and str(target.get("apiVersion", "")).startswith(
        f"{QUEUE.group}/"
    )
    return (target.get("name", ""),) if ours else ()


def _age(command: Manifest) -> tuple[str, str]:
    return command["metadata"].get("creationTimestamp", ""), command["metadata"]["name"]


def _well_known(name: str) -> Operation:
    spec = {
        "weight": 1,
        "reclaimable": WELL_KNOWN[name],
        **({"parent": ROOT_QUEUE} if name != ROOT_QUEUE else {}),
    }
    manifest = {"apiVersion": QUEUE.api_version, "kind": QUEUE.kind, "metadata": {"name": name}, "spec": spec}
    return Create(QUEUE, manifest, if_absent=True)
