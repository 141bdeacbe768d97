"""Queue controller: opens and closes queues, keeps a hierarchy's states together, and counts PodGroups by phase."""

from collections import Counter
from collections.abc import Hashable, Iterable

from volcano.clock import Instant
from volcano.controllers.notes import note
from volcano.kube.client import Event
from volcano.kube.kinds import COMMAND, POD_GROUP, QUEUE
from volcano.kube.manifest import Key, Manifest, annotations_of, is_deleting, key_of
from volcano.kube.names import DEFAULT_QUEUE, ROOT_QUEUE
from volcano.kube.operations import Create, Delete, Operation, Patch
from volcano.kube.reconciler import NOTHING, Plan, Reconciler, Watch

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
WELL_KNOWN = {ROOT_QUEUE: False, DEFAULT_QUEUE: True}  # name → reclaimable
SOURCE = "queue-controller"


class QueueController(Reconciler):
    """Writes `status.state` and the counters of a Queue, and nothing else of its status."""

    name = SOURCE
    watches = (Watch(QUEUE), Watch(POD_GROUP), Watch(COMMAND))

    def __init__(self) -> None:
        super().__init__()
        self.index.facet(QUEUE, "parent", lambda queue: ((queue.get("spec") or {}).get("parent", ""),))
        self.index.facet(POD_GROUP, "queue", lambda group: (_queue_of(group),))
        self.index.facet(COMMAND, "queue", _commanded)
        for name in WELL_KNOWN:
            self.enqueue(name)

    def keys(self, event: Event) -> Iterable[Hashable]:
        manifest: Manifest = event.object
        if event.kind == POD_GROUP:
            return (_queue_of(manifest),)
        if event.kind == COMMAND:
            return _commanded(manifest)
        name = key_of(manifest).name
        return (name, *(key_of(child).name for child in self.index.find(QUEUE, "parent", name)))

    def reconcile(self, key: Hashable, now: Instant) -> Plan:
        name = str(key)
        queue = self.index.get(QUEUE, Key("", name))
        if queue is None:
            orphans = [
                Delete(COMMAND, key_of(c), if_present=True) for c in self.index.find(COMMAND, "queue", name)
            ]
            return Plan([_well_known(name)] if name in WELL_KNOWN else orphans)
        if is_deleting(queue):
            return NOTHING
        operations: list[Operation] = []
        if name != ROOT_QUEUE and not (queue.get("spec") or {}).get("parent"):
            operations.append(Patch(QUEUE, Key("", name), {"spec": {"parent": ROOT_QUEUE}}))
        counts = Counter(_phase(group) for group in self.index.find(POD_GROUP, "queue", name))
        operations += self._move(queue, counts, now)
        return Plan(operations)

    def _move(self, queue: Manifest, counts: Counter[str], now: Instant) -> list[Operation]:
        name, state = key_of(queue).name, (queue.get("status") or {}).get("state") or "Open"
        commands = sorted(self.index.find(COMMAND, "queue", name), key=_age)
        action = commands[-1].get("action", "") if commands else ""
        annotation = annotations_of(queue).get(CLOSED_BY_PARENT)
        shut_above = self._shut_above(queue)
        notes: list[Operation] = []
        if shut_above and state not in SHUT:
            wanted, annotation = "Closing", "true"
        elif not shut_above and state in SHUT and annotation == "true":
            wanted, annotation = "Open", "false"
        else:
            wanted = state
        if action == "OpenQueue":
            if shut_above:
                text = f"Queue {name} stays closed until its parent queue is open"
                notes.append(note(queue, QUEUE, "OpenQueue", text, now, source=SOURCE, warning=True))
                annotation = "true"  # it follows as soon as the parent opens
            else:
                wanted, annotation = "Open", "false"
        elif action == "CloseQueue":
            if name == ROOT_QUEUE:
                text = "the root queue cannot be closed"
                notes.append(note(queue, QUEUE, "CloseQueue", text, now, source=SOURCE, warning=True))
            elif state not in SHUT:
                wanted, annotation = "Closing", "false"
            else:
                annotation = "false"  # closed on its own account from now on
        wanted = _settled(wanted, counts)
        operations: list[Operation] = []
        if annotation != annotations_of(queue).get(CLOSED_BY_PARENT):
            patch = {"metadata": {"annotations": {CLOSED_BY_PARENT: annotation}}}
            operations.append(Patch(QUEUE, Key("", name), patch))
        status = _status(wanted, counts)
        known = queue.get("status") or {}
        # Counters that are absent read as zero: writing zeros would be a write without news.
        if any((known.get(part) or 0) != value for part, value in status.items() if part != "state") or (
            known.get("state") != wanted
        ):
            operations.append(Patch(QUEUE, Key("", name), {"status": status}, "status"))
        if wanted in SHUT and state not in SHUT:
            notes.append(note(queue, QUEUE, "CloseQueue", "Close queue succeed", now, source=SOURCE))
        return [*operations, *notes, *(Delete(COMMAND, key_of(c), if_present=True) for c in commands)]

    def _shut_above(self, queue: Manifest) -> bool:
        parent = (queue.get("spec") or {}).get("parent", "")
        if parent in ("", ROOT_QUEUE) or key_of(queue).name == ROOT_QUEUE:
            return False
        above = self.index.get(QUEUE, Key("", parent))
        return above is not None and (above.get("status") or {}).get("state") in SHUT


def _settled(state: str, counts: Counter[str]) -> str:
    """Closing becomes Closed when nothing is at work any more; unknown words become Unknown."""
    if state in SHUT:
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
