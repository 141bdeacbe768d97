"""Keeps the status of disruption budgets true to the pods they cover."""

from typing import Any

import orjson

from volcano.apiserver.janitor import Janitor
from volcano.apiserver.registry.disruption import (
    Standing,
    assess,
    covered_pods,
    replicas_of_owner,
    selector_of,
)
from volcano.apiserver.storage.history import Change, Record
from volcano.clock import Instant
from volcano.kube.kinds import (
    DEPLOYMENT,
    POD,
    POD_DISRUPTION_BUDGET,
    REPLICA_SET,
    REPLICATION_CONTROLLER,
    STATEFUL_SET,
)
from volcano.kube.manifest import Key, Manifest

_BUDGETS, _PODS = POD_DISRUPTION_BUDGET.resource, POD.resource  # asked for with every change
_SCALED = frozenset(kind.resource for kind in (DEPLOYMENT, REPLICA_SET, REPLICATION_CONTROLLER, STATEFUL_SET))


class BudgetKeeper(Janitor[Key]):
    """Tends disruption budgets. Costs next to nothing in namespaces that have none."""

    name = "budgets"

    def survey(self) -> None:
        for key in self.store.collection(_BUDGETS).keys:
            self.add(key)

    def observe(self, collection: str, change: Change) -> None:
        if collection == _BUDGETS:
            if change.new is not None:
                self.add(change.key)
        elif collection == _PODS:
            self._add_covering(change)
        elif collection in _SCALED:
            for key in self._budgets(change.key.namespace):
                self.add(key)

    async def tend(self, item: Key) -> None:
        record = self.store.get(_BUDGETS, item)
        if record is None:
            return
        budget = orjson.loads(record.data)
        replicas = replicas_of_owner(self.registry.lookup, self.registry.kinds)
        standing = assess(budget, covered_pods(self.store, budget), replicas)
        now = self.registry.clock.now()

        def restate(manifest: Manifest) -> None:
            manifest["status"] = status_of(manifest, standing, now)

        self.registry.edit(self.registry.kinds.served(POD_DISRUPTION_BUDGET), item, restate)

    def _budgets(self, namespace: str) -> list[Key]:
        return self.store.collection(_BUDGETS).range(namespace)

    def _add_covering(self, change: Change) -> None:
        for key in self._budgets(change.key.namespace):
            record = self.store.get(_BUDGETS, key)
            if record is not None and _concerns(record, change):
                self.add(key)


def status_of(budget: Manifest, standing: Standing, now: Instant) -> Manifest:
    """The status of a budget that stands like this."""
    before = budget.get("status") or {}
    allowed = standing.allowed > 0
    if standing.problem:
        reason, message = "SyncFailed", standing.problem
    else:
        reason, message = ("SufficientPods" if allowed else "InsufficientPods"), ""
    condition = {
        "type": "DisruptionAllowed",
        "status": "True" if allowed else "False",
        "observedGeneration": budget["metadata"].get("generation", 1),
        "lastTransitionTime": now.timestamp(),
        "reason": reason,
        "message": message,
    }
    conditions = list(before.get("conditions") or ())
    known = next((c for c in conditions if c.get("type") == "DisruptionAllowed"), None)
    if known is None:
        conditions.append(condition)
    else:
        if known.get("status") == condition["status"]:
            condition["lastTransitionTime"] = known["lastTransitionTime"]
        conditions[conditions.index(known)] = condition
    return {
        **{field: value for field, value in before.items() if field != "disruptedPods"},
        "observedGeneration": budget["metadata"].get("generation", 1),
        "disruptionsAllowed": standing.allowed,
        "currentHealthy": standing.healthy,
        "desiredHealthy": standing.desired,
        "expectedPods": standing.expected,
        "conditions": conditions,
    }


def _concerns(budget: Record, change: Change) -> bool:
    selector = selector_of(_decoded(budget))
    return any(side is not None and selector.matches(side.labels) for side in (change.old, change.new))


def _decoded(record: Record) -> Any:
    return orjson.loads(record.data)
