"""Faults: what is done without a plugin that fails on everybody, and what is better not done at all."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from volcano.scheduler.engine.plugin import Plugin

OPEN = "open"
# Questions about no job in particular: who fails on one of them fails on everybody.
SHARED = frozenset(("queue_order", "victim_queue_order", "overused", "victim_tasks"))

_PLACING = frozenset(
    (
        "allocatable", "job_short", "job_valid", "overused", "pre_predicate", "reject_nodes", "reject_nodes_now",
        "reserve",
    )
)  # fmt: skip
_EVICTING = _PLACING | {
    "job_pipelined", "job_starving", "preemptable", "preemptive", "reclaimable", "filter_victims", "unified_evictable",
}  # fmt: skip
# Action → the questions that set it limits. Without one of the answers the action is not run: a pod in the wrong place,
# or evicted by mistake, is worse than one that waits. An action from elsewhere is taken to evict.
LIMITS: Mapping[str, frozenset[str]] = {
    "enqueue": frozenset(("job_enqueueable",)),
    "allocate": _PLACING,
    "backfill": _PLACING,
    "shuffle": frozenset(("victim_tasks",)),
}


class PluginFault(Exception):
    """A plugin failed on a question about no job in particular."""

    def __init__(self, plugin: str, question: str, error: Exception) -> None:
        super().__init__(f"plugin {plugin} failed in {question}: {type(error).__name__}: {error}")
        self.plugin = plugin
        self.question = question


class Aside:
    """What plugins are not asked in this cycle, because they failed on it: a question, or all of them."""

    def __init__(self) -> None:
        self.reasons: dict[tuple[str, str], str] = {}

    def add(self, fault: PluginFault) -> None:
        self.reasons[fault.plugin, fault.question] = str(fault)

    def __contains__(self, what: tuple[str, str]) -> bool:
        plugin, question = what
        return (plugin, question) in self.reasons or (plugin, OPEN) in self.reasons

    def against(self, action: str, plugins: Iterable[tuple[str, type[Plugin]]]) -> tuple[str, str] | None:
        """The plugin without whose answers an action must not be run, and why; None when it may."""
        limits = LIMITS.get(action, _EVICTING)
        for name, plugin in plugins:
            for (failed, question), reason in self.reasons.items():
                if failed == name and any(overrides(plugin, limit) for limit in _named(question, limits)):
                    return name, reason
        return None


def overrides(plugin: type[Plugin], question: str) -> bool:
    """Whether a plugin answers a question at all."""
    return getattr(plugin, question) is not getattr(Plugin, question)


def guarded(plugin: str, question: str, ask: Callable[..., Any]) -> Callable[..., Any]:
    """The question, asked so that a failure names the plugin."""

    def answer(*subject: Any) -> Any:
        try:
            return ask(*subject)
        except Exception as error:
            raise PluginFault(plugin, question, error) from error

    return answer


def _named(question: str, limits: frozenset[str]) -> frozenset[str]:
    return limits if question == OPEN else limits & {question}
