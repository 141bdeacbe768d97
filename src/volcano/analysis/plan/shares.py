"""Shares of queues as the plugins of a configuration compute them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from volcano.model.resources import shown
from volcano.model.snapshot import Snapshot
from volcano.scheduler.engine.config import Config
from volcano.scheduler.engine.session import Session

DESERVED = "queue_deserved_"
FIXED = {"milli_cpu": "cpu", "memory_bytes": "memory"}


@dataclass(frozen=True, slots=True)
class QueueShare:
    """Resources of one queue, in the units of the scheduler: what its jobs hold, and what it deserves."""

    queue: str
    allocated: Mapping[str, float] = field(default_factory=dict)
    deserved: Mapping[str, float] = field(default_factory=dict)
    capability: Mapping[str, float] = field(default_factory=dict)

    def as_data(self) -> dict[str, Any]:
        """The share with amounts as manifests have them."""
        return {
            "allocated": _shown(self.allocated),
            "deserved": _shown(self.deserved),
            "capability": _shown(self.capability),
        }


def shares(snapshot: Snapshot, config: Config) -> dict[str, QueueShare]:
    """The share of each queue in a snapshot, by name. Without a plugin that computes what queues deserve, only what
    they hold is known."""
    # Plugins measure only in cycles in which jobs changed.
    session = Session(replace(snapshot, changed=frozenset(snapshot.jobs)), config)
    session.close()
    deserved: dict[str, dict[str, float]] = {}
    for queue, resource, amount in _deserved(session):
        deserved.setdefault(queue, {})[resource] = amount
    return {
        name: QueueShare(
            name,
            snapshot.resources.amounts(snapshot.totals[name].allocated),
            deserved.get(name, {}),
            queue.capability,
        )
        for name, queue in snapshot.queues.items()
    }


def _deserved(session: Session) -> Iterator[tuple[str, str, float]]:
    for metric, labels, value in session.samples:
        if metric.startswith(DESERVED) and value is not None:
            resource = FIXED.get(metric.removeprefix(DESERVED)) or labels[1]
            yield labels[0], resource, value


def _shown(amounts: Mapping[str, float]) -> dict[str, str]:
    return {name: shown(name, amount) for name, amount in amounts.items() if name != "pods"}
