"""Plugins that fail: the cycle is retried without the failed hook, and actions that depend on it are skipped.

A job for which a plugin fails is skipped, and tried again with back-off.
"""

import traceback
import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from volcano.base.workqueue import Backoff
from volcano.scheduler.engine.plugin import HOOKS, Plugin, implements

OPEN = "open"
# Hooks that are not about one job: an error in one of them would fail every job.
GLOBAL_HOOKS = frozenset(("queue_order", "victim_queue_order", "overused", "victim_tasks"))

_PLACING = frozenset(
    (
        "allocatable", "job_short", "job_valid", "node_capacity", "overused", "pre_predicate", "reject_nodes",
        "reject_nodes_now", "reserve",
    )
)  # fmt: skip
_EVICTING = _PLACING | {
    "below_deserved", "filter_victims", "job_pipelined", "job_starving", "preemptable", "preemptive", "reclaim_allowed",
    "reclaim_opened", "reclaimable", "unified_evictable",
}  # fmt: skip
# Hooks that limit an action. When one of them failed, the action is skipped: a pod on the wrong node, or evicted by
# mistake, is worse than one that waits. An unknown action is assumed to evict.
LIMITS: Mapping[str, frozenset[str]] = {
    "enqueue": frozenset(("job_enqueueable",)),
    "allocate": _PLACING,
    "backfill": _PLACING,
    "shuffle": frozenset(("victim_tasks",)),
}


RETRY_BACKOFF = Backoff(first=1.0, longest=60.0)  # before a skipped job is tried again


class Fault(msgspec.Struct, frozen=True):
    """Error because of which a job is skipped, and when the job is tried again."""

    reason: str  # "plugin binpack failed in score_nodes: ValueError: ..."
    plugin: str = ""  # "" when the error is not in a plugin
    attempts: int = 1
    retry_at: float = 0.0  # seconds since the epoch
    config: int = 0  # checksum of the configuration it failed with

    @classmethod
    def of(cls, error: Exception, earlier: "Fault | None", now: float, config: int) -> "Fault":
        """The fault of a job that failed now, and `earlier` in a cycle before."""
        attempts = earlier.attempts + 1 if earlier is not None and earlier.config == config else 1
        plugin, hook = _origin(error)
        where = f"plugin {plugin} failed in {hook}: " if plugin else ""
        reason = f"{where}{type(error).__name__}: {error}"
        return cls(reason, plugin, attempts, now + RETRY_BACKOFF.delay(attempts - 1), config)

    def is_due(self, now: float, config: int) -> bool:
        """Whether the job is tried again: its back-off ended, or the configuration changed."""
        return now >= self.retry_at or config != self.config


def checksum(text: str) -> int:
    """Identifies a configuration."""
    return zlib.crc32(text.encode())


def _origin(error: Exception) -> tuple[str, str]:
    """Plugin and hook in which an error was raised; empty when it was raised elsewhere."""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        owner = frame.f_locals.get("self")
        if isinstance(owner, Plugin) and frame.f_code.co_name in HOOKS:
            return owner.name, frame.f_code.co_name
    return "", ""


class HookError(Exception):
    """An error in a hook that is not about one job."""

    def __init__(self, plugin: str, hook: str, error: Exception) -> None:
        super().__init__(f"plugin {plugin} failed in {hook}: {type(error).__name__}: {error}")
        self.plugin = plugin
        self.hook = hook


class FailedHooks:
    """Hooks that failed in this cycle and are not called again; `open` stands for all hooks of a plugin."""

    def __init__(self) -> None:
        self.reasons: dict[tuple[str, str], str] = {}

    def add(self, error: HookError) -> None:
        self.reasons[error.plugin, error.hook] = str(error)

    def __contains__(self, plugin_and_hook: tuple[str, str]) -> bool:
        plugin, hook = plugin_and_hook
        return (plugin, hook) in self.reasons or (plugin, OPEN) in self.reasons

    def blocking(self, action: str, plugins: Iterable[tuple[str, type[Plugin]]]) -> tuple[str, str] | None:
        """Returns the plugin without which an action must not run, and why; None when it may."""
        limits = LIMITS.get(action, _EVICTING)
        for name, plugin in plugins:
            for (failed, hook), reason in self.reasons.items():
                relevant = limits if hook == OPEN else limits & {hook}
                if failed == name and any(implements(plugin, limit) for limit in relevant):
                    return name, reason
        return None


def guarded(plugin: str, hook: str, call: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a hook so that any error becomes a HookError that names the plugin."""

    def guard(*subject: Any) -> Any:
        try:
            return call(*subject)
        except Exception as error:  # code of a plugin, which may raise anything
            raise HookError(plugin, hook, error) from error

    return guard
