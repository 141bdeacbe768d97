"""Shares of queues as the plugins of a configuration compute them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from volcano.model.resources import PODS, Vector, shown
from volcano.model.snapshot import Snapshot
from volcano.scheduler.engine.config import Config
from volcano.scheduler.engine.session import Session
from volcano.scheduler.plugins.capacity import Capacity
from volcano.scheduler.plugins.proportion import Proportion

# Divides the cluster among queues.
SharePlugin: TypeAlias = Proportion | Capacity


@dataclass(frozen=True, slots=True)
class PlannedShare:
    """Resources of one queue as manifests have them: what its jobs hold, what it deserves and may hold at most."""

    allocated: Mapping[str, str]
    deserved: Mapping[str, str]
    capability: Mapping[str, str]


def share_plugin(session: Session) -> SharePlugin | None:
    """The plugin of a session that divides the cluster among queues."""
    return next((each for each in session.policy.plugins if isinstance(each, Proportion | Capacity)), None)


def deserved_by(plugin: SharePlugin, queue: str) -> Vector:
    """What a queue deserves; nothing for a queue outside the tree."""
    if isinstance(plugin, Capacity):
        share = plugin.deserved.get(queue)
        return plugin.resources.zeros() if share is None else share.amount
    return plugin.deserved.get(queue, plugin.resources.zeros())


def shares(snapshot: Snapshot, config: Config) -> dict[str, PlannedShare]:
    """The share of each queue in a snapshot, by name. Without a plugin that computes what queues deserve, only what
    they hold is known."""
    plugin, index = share_plugin(Session(snapshot, config)), snapshot.resources

    def deserved(queue: str) -> dict[str, str]:
        # The root of a division by weight is the cluster itself.
        if plugin is None or queue not in plugin.deserved:
            return {}
        if isinstance(plugin, Proportion) and not plugin.tree.parent.get(queue):
            return {}
        vector = deserved_by(plugin, queue)
        return {
            name: shown(name, vector.item(column))
            for column, name in enumerate(index.names)
            if column != PODS and vector.item(column) < float("inf")
        }

    return {
        name: PlannedShare(
            in_manifests(index.amounts(snapshot.totals[name].allocated)),
            deserved(name),
            in_manifests(queue.capability),
        )
        for name, queue in snapshot.queues.items()
    }


def in_manifests(amounts: Mapping[str, float]) -> dict[str, str]:
    """Amounts as manifests have them, without the count of pods."""
    return {name: shown(name, amount) for name, amount in amounts.items() if name != "pods"}
