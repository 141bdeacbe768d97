"""Budget controller: compares the usage of queues with their budgets, and reports 80 % and 100 %."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from volcano.accounting.budgets import Budget, parse_budgets
from volcano.accounting.periods import period_end, period_start
from volcano.clock import Instant, timestamp
from volcano.controllers.events import record_event
from volcano.kube.client import Event
from volcano.kube.controller import NOTHING, Plan, Reconciler, Watch
from volcano.kube.kinds import QUEUE
from volcano.kube.manifest import Key, Manifest, annotations_of, is_deleting, key_of
from volcano.kube.names import BUDGET, BUDGET_EXHAUSTED, BUDGET_WARNING, ROOT_QUEUE
from volcano.kube.operations import Operation, Patch

CHECK_SECONDS: Final = 15.0
NOTICED_AT: Final = {BUDGET_WARNING: 0.8, BUDGET_EXHAUSTED: 1.0}  # condition → part of the budget
PHRASES: Final = {
    BUDGET_WARNING: "80 % of the budget {} is used",
    BUDGET_EXHAUSTED: "the budget {} is used up",
}
SOURCE: Final = "budget-controller"

# Resource-seconds by queue and resource since the start of the present period; None while that is not known.
ReadUsage = Callable[[str, float], Mapping[tuple[str, str], float] | None]


class _Notice(NamedTuple):
    """A condition of a queue."""

    type: str
    active: bool
    reason: str
    message: str


class BudgetController(Reconciler[str]):
    """Writes the conditions BudgetWarning and BudgetExhausted of queues with the annotation, and events about them.

    The usage of a queue includes that of its descendants.
    """

    name = SOURCE

    def __init__(self, read_usage: ReadUsage) -> None:
        super().__init__()
        self.watches = (Watch(QUEUE),)
        self._read_usage = read_usage
        self._written: dict[str, tuple[_Notice, ...]] = {}
        self.indexer.add_index(QUEUE, "parent", lambda queue: ((queue.get("spec") or {}).get("parent", ""),))

    def is_irrelevant(self, event: Event) -> bool:
        """Whether a queue has neither a budget nor conditions about one; its status changes all the time."""
        queue = event.object
        if BUDGET in annotations_of(queue) or key_of(queue).name in self._written:
            return False
        return not any(condition.get("type") in NOTICED_AT for condition in conditions_of(queue))

    def keys(self, event: Event) -> Iterable[str]:
        return (key_of(event.object).name,)

    def reconcile(self, name: str, now: Instant) -> Plan:
        queue = self.indexer.get(QUEUE, Key("", name))
        if queue is None or is_deleting(queue):
            self._written.pop(name, None)
            return NOTHING
        text = annotations_of(queue).get(BUDGET, "")
        if not text:
            self._written.pop(name, None)
            return Plan(self._removal(queue))
        try:
            budgets = parse_budgets(text)
        except ValueError:  # admission rejects it; an older queue may have it
            return NOTHING
        notices = self._notices(name, budgets, now.wall)
        if notices is None:
            return Plan((), CHECK_SECONDS)
        return Plan(self._writes(queue, notices, now), CHECK_SECONDS)

    def _notices(self, name: str, budgets: tuple[Budget, ...], now: float) -> tuple[_Notice, ...] | None:
        """What the conditions have to say; None while the usage is not known."""
        members = {name, *self._descendants(name)}
        parts: list[tuple[float, Budget]] = []
        for budget in budgets:
            usage = self._read_usage(budget.period, now)
            if usage is None:
                return None
            used = sum(usage.get((member, budget.resource), 0.0) for member in members)
            parts.append((used / budget.limit, budget))
        found = []
        for kind, threshold in NOTICED_AT.items():
            reached = [budget for part, budget in parts if part >= threshold]
            found.append(_notice(kind, reached, now))
        return tuple(found)

    def _descendants(self, name: str) -> Iterable[str]:
        waiting, seen = [name], {name}
        while waiting:
            parent = waiting.pop()
            children = list(self.indexer.by_index(QUEUE, "parent", parent))
            if parent == ROOT_QUEUE:
                children += list(self.indexer.by_index(QUEUE, "parent", ""))
            for child in (key_of(queue).name for queue in children):
                if child not in seen:
                    seen.add(child)
                    waiting.append(child)
                    yield child

    def _writes(self, queue: Manifest, notices: tuple[_Notice, ...], now: Instant) -> list[Operation]:
        name = key_of(queue).name
        before = {c.get("type"): c for c in conditions_of(queue)}
        # An API server with Volcano's own CRD drops conditions: they are not written again and again.
        if self._written.get(name) == notices or all(_is_said(before.get(n.type), n) for n in notices):
            self._written[name] = notices
            return []
        operations: list[Operation] = []
        for notice in notices:
            was_active = (before.get(notice.type) or {}).get("status") == "True"
            if notice.active and not (was_active and _is_said(before.get(notice.type), notice)):
                operations.append(
                    record_event(
                        queue,
                        QUEUE,
                        notice.type,
                        notice.message,
                        now,
                        source=SOURCE,
                        warning=True,
                        occasion="",
                    )
                )
        kept = [c for c in conditions_of(queue) if c.get("type") not in NOTICED_AT]
        said = [_condition(notice, before.get(notice.type), now) for notice in notices]
        operations.insert(
            0, Patch(QUEUE, key_of(queue), {"status": {"conditions": [*kept, *said]}}, "status")
        )
        self._written[name] = notices
        return operations

    def _removal(self, queue: Manifest) -> list[Operation]:
        known = conditions_of(queue)
        kept = [c for c in known if c.get("type") not in NOTICED_AT]
        if len(kept) == len(known):
            return []
        return [Patch(QUEUE, key_of(queue), {"status": {"conditions": kept}}, "status")]


def conditions_of(queue: Manifest) -> list[dict[str, Any]]:
    return list((queue.get("status") or {}).get("conditions") or ())


def _notice(kind: str, reached: list[Budget], now: float) -> _Notice:
    if not reached:
        return _Notice(kind, False, "WithinBudget", "")
    # The latest end: until then, at least one budget stays used up.
    end = max(period_end(budget.period, period_start(budget.period, now)) for budget in reached)
    names = ", ".join(budget.text for budget in reached)
    return _Notice(kind, True, kind, f"{PHRASES[kind].format(names)}; a new period begins {timestamp(end)}")


def _is_said(condition: Mapping[str, Any] | None, notice: _Notice) -> bool:
    status = "True" if notice.active else "False"
    if condition is None:
        return not notice.active
    return condition.get("status") == status and (condition.get("message") or "") == notice.message


def _condition(notice: _Notice, before: Mapping[str, Any] | None, now: Instant) -> Manifest:
    status = "True" if notice.active else "False"
    unchanged = before is not None and before.get("status") == status
    since = (before or {}).get("lastTransitionTime") if unchanged else None
    return {
        "type": notice.type,
        "status": status,
        "reason": notice.reason,
        "message": notice.message,
        "lastTransitionTime": since or now.timestamp(),
    }
